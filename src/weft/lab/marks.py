"""Turns errors and findings into marks: a line of the editor, a severity and a text."""

from __future__ import annotations

import re
import traceback
from typing import Any

from weft.errors import CheckFailed, CompileError, DeviceError, Error
from weft.lab.job import own
from weft.values.findings import Finding

Mark = dict[str, Any]
_LOG = re.compile(r"kernel\.(?:cu|py)\((\d+)\): (error|warning)[^:]*: (.*)")
_GRADED = re.compile(r"\bLine (\d+) has ")
_PLACE = re.compile(r"(?:kernel\.cu|\w+\.py)[:(](\d+)")


def mark(line: int, text: str, severity: str = "error") -> Mark:
    """One mark; the line counts from 1."""
    return {"line": line, "severity": severity, "text": text}


def of_error(error: BaseException) -> dict[str, Any]:
    """An error for the page: its text, its kind, and its marks."""
    kind = next(c.__name__ for c in type(error).__mro__ if not c.__name__.startswith("_"))
    text = str(error) if isinstance(error, Error) else f"{kind}: {error}"
    notes = getattr(error, "__notes__", [])
    return {"kind": kind, "text": "\n".join([text, *notes])[:20_000], "marks": _marks(error, text)}


def _marks(error: BaseException, text: str) -> list[Mark]:
    if isinstance(error, CompileError):
        logged = [mark(int(n), what, kind) for n, kind, what in _LOG.findall(error.log)]
        if logged:
            return logged
    places = [error.writer] if isinstance(error, CheckFailed) else []
    places += [error.line] if isinstance(error, DeviceError) else []
    if isinstance(error, Error):
        places += [error.where, text]
    if match := _GRADED.search(text):
        return [mark(int(match[1]), text)]
    for place in places:
        if match := _PLACE.search(place):
            return [mark(int(match[1]), text)]
    frames = traceback.extract_tb(error.__traceback__)
    own = [f.lineno for f in frames if f.filename.endswith("kernel.py") and f.lineno]
    if isinstance(error, SyntaxError) and error.lineno:
        own = [error.lineno]
    return [mark(own[-1], text)] if own else []


def of_finding(finding: Finding) -> list[Mark]:
    """A mark at every line that takes part; each names both threads."""
    text = str(finding)
    return [
        mark(n, text)
        for n in dict.fromkeys(a.number for a in finding.accesses if a.number and own(a.file))
    ]


def of_warning(text: str) -> list[Mark]:
    """A compiler warning."""
    match = _PLACE.search(text)
    return [mark(int(match[1]), text, "warning")] if match else []
