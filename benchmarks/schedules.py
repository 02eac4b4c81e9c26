"""Measures the cost of schedules: launches under random schedules, against plain ones.

    python benchmarks/schedules.py [--only NAME]

Times are of the processor, on one core and of drafts, as checks run them; the best of three rounds
for plain launches, the mean of three schedules for the others.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from simspeed.cases import CASES, Case

import weft

HERE = Path(__file__).parent
SETTINGS = {"WEFT_THREADS": "1", "WEFT_DRAFTS": "1"}
SEEDS = (1, 2, 3)
LARGEST = 5.0
"""Times the plain simulation (geometric mean), at most."""


def main(only: Annotated[str, typer.Option(help="Cases with this in their name.")] = "") -> None:
    """Time the kernels of benchmarks/kernels plainly and under schedules."""
    os.environ.update(SETTINGS)
    table = Table("kernel", "plain ms", "scheduled ms", "times")
    ratios = []
    for case in (c for c in CASES if only in c.name and not c.slow):
        plain, scheduled = measure(case)
        ratios.append(scheduled / plain)
        table.add_row(
            case.name, f"{1e3 * plain:.1f}", f"{1e3 * scheduled:.1f}", f"{ratios[-1]:.2f}"
        )
    Console().print(table)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean {mean:.2f} x (at most {LARGEST} x), largest {max(ratios):.2f} x")


def measure(case: Case) -> tuple[float, float]:
    """Seconds of a kernel, plain and under schedules."""
    kernel = weft.cuda(HERE / "kernels" / f"{case.kernel}.cu").kernel(case.kernel)
    problem = case.build()

    def launch(grid: Any, block: Any, *args: Any) -> None:
        kernel[grid, block](*args)

    def run() -> float:
        begin = time.process_time()
        problem.run(launch)
        return time.process_time() - begin

    run()  # the compiler's time is no part of it
    plain = min(run() for _ in SEEDS)
    _under("first", run)
    return plain, sum(_under(f"random:{seed}", run) for seed in SEEDS) / len(SEEDS)


def _under(schedule: str, run: Callable[[], float]) -> float:
    with weft.schedule(schedule):
        return run()


if __name__ == "__main__":
    typer.run(main)
