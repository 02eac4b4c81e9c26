"""Times the simulated GPU against C++ written by hand and against other simulators.

    python benchmarks/sim_speed.py [--quick] [--only NAME] [--json] [--record] [--peers PYTHON]

Contenders take turns; a ratio is the median over rounds run side by side. Against C++ and other
simulators it is taken from processor time on one core, which other processes disturb least; from
one core to two it is taken from the clock, and means something on two idle cores only.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from simspeed.cases import CASES
from simspeed.contest import Mismatch, contest
from simspeed.fresh import MEASUREMENTS
from simspeed.machine import describe
from simspeed.others import SCRIPTS, other
from simspeed.record import against_other, case_record, judge
from simspeed.table import tables

import weft

RECORDS = Path(__file__).with_name("records") / "sim_speed.jsonl"


def main(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rounds and sizes.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(help="What has this in its name: cases, start, empty, memory, numba, triton."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The record instead of tables.")] = False,
    record: Annotated[bool, typer.Option("--record", help=f"Append to {RECORDS.name}.")] = False,
    peers: Annotated[
        str, typer.Option(help="The Python that has numba-cuda or triton.")
    ] = sys.executable,
) -> None:
    """Time the simulated GPU and show the targets it is held to."""
    done = measure(quick, only or [""], peers)
    if record:
        RECORDS.parent.mkdir(exist_ok=True)
        with RECORDS.open("a") as file:
            file.write(json.dumps(done) + "\n")
    if as_json:
        print(json.dumps(done, indent=1))
    else:
        Console(width=None if sys.stdout.isatty() else 110).print(*tables(done))
    for name, error in done["failed"].items():
        print(f"{name} failed: {error}", file=sys.stderr)
    if done["failed"]:
        raise typer.Exit(1)


def measure(quick: bool, only: list[str], peers: str) -> dict[str, Any]:
    """One run: everything whose name has one of `only` in it."""
    os.environ["WEFT_DRAFTS"] = "0"  # contenders take turns: none may run while another compiles

    def wanted(name: str) -> bool:
        return any(o in name for o in only)

    rounds, seconds = (3, 0.5) if quick else (7, 4.0)
    done: dict[str, Any] = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe(),
        "quick": quick,
        "cases": [],
        "failed": {},
        "others": {},
    }
    with tempfile.TemporaryDirectory() as temporary, Console(stderr=True).status("") as status:
        for case in CASES:
            if wanted(case.name) and not (quick and case.slow):
                status.update(case.name)
                try:
                    result = contest(case, Path(temporary), rounds=rounds, seconds=seconds)
                    done["cases"].append(case_record(result))
                except (Mismatch, weft.Error) as error:
                    done["failed"][case.name] = str(error)
        for name, fresh in MEASUREMENTS.items():
            if wanted(name):
                status.update(name)
                done[name] = fresh(1 if quick else 5)
        for name in SCRIPTS:
            if wanted(name) and done["cases"] and not quick:
                status.update(name)
                try:
                    found = other(name, peers)
                except RuntimeError as error:  # of the peer: the other figures stand
                    done["failed"][name] = str(error)
                    continue
                times = found and against_other(done["cases"], found)
                done["others"][name] = found and {**found, "times": times}
    done["targets"] = judge(done)
    return done


if __name__ == "__main__":
    typer.run(main)
