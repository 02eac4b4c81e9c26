"""Measures the cost of the debugger on the simulated GPU.

    python benchmarks/debugger.py [--only NAME] [--json] [--record]

For each kernel, the best of several launches of each kind, which take turns:

    plain     without breakpoints
    after     the same after a breakpoint was set and deleted
    never     with a breakpoint whose condition holds nowhere

and the best time of one step to the next line, in a launch that is stopped.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from simspeed.cases import CASES, Call, Problem
from simspeed.machine import describe

import weft

RECORDS = Path(__file__).with_name("records") / "debugger.jsonl"
KERNELS = Path(__file__).with_name("kernels")
ROUNDS, STEPS = 15, 6
SAXPY = """\
__global__ void saxpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = a * x[i] + y[i];
    }
}
"""


@dataclass(frozen=True)
class DebuggedCase:
    """A kernel, and a condition at one of its lines that never holds."""

    name: str
    line: int
    condition: str


DEBUGGED = [
    DebuggedCase("saxpy 4M", 4, "i == -1"),
    DebuggedCase("reduce 4M", 11, "t < 0"),
    DebuggedCase("softmax 4096x1000", 29, "s < 0"),
    DebuggedCase("sgemm_tiled 512", 18, "row < 0"),
]


def main(
    only: Annotated[str, typer.Option(help="Cases with this in their name.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="The record, not a table.")] = False,
    record: Annotated[bool, typer.Option("--record", help=f"Append to {RECORDS.name}.")] = False,
) -> None:
    """Time launches of each case with and without a breakpoint."""
    rows = [measure(case) for case in DEBUGGED if only in case.name]
    when = datetime.now(UTC).isoformat(timespec="seconds")
    done = {"when": when, "machine": describe(), "cases": rows}
    if record:
        with RECORDS.open("a") as file:
            file.write(json.dumps(done) + "\n")
    if as_json:
        print(json.dumps(done, indent=1))
        return
    table = Table("case", "plain", "after", "never", "times", "step")
    for r in rows:
        times = (f"{1e3 * r[name]:.2f} ms" for name in ("plain", "after", "never"))
        table.add_row(r["name"], *times, f"{r['times']:.2f}", f"{1e3 * r['step']:.2f} ms")
    Console(width=None if sys.stdout.isatty() else 90).print(table)


def build(case: DebuggedCase) -> tuple[Any, Problem]:
    """The kernel of a case, and its arrays."""
    if case.name.startswith("saxpy"):
        n = 1 << 22
        x, y = np.ones(n, np.float32), np.ones(n, np.float32)

        def run(call: Call) -> None:
            call((n // 256,), (256,), 2.0, x, y, n)

        return weft.cuda(SAXPY).saxpy, Problem(run, y)
    found = next(c for c in CASES if c.name == case.name)
    return getattr(weft.cuda(KERNELS / f"{found.kernel}.cu"), found.kernel), found.build()


def measure(case: DebuggedCase) -> dict[str, Any]:
    """The best times of one case, in seconds."""
    kernel, problem = build(case)

    def launch() -> None:
        problem.run(lambda grid, block, *args: kernel[grid, block](*args))

    def with_breakpoint() -> float:
        with weft.breakpoint(kernel, case.line, case.condition, on_stop=_unexpected):
            launch()  # memory and code that a first launch needs
            return _timed(launch)

    launch()
    plain = min(_timed(launch) for _ in range(ROUNDS))  # before any breakpoint
    rows = [(with_breakpoint(), _timed(launch)) for _ in range(ROUNDS)]
    never, after = (min(column) for column in zip(*rows, strict=True))
    steps = _steps(kernel, launch)
    return {
        "name": case.name,
        "plain": plain,
        "after": after,
        "never": never,
        "times": never / min(plain, after),
        "step": min(steps),
        "rounds": ROUNDS,
    }


def _steps(kernel: Any, launch: Callable[[], None]) -> list[float]:
    found: list[float] = []

    def walk(debugger: weft.Debugger) -> None:
        for _ in range(STEPS):
            begun = time.perf_counter()
            stop = debugger.step()
            found.append(time.perf_counter() - begun)
            if stop is None:
                return
        debugger.detach()

    with weft.breakpoint(kernel, thread=0, block=0, on_stop=walk):
        launch()
    return found


def _unexpected(debugger: weft.Debugger) -> None:
    raise AssertionError(f"{debugger.kernel} stopped: the condition must not hold")


def _timed(action: Callable[[], None]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


if __name__ == "__main__":
    typer.run(main)
