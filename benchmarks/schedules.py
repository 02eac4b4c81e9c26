"""Measures the cost of schedules: launches under random schedules, against plain ones.

    python benchmarks/schedules.py [--only NAME] [--record]

Times are of the processor, on one core and of drafts, as checks run them: the best of three
launches that take turns with the others. A ratio is the median over rounds of a round's schedules
over its plain launch. Every round has other seeds.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from schedule_cases.cases import Case, cases
from simspeed.machine import describe

import weft

RECORDS = Path(__file__).with_name("records") / "schedules.jsonl"
SETTINGS = {"WEFT_THREADS": "1", "WEFT_DRAFTS": "1"}
ROUNDS, SEEDS, REPEATS = 5, 4, 3
LARGEST = 5.0
"""Times the plain simulation, at most."""


def main(
    only: Annotated[str, typer.Option(help="Cases with this in their name.")] = "",
    record: Annotated[bool, typer.Option("--record", help=f"Append to {RECORDS.name}.")] = False,
) -> None:
    """Time the kernels plainly and under schedules."""
    os.environ.update(SETTINGS)
    rows = [measure(case) for case in cases() if only in case.name]
    if record:
        done = {
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": describe(),
            "seeds": ROUNDS * SEEDS,
            "cases": rows,
        }
        with RECORDS.open("a") as file:
            file.write(json.dumps(done) + "\n")
    table = Table("kernel", "plain ms", "first", "last", "random, times", "largest")
    for r in rows:
        ratios = (f"{r[k]:.2f}" for k in ("first", "last", "random", "largest"))
        table.add_row(r["name"], f"{1e3 * r['plain']:.1f}", *ratios)
    Console().print(table)
    mean = math.exp(statistics.fmean(math.log(r["random"]) for r in rows))
    worst = max(r["random"] for r in rows)
    print(f"geometric mean {mean:.2f} x, largest {worst:.2f} x (at most {LARGEST} x)")


def measure(case: Case) -> dict[str, Any]:
    """One kernel: seconds of a plain launch, and times that under each kind of schedule."""
    kernel = weft.cuda(case.file).kernel(case.kernel)
    run = case.build()

    def timed(schedule: str | None) -> float:
        begin = time.process_time()
        with weft.schedule(schedule):
            run(lambda grid, block, *args: kernel[grid, block](*args))
        return time.process_time() - begin

    for name in (None, "first"):  # the compiler's time is no part of it
        timed(name)
    rounds = []
    for i in range(ROUNDS):
        seeds = [f"random:{seed}" for seed in range(1 + SEEDS * i, 1 + SEEDS * (i + 1))]
        best = {name: math.inf for name in ("", "first", "last", *seeds)}
        for _ in range(REPEATS):
            best = {name: min(seconds, timed(name or None)) for name, seconds in best.items()}
        plain = best.pop("")
        rounds.append((plain, {name: seconds / plain for name, seconds in best.items()}))
    drawn = [[r for name, r in x.items() if name.startswith("random")] for _, x in rounds]
    return {
        "name": case.name,
        "divergent": case.divergent,
        "plain": statistics.median(plain for plain, _ in rounds),
        "first": statistics.median(x["first"] for _, x in rounds),
        "last": statistics.median(x["last"] for _, x in rounds),
        "random": statistics.median(statistics.fmean(x) for x in drawn),
        "largest": max(max(x) for x in drawn),
    }


if __name__ == "__main__":
    typer.run(main)
