"""NVRTC's log as a `CompileError`: the first error with its place, its source line and a caret."""

from __future__ import annotations

import re

from weft.errors import CompileError
from weft.source import headers

_ERROR = re.compile(
    r"^(?P<file>[^\n]+?)\((?P<line>\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<what>[^\n]*)"
    r"(?P<quote>(?:\n[ \t]+[^\n]*){0,2})",
    re.MULTILINE,
)
_OWN_ERROR = re.compile(r"^nvrtc: error: (.*)", re.MULTILINE)
_EXPRESSION_FILE, _EXPRESSION = "__nv_name_map", "#pragma nv_mangled_name "
_MISSING_HEADER = re.compile(r'cannot open source file "([^"]+)"')
_HOST_FUNCTION = "execution space annotations"


def error(log: str, name: str) -> CompileError:
    """The error to raise for a log; `name` is the compiled file, where the log names none."""
    found = list(_ERROR.finditer(log))
    if found:
        result = _located(found[0], len(found) - 1)
    else:
        own = _OWN_ERROR.search(log)
        result = CompileError(own[1] if own else log.partition("\n")[0], where=name)
    result.log = log
    return result


def _located(first: re.Match[str], others: int) -> CompileError:
    what, quote, next = first["what"], first["quote"], ""
    where = f"{first['file']}:{first['line']}"
    if first["file"] == _EXPRESSION_FILE:
        where, quote = "name expression", _without_pragma(quote)
    if missing := _MISSING_HEADER.search(what):
        what, next = headers.advice(missing[1])
    elif _HOST_FUNCTION in what:
        what = "a function of the host in device code"
        next = "mark it __device__, or guard it with #ifndef __CUDACC_RTC__"
    if others:
        quote += f"\n  and {others} more error{'s' * (others > 1)}: see .log"
    return CompileError(what + quote, where=where, next=next)


def _without_pragma(quote: str) -> str:
    """A quoted name expression as the user wrote it, its caret moved along."""
    lines = quote.split("\n")
    at = lines[1].find(_EXPRESSION) if len(lines) == 3 else -1
    if at < 0:
        return quote
    cut = slice(at, at + len(_EXPRESSION))
    return "\n".join(["", *(line[: cut.start] + line[cut.stop :] for line in lines[1:])])
