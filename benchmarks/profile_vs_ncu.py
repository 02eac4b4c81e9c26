"""The simulator's counters against those of ncu, for the same launches.

    python benchmarks/profile_vs_ncu.py --measure FILE   # on a machine with a GPU, CuPy and ncu
    python benchmarks/profile_vs_ncu.py FILE             # anywhere: a table of what differs
    python benchmarks/profile_vs_ncu.py FILE --record    # also appended to records/

`FILE` is what ncu has counted, one JSON object a case. Kernels are in `profiled/kernels.cu`.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from profiled import ncu
from profiled.cases import CASES
from profiled.compare import compare, show
from rich.console import Console

RECORDS = Path(__file__).with_name("records") / "profile_vs_ncu.jsonl"


def main(
    file: Annotated[Path, typer.Argument(help="What ncu has counted.")],
    measure: Annotated[bool, typer.Option("--measure", help="Count with ncu into FILE.")] = False,
    record: Annotated[bool, typer.Option("--record", help=f"Append to {RECORDS.name}.")] = False,
) -> None:
    """Compares the two."""
    if measure:
        file.write_text(json.dumps(ncu.measure()))
        return
    counted: list[dict[str, Any]] = json.loads(file.read_text())
    assert [c["name"] for c in counted] == [c.kernel for c in CASES], "ncu has other launches"
    rows = [compare(case, row) for case, row in zip(CASES, counted, strict=True)]
    if record:
        done = {"when": datetime.now(UTC).isoformat(timespec="seconds"), "gpu": "H200"}
        with RECORDS.open("a") as out:
            out.write(json.dumps({**done, "cases": rows}) + "\n")
    Console(width=None if sys.stdout.isatty() else 160).print(show(rows))


if __name__ == "__main__":
    typer.run(main)
