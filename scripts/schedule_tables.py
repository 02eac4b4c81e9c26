"""The tables of docs/check.md: what schedules find, and what they cost."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

from benchmark_records import newest

Table = Callable[..., str]


def rates_table(table: Table) -> str:
    """The newest run of `benchmarks/schedule_rates.py --record`."""
    run = newest("schedule_rates.jsonl")
    seeds, rows = run["seeds"], run["cases"]
    body = [
        (f"`{r['kernel']}`", r["what"],
         *("yes" if r[k] else "" for k in ("plain", "first", "last")),
         f"{100 * r['random'] / seeds:.1f} %")
        for r in rows
    ]  # fmt: skip
    header = ("kernel", "mistake", "plain", "`first`", "`last`", "random#")
    alarms, clean = sum(r["false_alarms"] for r in rows), len(rows) * (3 + seeds // 4)
    return (
        f"{table(header, body)}\n\n"
        f"Of {seeds} random schedules each; {alarms} false alarms in {clean:,} launches of the "
        f"kernels without their mistakes. Measured by `benchmarks/schedule_rates.py` on "
        f"{run['when'][:10]}."
    )


def cost_table(table: Table) -> str:
    """The newest run of `benchmarks/schedules.py --record`."""
    run = newest("schedules.jsonl")
    rows = run["cases"]
    body = [
        (f"`{r['name']}`", f"{1e3 * r['plain']:.1f}",
         *(f"{r[k]:.2f}" for k in ("first", "last", "random", "largest")))
        for r in rows
    ]  # fmt: skip
    mean = math.exp(statistics.fmean(math.log(r["random"]) for r in rows))
    header = ("kernel", "plain, ms#", "`first`, times#", "`last`, times#", "random, times#",
              "slowest seed, times#")  # fmt: skip
    machine = run["machine"]
    return (
        f"{table(header, body)}\n\n"
        f"Processor time against a plain launch on one core, of {run['seeds']} seeds; geometric "
        f"mean {mean:.2f} times. Measured by `benchmarks/schedules.py` on {run['when'][:10]}: "
        f"{machine['cpu']}, load {machine['load']:.1f}."
    )
