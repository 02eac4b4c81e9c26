"""Output for terminals without Unicode: similar ASCII characters are printed instead."""

from __future__ import annotations

import codecs
import io
import sys

_NAME = "weft.near"
_NEAR = {
    "µ": "u", "…": "...", "→": "->", "±": "+-", "·": ".", "√": "sqrt ", "≥": ">=",
    "≤": "<=", "✓": "ok", "✗": "x", "─": "-", "│": "|", "├": "|", "└": "`", "█": "#", "▓": "#",
    "▒": "+", "░": ".",
}  # fmt: skip


def settle(*names: str) -> None:
    """Make these streams of `sys` print ASCII for characters that they cannot encode."""
    codecs.register_error(_NAME, _near)
    for name in names:
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and not is_complete(stream.encoding):
            stream.reconfigure(errors=_NAME)


def is_complete(encoding: str) -> bool:
    """Return True if an encoding has every character."""
    return codecs.lookup(encoding).name.startswith("utf")


def _near(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    missing = error.object[error.start : error.end]
    return "".join(_NEAR.get(c, "?") for c in missing), error.end
