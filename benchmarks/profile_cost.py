"""What `weft.profile` costs, against the same launch without it.

    python benchmarks/profile_cost.py [--only NAME] [--json] [--record]

Both take turns on one core; a ratio is the median over rounds of processor times taken side by
side. Code is compiled beforehand. A profile is counted up to its totals, which most uses read; its
lines, samples and views are computed when they are read.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

os.environ.update(WEFT_THREADS="1", WEFT_DRAFTS="0")

import typer
from rich.console import Console
from rich.table import Table
from simspeed.cases import CASES, Case, product
from simspeed.machine import describe

import weft

RECORDS = Path(__file__).with_name("records") / "profile_cost.jsonl"
KERNELS = Path(__file__).with_name("kernels")
NARROW = Case(
    "sgemm_naive 512, blocks 16 x 16", "sgemm_naive", product(512, (16, 16), (16, 16)),
    2.0 * 512**3, "flop", [],
)  # fmt: skip
"""A warp reads from two rows of A: neither one address nor neighbours."""
LEAST_ROUNDS, SECONDS = 3, 3.0


def main(
    only: Annotated[str, typer.Option(help="Cases with this in their name.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="The record, not a table.")] = False,
    record: Annotated[bool, typer.Option("--record", help=f"Append to {RECORDS.name}.")] = False,
) -> None:
    """Times each case with and without a profile."""
    rows = [compare(case) for case in [*CASES, NARROW] if only in case.name and not case.slow]
    mean = math.exp(statistics.fmean(math.log(r["times"]) for r in rows))
    done = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe(),
        "cases": rows,
        "mean": mean,
    }
    if record:
        with RECORDS.open("a") as file:
            file.write(json.dumps(done) + "\n")
    if as_json:
        print(json.dumps(done, indent=1))
        return
    table = Table("case", "plain", "profiled", "times")
    for r in rows:
        table.add_row(
            r["name"], f"{r['plain']:.3f} s", f"{r['profiled']:.3f} s", f"{r['times']:.2f}"
        )
    table.add_row("geometric mean", "", "", f"{mean:.2f}")
    Console(width=None if sys.stdout.isatty() else 90).print(table)


def compare(case: Case) -> dict[str, Any]:
    """One case: median times, and the median of their ratios."""
    kernel = getattr(weft.cuda(KERNELS / f"{case.kernel}.cu"), case.kernel)
    problem = case.build()

    def plain(grid: Any, block: Any, *args: Any) -> None:
        kernel[grid, block](*args)

    def profiled(grid: Any, block: Any, *args: Any) -> None:
        weft.profile(kernel[grid, block], *args).totals  # noqa: B018

    calls = (plain, profiled)
    for call in calls:
        problem.run(call)
    times: list[tuple[float, float]] = []
    begun = time.perf_counter()
    while len(times) < LEAST_ROUNDS or time.perf_counter() - begun < SECONDS:
        a, b = (_timed(lambda call=call: problem.run(call)) for call in calls)
        times.append((a, b))
    return {
        "name": case.name,
        "plain": statistics.median(a for a, _ in times),
        "profiled": statistics.median(b for _, b in times),
        "times": statistics.median(b / a for a, b in times),
        "rounds": len(times),
    }


def _timed(action: Callable[[], None]) -> float:
    begun = time.process_time()
    action()
    return time.process_time() - begun


if __name__ == "__main__":
    typer.run(main)
