"""`weft isa`: list the PTX instructions that the simulated GPU executes."""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli import show
from weft.report import coverage as report
from weft.tasks import coverage


def run(
    opcode: Annotated[
        str | None, typer.Argument(help="An opcode (mad), or one with modifiers (mad.lo.s32).")
    ] = None,
    json: show.Json = False,
) -> None:
    """List the PTX instructions that are covered, or show the rows of one opcode."""
    if opcode is None:
        everything = coverage.coverage()
        show.result(json, everything.to_dict, report.summary(everything))
        return
    found = coverage.of_opcode(opcode)
    show.result(
        json,
        lambda: [r.to_dict() for r in found] if isinstance(found, list) else found.to_dict(),
        report.opcode(found),
    )
