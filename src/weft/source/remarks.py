"""What the compiler warns of in a source that it accepts, as a `weft.CompileWarning`."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

from weft.errors import CompileWarning
from weft.source import headers, scan

_WARNING = re.compile(
    r"^(?P<file>[^\n]+?)\((?P<line>\d+)\): warning #(?P<number>\d+)(?:-D)?: (?P<what>[^\n]*)"
    r"(?P<quote>(?:\n[ \t]+[^\n]*){0,2})",
    re.MULTILINE,
)
_HOST_SIDE = re.compile(r'(function ".*"|variable ".*::.*") was declared but never referenced')
"""Kernels and variables of one file only: they are referenced from Python."""
_PACKAGE = str(Path(__file__).parents[1])
_MOST = 8
"""Warnings that are shown of a source."""
_shown: set[str] = set()
"""What this process has warned of: instances of a template are compiled with the whole source."""


def read(log: str, files: Sequence[scan.File]) -> tuple[str, ...]:
    """The warnings about the user's own files; what weft adds at their end is not among them."""
    lengths = {file.name: file.text.count("\n") + 1 for file in files}
    return tuple(
        f"{w['file']}:{w['line']}: {w['what']} (#{w['number']}){w['quote']}"
        for w in _WARNING.finditer(log)
        if int(w["line"]) <= lengths.get(w["file"], 0) and not _of_weft(w["what"])
    )


def _of_weft(what: str) -> bool:
    """Is this due to how weft compiles? A macro like NAN of the user's own replaces weft's."""
    return _HOST_SIDE.match(what) is not None or headers.CONSTANTS in what


def show(remarks: Iterable[str]) -> None:
    """Warns of what this process has not been told yet, in one Python warning."""
    new = [text for text in dict.fromkeys(remarks) if text not in _shown]
    if not new:
        return
    numbers = ",".join(dict.fromkeys(re.findall(r"\(#(\d+)\)", "\n".join(new))))
    advice = f"  next: fix it, or suppress it: options=['--diag-suppress={numbers}']"
    more = [f"… and {len(new) - _MOST} more"] if len(new) > _MOST else []
    text = "\n".join([*new[:_MOST], *more, advice])
    warnings.warn(CompileWarning(text), stacklevel=_outside())
    _shown.update(new)  # not before: where warnings are errors, each compile must fail


def _outside() -> int:
    """The stack level of the code that called weft, so that Python names its line."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level
