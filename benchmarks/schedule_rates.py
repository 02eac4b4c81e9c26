"""Counts the random schedules under which each planted mistake of tests/kernels/scheduled shows.

    python benchmarks/schedule_rates.py [--seeds N] [--only NAME] [--record]

A mistake shows where the result is wrong, or the launch ends with a fault or a deadlock. Its twin
without the mistake runs under a fourth of the same schedules and must be right.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from simspeed.machine import describe

from scheduled import MISTAKES, Mistake
from weft.errors import DeviceError

RECORDS = Path(__file__).with_name("records") / "schedule_rates.jsonl"


def main(
    seeds: Annotated[int, typer.Option(help="Random schedules of each mistake.")] = 400,
    only: Annotated[str, typer.Option(help="Mistakes with this in their name.")] = "",
    record: Annotated[bool, typer.Option("--record", help=f"Append to {RECORDS.name}.")] = False,
) -> None:
    """Run every planted mistake under the schedules."""
    chosen = [m for m in MISTAKES.values() if only in m.kernel]
    if not chosen:
        raise typer.BadParameter(f"no mistake has {only!r} in its name: {', '.join(MISTAKES)}")
    rows = [count(m, seeds) for m in chosen]
    if record:
        done = {
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": describe(),
            "seeds": seeds,
            "cases": rows,
        }
        with RECORDS.open("a") as file:
            file.write(json.dumps(done) + "\n")
    table = Table("mistake", "plain", "first", "last", f"random, of {seeds}", "false alarms")
    for r in rows:
        named = ("yes" if r[k] else "" for k in ("plain", "first", "last"))
        table.add_row(r["kernel"], *named, str(r["random"]), str(r["false_alarms"]))
    Console().print(table)
    least = min(rows, key=lambda r: r["random"])
    print(f"least: {least['kernel']}, {100 * least['random'] / seeds:.0f} % of the seeds")


def count(mistake: Mistake, seeds: int) -> dict[str, Any]:
    """The seeds that show one mistake, and those where its twin is wrong."""
    names = [f"random:{i}" for i in range(1, seeds + 1)]
    clean = ["", "first", "last", *names[: seeds // 4]]
    return {
        "kernel": mistake.kernel,
        "file": mistake.file,
        "what": mistake.what,
        "plain": shows(mistake, ""),
        "first": shows(mistake, "first"),
        "last": shows(mistake, "last"),
        "random": sum(shows(mistake, name) for name in names),
        "false_alarms": sum(shows(mistake, name, right=True) for name in clean),
    }


def shows(mistake: Mistake, schedule: str, *, right: bool = False) -> bool:
    """Return whether a launch is wrong, or fails; one that was refused is no finding."""
    try:
        return not mistake.run(schedule, right=right)
    except DeviceError:
        return True


if __name__ == "__main__":
    typer.run(main)
