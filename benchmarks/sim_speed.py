"""How fast the simulated GPU is, against C++ written by hand and against other simulators.

    python benchmarks/sim_speed.py [--quick] [--only NAME] [--json] [--record]

Contenders take turns; a ratio is the median over rounds run side by side. Against C++ on one core
it is taken from processor time, which other processes on the machine disturb least; from one core
to two it is taken from the clock, and means something on a machine with two idle cores only.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from simspeed.cases import CASES
from simspeed.contest import Result, contest
from simspeed.table import speed_table


def main(
    quick: Annotated[bool, typer.Option(help="Three rounds, smaller sizes only.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="Cases whose name contains this.")] = None,
) -> None:
    """Times the simulated GPU and shows the targets it is held to."""
    console = Console()
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as temporary, console.status("") as status:
        for case in CASES:
            if only and not any(o in case.name for o in only):
                continue
            if quick and case.name.endswith("1024"):
                continue
            status.update(case.name)
            rounds, seconds = (3, 0.5) if quick else (5, 3.0)
            results.append(contest(case, Path(temporary), rounds=rounds, seconds=seconds))
    console.print(speed_table(results))


if __name__ == "__main__":
    typer.run(main)
