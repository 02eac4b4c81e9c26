"""The instruction table as users see it: rows, and the families that they are written in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Modifier:
    """A modifier of an instruction, and the words that it may be."""

    name: str
    words: tuple[str, ...]
    optional: bool


@dataclass(frozen=True)
class CoveredRow:
    """A row of the instruction table.

    forms    the number of full opcodes that it covers
    vectors  its test vectors
    warp     whether it is an instruction of a whole warp
    file     the file that it is written in
    """

    syntax: str
    opcode: str
    modifiers: tuple[Modifier, ...]
    forms: int
    vectors: tuple[str, ...]
    warp: bool
    notes: str
    file: str
    manual: str

    def to_dict(self) -> dict[str, Any]:
        """The row, for JSON."""
        words = {m.name: list(m.words) for m in self.modifiers}
        return {**vars(self), "modifiers": words, "vectors": list(self.vectors)}


@dataclass(frozen=True)
class CoveredFamily:
    """The rows of one file of `weft.ptx.isa`."""

    name: str
    title: str
    rows: tuple[CoveredRow, ...]

    @property
    def opcodes(self) -> list[str]:
        return list(dict.fromkeys(row.opcode for row in self.rows))

    @property
    def forms(self) -> int:
        return sum(row.forms for row in self.rows)

    @property
    def vectors(self) -> int:
        return sum(len(row.vectors) for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """The family and its rows, for JSON."""
        facts = {"name": self.name, "title": self.title, "opcodes": self.opcodes}
        counts = {"forms": self.forms, "vectors": self.vectors}
        return {**facts, **counts, "rows": [row.to_dict() for row in self.rows]}


@dataclass(frozen=True)
class Coverage:
    """All families."""

    families: tuple[CoveredFamily, ...]

    @property
    def total(self) -> dict[str, int]:
        """The number of opcodes, rows, full opcodes and test vectors."""
        rows = [row for family in self.families for row in family.rows]
        return {
            "opcodes": len({row.opcode for row in rows}),
            "rows": len(rows),
            "forms": sum(family.forms for family in self.families),
            "vectors": sum(family.vectors for family in self.families),
        }

    def to_dict(self) -> dict[str, Any]:
        """The totals and the families, for JSON."""
        return {"total": self.total, "families": [f.to_dict() for f in self.families]}


@dataclass(frozen=True)
class CoveredOpcode:
    """The row that accepts a full opcode, and the words that it reads from it."""

    opcode: str
    row: CoveredRow
    words: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """The row and the words, for JSON."""
        return {**self.row.to_dict(), "words": dict(self.words)}
