"""The `.section`s of PTX as bytes: debug information that a compiler writes as text.

A word may name a label of the code. The address of a label is the number of its line in the text,
as `Instruction.ptx_line` counts, so that ranges of addresses are ranges of PTX lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_SECTION = re.compile(r"^[ \t]*\.section[ \t]+\.(debug_\w+)\s*\{([^{}]*)\}", re.M | re.A)
_COMMENT = re.compile(r"//[^\n]*")
_ITEM = re.compile(r"\.b(8|16|32|64)\s+([^\n]+)|([$\w]+)\s*:", re.A)
_LABEL = re.compile(r"^[ \t]*([$%\w]+):", re.M | re.A)
_SUM = re.compile(r"([$.%\w]+)\s*(?:\+\s*(\d+))?\Z", re.A)


@dataclass
class Section:
    """The bytes of a section; `symbols` has the symbol that a word at an offset names."""

    data: bytearray = field(default_factory=bytearray)
    symbols: dict[int, str] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)


def sections(text: str) -> dict[str, Section]:
    """The sections of debug information, by name without the dot."""
    found: dict[str, Section] = {}
    for name, body in _SECTION.findall(text):
        section = found.setdefault(name, Section())
        for size, values, label in _ITEM.findall(_COMMENT.sub("", body)):
            if label:
                section.labels[label] = len(section.data)
                continue
            for value in values.split(","):
                _add(section, value.strip(), int(size) // 8)
    return found


def lines_of_labels(text: str) -> dict[str, int]:
    """The line of each label of the code."""
    lines: dict[str, int] = {}
    line, at = 1, 0
    for mark in _LABEL.finditer(text):
        line += text.count("\n", at, mark.start(1))
        at = mark.start(1)
        lines.setdefault(mark.group(1), line)
    return lines


def _add(section: Section, value: str, size: int) -> None:
    number = 0
    if value.lstrip("-").isdecimal():
        number = int(value)
    else:
        named = _SUM.match(value)
        if named is not None:
            section.symbols[len(section.data)] = named.group(1)
            number = int(named.group(2) or 0)
    section.data += (number & ((1 << 8 * size) - 1)).to_bytes(size, "little")
