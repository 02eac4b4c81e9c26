"""Every planted bug of tests/bugs under weft's sanitizer and under the tools there are.

    python benchmarks/sanitizer_table.py [--record] [--only NAME] TOOLS...

TOOLS: weft (all languages), python (Triton's interpreter, Numba's simulator), gpu (the four tools
of compute-sanitizer, where there is a GPU). A record has what each said; the document's table is
made from the newest record of each.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from sanitized.tools import gpu_row, python_row, weft_row
from simspeed.machine import describe

import planted

RECORDS = Path(__file__).with_name("records") / "sanitizer_table.jsonl"
AT_ONCE = 6
"""Cases under compute-sanitizer at a time; each has a process for each of its tools."""
TOOLS = {
    "weft": (weft_row, ("CUDA C++", "Triton", "Numba")),
    "python": (python_row, ("Triton", "Numba")),
    "gpu": (gpu_row, ("CUDA C++",)),
}


def main(
    tools: Annotated[list[str], typer.Argument(help=" ".join(TOOLS))],
    only: Annotated[str, typer.Option(help="Cases with this in their name.")] = "",
    record: Annotated[bool, typer.Option("--record", help=f"Append to {RECORDS.name}.")] = False,
    seconds: Annotated[float, typer.Option(help="Cases that begin later are left out.")] = 1e9,
    output: Annotated[Path, typer.Option(help="Where records are appended.")] = RECORDS,
) -> None:
    """Run the cases and print how many were found."""
    for tool in tools:
        row, languages = TOOLS[tool]
        rows: dict[str, Any] = {}
        cases = [c for c in planted.cases() if only in c.id and c.language in languages]
        with Console(stderr=True).status("") as status, ThreadPoolExecutor(AT_ONCE) as pool:
            ask = functools.partial(_before, time.monotonic() + seconds, row)
            # Simulated kernels run in the main thread: while it waits for another one, it could
            # still write to memory, and a kernel that waits forever is not deadlocked.
            answers = pool.map(ask, cases) if tool == "gpu" else map(ask, cases)
            for case, said in zip(cases, answers, strict=True):
                status.update(f"{tool}: {case.id}")
                if said:
                    rows[case.id] = {"kind": case.kind, "language": case.language, **said}
        done = {
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "tool": tool,
            "machine": describe(),
            "cases": rows,
        }
        if record:
            with output.open("a") as file:
                file.write(json.dumps(done) + "\n")
        found = sum(r["found"] for r in rows.values())
        lines = sum(r["line"] for r in rows.values())
        alarms = [k for k, r in rows.items() if r.get("alarm")]
        print(f"{tool}: {found} of {len(rows)} found, {lines} with the line; false alarms {alarms}")
        print("not found:", [k for k, r in rows.items() if not r["line"]])


def _before(end: float, row: Any, case: Any) -> Any:
    """The row of a tool for a case; None if the time is over."""
    return row(case) if time.monotonic() < end else None


if __name__ == "__main__":
    typer.run(main)
