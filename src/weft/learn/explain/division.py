"""Finds divisions of integers whose quotient is used as a number with a fraction."""

from __future__ import annotations

import re
from typing import NamedTuple

from weft.source import scan

_DECLARED = re.compile(
    r"\b(?:unsigned|signed|int|long|short|char|size_t|u?int(?:8|16|32|64)_t)\s+"
    r"(\w+(?:\s*=[^,;()]*)?(?:\s*,\s*\w+(?:\s*=[^,;()]*)?)*)"
)
_DIVISION = re.compile(r"(?<![\w.)\]])(\w+)\s*/\s*(\w+)(?![\w.(\[])")
_FLOATING = re.compile(r"\b(?:float|double|half|__half)\b|\d\.\d*|\.\d")


class Division(NamedTuple):
    """A line that divides integers, and the two operands as they are written."""

    line: int
    text: str
    above: str
    below: str


def find(source: str, outputs: tuple[str, ...]) -> Division | None:
    """The first line of CUDA C++ that divides integers and makes a fraction of the quotient.

    Such a line writes an array of floats, which `outputs` names, or has a float in it. Literals
    that divide without a rest do not count, nor do indices.
    """
    code = scan.without_comments(source)
    declared = (part for match in _DECLARED.finditer(code) for part in match[1].split(","))
    names = {part.split("=")[0].strip() for part in declared}
    for number, line in enumerate(code.splitlines(), 1):
        value = _without_indices(line)
        floating = _FLOATING.search(value) or any(
            re.search(rf"\b{name}\s*\[[^]]*\]\s*[-+*/]?=(?!=)", line) for name in outputs
        )
        for match in _DIVISION.finditer(value) if floating else ():
            above, below = match.groups()
            if _is_whole(above, names) and _is_whole(below, names) and _rests(above, below):
                text = source.splitlines()[number - 1].strip()
                return Division(number, text, above, below)
    return None


def _without_indices(line: str) -> str:
    """A line without what is in brackets: indices are whole numbers."""
    return re.sub(r"\[[^][]*\]", "[]", line)


def _is_whole(word: str, names: set[str]) -> bool:
    return word in names or word.isdecimal()


def _rests(above: str, below: str) -> bool:
    """False for two literals that divide without a rest."""
    both = above.isdecimal() and below.isdecimal() and int(below) != 0
    return not both or int(above) % int(below) != 0
