"""Reports compiler warnings as `weft.CompileWarning`."""

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
"""NVRTC's warning for unreferenced symbols; kernels are referenced from Python."""
_PACKAGE = str(Path(__file__).parents[1])
_MOST = 8
"""The most warnings shown per source."""
_shown: set[str] = set()
"""Warnings already shown: each template instance compiles the whole source again."""


def read(log: str, files: Sequence[scan.File]) -> tuple[str, ...]:
    """Warnings about the user's files, without the text that weft appends."""
    lengths = {file.name: file.text.count("\n") + 1 for file in files}
    return tuple(
        f"{w['file']}:{w['line']}: {w['what']} (#{w['number']}){w['quote']}"
        for w in _WARNING.finditer(log)
        if int(w["line"]) <= lengths.get(w["file"], 0) and not _of_weft(w["what"])
    )


def _of_weft(what: str) -> bool:
    """True for warnings caused by weft, e.g. a user's macro NAN that redefines weft's."""
    return _HOST_SIDE.match(what) is not None or headers.CONSTANTS in what


def show(remarks: Iterable[str]) -> None:
    """Show warnings that are new in this process, as one Python warning."""
    new = [text for text in dict.fromkeys(remarks) if text not in _shown]
    if not new:
        return
    numbers = ",".join(dict.fromkeys(re.findall(r"\(#(\d+)\)", "\n".join(new))))
    advice = f"  next: fix it, or suppress it: options=['--diag-suppress={numbers}']"
    more = [f"… and {len(new) - _MOST} more"] if len(new) > _MOST else []
    text = "\n".join([*new[:_MOST], *more, advice])
    warnings.warn(CompileWarning(text), stacklevel=_outside())
    _shown.update(new)  # after the warning: if warnings are errors, each compile must fail


def _outside() -> int:
    """The stack level of the code that called weft, for Python's warning."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level
