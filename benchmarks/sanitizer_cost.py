"""Measures the cost of the sanitizer: launches with everything checked, against plain ones.

    python benchmarks/sanitizer_cost.py [--quick] [--record]

Times are of the processor, on one core, best of several rounds taken in turn. Memory is what the
sanitizer's own records take for the kernel's arrays, as pages that are really there.
"""

from __future__ import annotations

import json
import math
import os
import resource
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from simspeed.cases import CASES, Case
from simspeed.machine import describe

import weft

HERE = Path(__file__).parent
RECORDS = HERE / "records" / "sanitizer_cost.jsonl"
SETTINGS = {"WEFT_THREADS": "1", "WEFT_DRAFTS": "0", "MALLOC_MMAP_THRESHOLD_": "65536"}
"""One core, full code; and large arrays go back to the system when freed, so that they are seen."""
LARGEST, MEMORY = 3.0, 3.0
"""Times the plain simulation (geometric mean), and times the arrays, at most."""


def main(
    quick: Annotated[bool, typer.Option("--quick", help="One round.")] = False,
    only: Annotated[str, typer.Option(help="Cases with this in their name.")] = "",
    record: Annotated[bool, typer.Option("--record", help=f"Append to {RECORDS.name}.")] = False,
) -> None:
    """Time every kernel of benchmarks/kernels plainly and under the sanitizer."""
    rows = [measure(c, 1 if quick else 3) for c in CASES if only in c.name and not c.slow]
    mean = math.exp(sum(math.log(r["times"]) for r in rows) / len(rows))
    done = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe(),
        "quick": quick,
        "cases": rows,
        "mean": mean,
        "memory": max(r["memory"] for r in rows),
    }
    if record:
        with RECORDS.open("a") as file:
            file.write(json.dumps(done) + "\n")
    table = Table("kernel", "plain ms", "sanitized ms", "times", "memory")
    for r in rows:
        table.add_row(r["name"], f"{1e3 * r['plain']:.1f}", f"{1e3 * r['sanitized']:.1f}",
                      f"{r['times']:.2f}", f"{r['memory']:.2f}")  # fmt: skip
    Console(width=None if sys.stdout.isatty() else 110).print(table)
    print(f"geometric mean {mean:.2f} x (at most {LARGEST} x)")


def measure(case: Case, rounds: int) -> dict[str, Any]:
    """One kernel, plain and sanitized in turn."""
    kernel = weft.cuda(HERE / "kernels" / f"{case.kernel}.cu").kernel(case.kernel)
    problem = case.build()
    seen: list[int] = []

    def plain(grid: Any, block: Any, *args: Any) -> None:
        kernel[grid, block](*args)

    def sanitized(grid: Any, block: Any, *args: Any) -> None:
        seen.append(sum(a.nbytes for a in args if isinstance(a, np.ndarray)))
        kernel[grid, block](*args, sanitize=True)

    best = {"plain": math.inf, "sanitized": math.inf}
    problem.run(plain)
    problem.run(sanitized)  # the compiler's own memory is no part of it
    before = _resident()
    problem.run(sanitized)
    memory = max(0, _peak() - before) / max(seen)
    for _ in range(rounds):
        for name, call in (("plain", plain), ("sanitized", sanitized)):
            start = time.process_time()
            problem.run(call)
            best[name] = min(best[name], time.process_time() - start)
    times = best["sanitized"] / best["plain"]
    return {"name": case.name, **best, "times": times, "memory": memory}


def _resident() -> int:
    """Bytes of this process that are in memory; the peak starts anew."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return (
        int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
        * resource.getpagesize()
    )


def _peak() -> int:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


if __name__ == "__main__":
    if any(name not in os.environ for name in SETTINGS):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **SETTINGS})
    typer.run(main)
