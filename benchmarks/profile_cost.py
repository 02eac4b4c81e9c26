"""Measures the cost of `weft.profile`, against the same launch without it.

    python benchmarks/profile_cost.py [--only NAME] [--json] [--record]

All take turns on one core; a ratio is the median over rounds of processor times taken side by
side. Code is compiled beforehand. A profile computes its parts when they are read: once its totals
are read (`times`), which most uses need, and once all parts are (`whole_times`). Last, the time on
the GPU is predicted of these parts; `prediction` is what this adds to the whole profile.
"""

from __future__ import annotations

import dataclasses
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
from weft.measure.profile.result import Profile

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
    """Time each case with and without a profile."""
    rows = [compare(case) for case in [*CASES, NARROW] if only in case.name and not case.slow]
    mean, whole = (
        math.exp(statistics.fmean(math.log(r[name]) for r in rows))
        for name in ("times", "whole_times")
    )
    most = max(r["prediction"] for r in rows)
    done = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe(),
        "cases": rows,
        "mean": mean,
        "whole_mean": whole,
        "most_prediction": most,
    }
    if record:
        with RECORDS.open("a") as file:
            file.write(json.dumps(done) + "\n")
    if as_json:
        print(json.dumps(done, indent=1))
        return
    table = Table("case", "plain", "totals", "times", "all parts", "times", "prediction")
    for r in rows:
        times = (f"{r[name]:.2f}" for name in ("times", "whole_times"))
        plain, totals, parts = (f"{r[name]:.3f} s" for name in ("plain", "profiled", "whole"))
        added = f"+{r['prediction']:.1%}"
        table.add_row(r["name"], plain, totals, next(times), parts, next(times), added)
    table.add_row("geometric mean; most", "", "", f"{mean:.2f}", "", f"{whole:.2f}", f"+{most:.1%}")
    Console(width=None if sys.stdout.isatty() else 90).print(table)


def compare(case: Case) -> dict[str, Any]:
    """One case: median times, and the median of their ratios."""
    kernel = getattr(weft.cuda(KERNELS / f"{case.kernel}.cu"), case.kernel)
    problem = case.build()

    def plain(grid: Any, block: Any, *args: Any) -> None:
        kernel[grid, block](*args)

    def profiled(grid: Any, block: Any, *args: Any) -> None:
        weft.profile(kernel[grid, block], *args).totals  # noqa: B018

    def whole(grid: Any, block: Any, *args: Any) -> Profile:
        p = weft.profile(kernel[grid, block], *args)
        for part in dataclasses.fields(p):
            getattr(p, part.name)
        return p

    def predicted(grid: Any, block: Any, *args: Any) -> None:
        nonlocal added
        p = whole(grid, block, *args)
        added = _timed(lambda: p.predicted)

    added = 0.0
    calls = (plain, profiled, whole, predicted)
    for call in calls:
        problem.run(call)
    times: list[tuple[float, ...]] = []
    begun = time.perf_counter()
    while len(times) < LEAST_ROUNDS or time.perf_counter() - begun < SECONDS:
        row = [_timed(lambda call=call: problem.run(call)) for call in calls]
        times.append((*row[:3], added / (row[3] - added)))
    medians = (statistics.median(column) for column in zip(*times, strict=True))
    return {
        "name": case.name,
        **dict(zip(("plain", "profiled", "whole", "prediction"), medians, strict=True)),
        "times": statistics.median(b / a for a, b, *_ in times),
        "whole_times": statistics.median(c / a for a, _, c, _ in times),
        "rounds": len(times),
    }


def _timed(action: Callable[[], object]) -> float:
    begun = time.process_time()
    action()
    return time.process_time() - begun


if __name__ == "__main__":
    typer.run(main)
