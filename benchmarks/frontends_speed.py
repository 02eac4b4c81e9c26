"""Front ends on the simulated GPU against what else runs their kernels without a GPU.

    python benchmarks/frontends_speed.py [--only NAME] [--json] [--record]

Each front end has a file `frontends/NAME_cases.py`, a program that prints a JSON line a case. It is
run twice, once for each contender; inputs are the same, and every result is compared with torch or
NumPy in float64. Times are processor seconds on one core; those of the simulated
GPU leave the first launch out, which compiles.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from simspeed.machine import describe

HERE = Path(__file__).parent
RECORDS = HERE / "records" / "frontends_speed.jsonl"
FULL = {"WEFT_THREADS": "1", "WEFT_DRAFTS": "0"}
"""One core, and full code from the first launch on: none of it is made while the other is timed."""


@dataclass(frozen=True)
class FrontEnd:
    """A front end, what it is compared with, and how that is switched on.

    package  whose version the record has
    target   how many times faster weft is to be, by the first word of a case; "" is any
    by       arguments of Python before the program, where weft runs it
    """

    package: str
    rival: str
    environment: dict[str, str]
    target: dict[str, float]
    by: tuple[str, ...] = ()


FRONT_ENDS = {
    "triton": FrontEnd("triton", "Triton's interpreter", {"TRITON_INTERPRET": "1"}, {"": 200}),
    "numba": FrontEnd(
        "numba-cuda",
        "Numba's simulator",
        {"NUMBA_ENABLE_CUDASIM": "1"},
        {"matmul": 5000},
        by=("-m", "weft", "run"),
    ),
}


def main(
    only: Annotated[list[str] | None, typer.Option(help="Front ends, by name.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The record instead of tables.")] = False,
    record: Annotated[bool, typer.Option("--record", help=f"Append to {RECORDS.name}.")] = False,
) -> None:
    """Time each front end and its rival, and show the targets."""
    done = measure(only or list(FRONT_ENDS))
    if record:
        with RECORDS.open("a") as file:
            file.writelines(json.dumps(run) + "\n" for run in done)
    if as_json:
        print(json.dumps(done, indent=1))
    else:
        Console(width=None if sys.stdout.isatty() else 110).print(*map(shown, done))


def cases_of(name: str) -> Path:
    return HERE / "frontends" / f"{name}_cases.py"


def measure(names: list[str]) -> list[dict[str, Any]]:
    """A run for each front end: its cases, each with both contenders."""
    return [
        {
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": {**describe(), FRONT_ENDS[name].package: version(FRONT_ENDS[name].package)},
            "front_end": name,
            "rival": FRONT_ENDS[name].rival,
            "cases": [
                joined(FRONT_ENDS[name], ours, theirs)
                for ours, theirs in zip(
                    contender(name, FULL, FRONT_ENDS[name].by),
                    contender(name, FRONT_ENDS[name].environment),
                    strict=True,
                )
            ],
        }
        for name in names
    ]


def contender(
    name: str, environment: dict[str, str], by: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """Run the cases of a front end in a process of its own."""
    done = subprocess.run(
        [sys.executable, *by, str(cases_of(name))],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        encoding="utf-8",
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def joined(end: FrontEnd, ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """Both contenders of a case, and how they compare."""
    case = ours["case"]
    keep = ("seconds", "first", "runs", "errors")
    return {
        "case": case,
        "size": ours["size"],
        "weft": {key: ours[key] for key in keep},
        "rival": {key: theirs[key] for key in keep},
        "times": theirs["seconds"] / ours["seconds"],
        "target": end.target.get(case.split()[0], end.target.get("", 0)),
    }


def shown(run: dict[str, Any]) -> Table:
    """A run as a table."""
    table = Table(title=f"{run['front_end']} against {run['rival']}")
    for column in ("case", "size", "weft, ms", "rival, ms", "times faster", "to reach", "error"):
        table.add_column(column)
    for case in run["cases"]:
        table.add_row(
            case["case"],
            case["size"],
            f"{case['weft']['seconds'] * 1e3:.2f}",
            f"{case['rival']['seconds'] * 1e3:.0f}",
            f"{case['times']:,.0f}",
            f"{case['target']:,.0f}" if case["target"] else "",
            f"{max(case['weft']['errors']):.1e}",
        )
    return table


if __name__ == "__main__":
    typer.run(main)
