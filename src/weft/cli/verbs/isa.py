"""`weft isa`: list the PTX instructions that the simulated GPU executes."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from weft.cli import coverage, show
from weft.cli.coverage import Family
from weft.ptx.isa import Decoded, InstructionRow, lookup, rows


def run(
    opcode: Annotated[
        str | None, typer.Argument(help="An opcode (mad), or one with modifiers (mad.lo.s32).")
    ] = None,
    json: show.Json = False,
) -> None:
    """List the PTX instructions that are covered, or show the rows of one opcode."""
    if opcode is None:
        _summary(coverage.families(), json)
    # Before `lookup`, which gives one row: a base opcode such as `exit` may be complete by itself.
    elif matches := rows(opcode):
        _rows(matches, json)
    elif decoded := lookup(opcode.split(".")):
        _match(opcode, decoded, json)
    else:
        raise coverage.near(opcode)


def _summary(families: list[Family], json: bool) -> None:
    total = {
        "opcodes": len({row.base for row in rows()}),
        "rows": len(rows()),
        "forms": sum(family.forms for family in families),
        "vectors": sum(family.vectors for family in families),
    }
    if json:
        show.data({"total": total, "families": [_family(family) for family in families]})
        return
    show.table(
        ("file", "opcodes", "rows", "full opcodes", "test vectors"),
        (
            (f.name, " ".join(f.opcodes), str(len(f.rows)), f"{f.forms:,}", str(f.vectors))
            for f in families
        ),
        right=("rows", "full opcodes", "test vectors"),
    )
    show.line(
        f"\n{total['opcodes']} opcodes in {total['rows']} rows: {total['forms']:,} full opcodes, "
        f"optional modifiers of memory and warp instructions are not counted; "
        f"{total['vectors']} test vectors.\n"
        "`weft isa mad` shows the rows of an opcode, `weft isa mad.lo.s32` one row."
    )


def _rows(matches: list[InstructionRow], json: bool) -> None:
    if json:
        show.data([_facts(row) for row in matches])
        return
    for row in matches:
        _describe(row)


def _match(opcode: str, decoded: Decoded, json: bool) -> None:
    if json:
        words = {name: word for name, word in decoded.words.items() if word}
        show.data({"opcode": opcode, **_facts(decoded.row), "words": words})
        return
    show.line(f"{opcode} is covered by this row:\n")
    _describe(decoded.row)


def _describe(row: InstructionRow) -> None:
    show.line(row.syntax, "bold")
    for name, words, optional in coverage.modifiers(row):
        show.line(f"  .{name:<9} {' '.join(words)}{'  (optional)' if optional else ''}")
    if row.notes:
        show.line(f"  {row.notes}")
    for vector in row.vectors:
        show.line(f"  test       {vector}", "green")
    show.line(f"  row        {_file(row)}", "dim")
    show.line(f"  manual     {row.manual}\n", "dim")


def _family(family: Family) -> dict[str, Any]:
    return {
        "name": family.name,
        "title": family.title,
        "opcodes": family.opcodes,
        "forms": family.forms,
        "vectors": family.vectors,
        "rows": [_facts(row) for row in family.rows],
    }


def _facts(row: InstructionRow) -> dict[str, Any]:
    return {
        "syntax": row.syntax,
        "opcode": row.base,
        "modifiers": {name: words for name, words, _ in coverage.modifiers(row)},
        "forms": coverage.forms(row),
        "vectors": list(row.vectors),
        "warp": row.warp,
        "notes": row.notes,
        "file": _file(row),
        "manual": row.manual,
    }


def _file(row: InstructionRow) -> str:
    return coverage.home(row).replace(".", "/") + ".py"
