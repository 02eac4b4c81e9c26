"""Extracts the instructions and labels of one kernel from its PTX text."""

from __future__ import annotations

import re
from collections.abc import Sequence

_LABEL = re.compile(r"^\s*([\w$%]+):")

Listing = tuple[tuple[int, str], ...]


def listing(text: str, numbers: Sequence[int]) -> Listing:
    """(line number, text) of these lines and of the labels between them."""
    if not numbers:
        return ()
    lines, wanted = text.splitlines(), set(numbers)
    first, last = min(wanted), min(max(wanted), len(lines))
    out = []
    for number in range(first, last + 1):
        line = lines[number - 1]
        # Labels have no instruction, but branches refer to them.
        if number in wanted or _LABEL.match(line):
            out.append((number, line.strip()))
    return tuple(out)
