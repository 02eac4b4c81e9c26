"""Formats the coverage of PTX by the instruction table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.report.words import Block, Table
from weft.values.coverage import Coverage, CoveredOpcode, CoveredRow

_COLUMNS = ("file", "opcodes", "rows", "full opcodes", "test vectors")


def summary(coverage: Coverage) -> Iterator[Block]:
    """One row per family, and the totals."""
    rows = [
        (f.name, " ".join(f.opcodes), str(len(f.rows)), f"{f.forms:,}", str(f.vectors))
        for f in coverage.families
    ]
    yield Table(_COLUMNS, rows, _COLUMNS[2:])
    total = coverage.total
    yield (
        f"\n{total['opcodes']} opcodes in {total['rows']} rows: {total['forms']:,} full opcodes, "
        f"optional modifiers of memory and warp instructions are not counted; "
        f"{total['vectors']} test vectors.\n"
        "`weft isa mad` shows the rows of an opcode, `weft isa mad.lo.s32` one row.",
        "",
    )


def opcode(found: Sequence[CoveredRow] | CoveredOpcode) -> Iterator[Block]:
    """The rows of an opcode."""
    if isinstance(found, CoveredOpcode):
        yield f"{found.opcode} is covered by this row:\n", ""
        found = [found.row]
    for row in found:
        yield from _row(row)


def _row(row: CoveredRow) -> Iterator[Block]:
    yield row.syntax, "bold"
    for m in row.modifiers:
        yield f"  .{m.name:<9} {' '.join(m.words)}{'  (optional)' if m.optional else ''}", ""
    if row.notes:
        yield f"  {row.notes}", ""
    for vector in row.vectors:
        yield f"  test       {vector}", "green"
    yield f"  row        {row.file}", "dim"
    yield f"  manual     {row.manual}\n", "dim"
