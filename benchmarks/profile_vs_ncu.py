"""The simulator's counters against those of ncu, for the same launches.

    python benchmarks/profile_vs_ncu.py --measure FILE   # on a machine with a GPU, CuPy and ncu
    python benchmarks/profile_vs_ncu.py FILE             # anywhere: a table of what differs
    python benchmarks/profile_vs_ncu.py FILE --record    # also appended to records/

`FILE` is what ncu has counted, one JSON object a case. `--group NAME` takes a part of the kernels:
those of `profiled/kernels.cu`, the ladders', those of Triton and Numba (`profiled/carried.py`), and
those of `profiled/hopper.cu`, for which all of ncu's counters of Hopper's own units are kept.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from profiled import ncu
from profiled.cases import GROUPS
from profiled.compare import compare, show
from rich.console import Console

RECORDS = Path(__file__).with_name("records") / "profile_vs_ncu.jsonl"


def main(
    file: Annotated[Path, typer.Argument(help="What ncu has counted.")],
    measure: Annotated[bool, typer.Option("--measure", help="Count with ncu into FILE.")] = False,
    group: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(GROUPS)}.")] = None,
    record: Annotated[bool, typer.Option("--record", help=f"Append to {RECORDS.name}.")] = False,
) -> None:
    """Compare the two."""
    groups = group or list(GROUPS)
    counted: list[dict[str, Any]]
    if measure:
        counted = ncu.measure(groups)
        file.write_text(json.dumps(counted), encoding="utf-8")
        for row in counted:
            used = sum(value != 0 for value in row.values()) - 1
            print(f"{row['name']:45} {used} of {len(row) - 1} counters")
        return
    counted = json.loads(file.read_text("utf-8"))
    cases = [case for name in groups for case in GROUPS[name]]
    assert [c["name"] for c in counted] == [c.title for c in cases], "ncu has other launches"
    rows = [compare(case, row) for case, row in zip(cases, counted, strict=True)]
    if record:
        done = {"when": datetime.now(UTC).isoformat(timespec="seconds"), "gpu": "H200"}
        with RECORDS.open("a") as out:
            out.write(json.dumps({**done, "cases": _merged(rows)}) + "\n")
    Console(width=None if sys.stdout.isatty() else 160).print(show(rows))


def _merged(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """These rows, and those of the newest record that were not counted anew, in their order."""
    before = json.loads(RECORDS.read_text("utf-8").splitlines()[-1])["cases"]
    known = {row["name"]: row for row in (*before, *rows)}
    titles = [case.title for cases in GROUPS.values() for case in cases]
    return [known[title] for title in titles if title in known]


if __name__ == "__main__":
    typer.run(main)
