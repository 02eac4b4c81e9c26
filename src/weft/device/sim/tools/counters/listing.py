"""The instructions of a kernel as JSON: what they are, in which block, from which source line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.ptx.model import Instruction
from weft.values import SourceLine


class Listing:
    """Gathers instructions; source lines are numbered, since many instructions share one."""

    def __init__(self) -> None:
        self._instructions: list[list[Any]] = []
        self._lines: list[list[Any]] = []
        self._numbers: dict[SourceLine, int] = {}

    def add(self, ins: Instruction, block: int) -> None:
        guard = "" if ins.guard is None else f"@{'!' * ins.guard_negated}{ins.guard}"
        line = self._number(ins.loc)
        self._instructions.append(
            [ins.index, block, guard, ins.opcode, ins.text, ins.ptx_line, line]
        )

    def _number(self, line: SourceLine | None) -> int:
        if line is None:
            return -1
        if line not in self._numbers:
            outer = self._number(line.inlined_at)
            self._numbers[line] = len(self._lines)
            self._lines.append(
                [line.file, line.line, line.column, outer, line.function, line.quote]
            )
        return self._numbers[line]

    def notes(self) -> Mapping[str, Any]:
        return {"instructions": self._instructions, "lines": self._lines}


def source_lines(rows: Sequence[Sequence[Any]]) -> list[SourceLine]:
    """The lines of a listing, as they were; an outer one always comes first."""
    out: list[SourceLine] = []
    for file, line, column, outer, function, quote in rows:
        around = out[outer] if outer >= 0 else None
        out.append(SourceLine(file, line, column, around, function, quote))
    return out
