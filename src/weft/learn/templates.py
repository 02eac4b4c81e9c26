"""Finds the templates in a CUDA C++ source."""

from __future__ import annotations

import re

from weft.source import scan

_TEMPLATE = re.compile(r"\btemplate\s*<")


def lines(text: str) -> frozenset[int]:
    """The numbers of the lines that lie in templates: functions and structs with parameters."""
    code = scan.without_comments(text)
    out: set[int] = set()
    for match in _TEMPLATE.finditer(code):
        start, end = match.start(), _end(code, match.end())
        first = code.count("\n", 0, start) + 1
        out.update(range(first, first + code.count("\n", start, end) + 1))
    return frozenset(out)


def _end(code: str, at: int) -> int:
    """The end of the body of a template; a declaration without one ends at its semicolon."""
    depth = 0
    for place in range(at, len(code)):
        if code[place] == ";" and depth == 0:
            return place
        depth += {"{": 1, "}": -1}.get(code[place], 0)
        if code[place] == "}" and depth == 0:
            return place
    return len(code)
