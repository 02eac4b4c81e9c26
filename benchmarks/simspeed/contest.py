"""Times the contenders of one case in turns, so that a noisy moment falls on all of them."""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import weft
from simspeed.cases import Array, Call, Case, Problem
from simspeed.twins import twin

KERNELS = Path(__file__).parents[1] / "kernels"
MOST_ROUNDS = 41


class Mismatch(Exception):
    """A contender computed something else."""


@dataclass(frozen=True)
class Times:
    """Seconds of each round: on the clock, and of processor time over all threads."""

    wall: tuple[float, ...]
    cpu: tuple[float, ...]


@dataclass(frozen=True)
class Result:
    """The times of a case by contender: `weft 1`, `weft 2`, `fast 1`, `c++ NAME`."""

    case: Case
    times: dict[str, Times]

    def ratio(self, over: str, under: str, clock: str = "wall") -> float:
        """The speed of `under` relative to `over`: the median over rounds run side by side."""
        a, b = (getattr(self.times[name], clock) for name in (over, under))
        return statistics.median(x / y for x, y in zip(a, b, strict=True))

    def wall(self, name: str) -> float:
        return statistics.median(self.times[name].wall)


def contest(case: Case, temporary: Path, *, rounds: int, seconds: float) -> Result:
    """At least `rounds` rounds of all contenders, more while `seconds` last."""
    problem, contenders = case.build(), _contenders(case, temporary)
    _compare(case, {name: _answer(problem, call) for name, call in contenders.items()})
    wall: dict[str, list[float]] = {name: [] for name in contenders}
    cpu: dict[str, list[float]] = {name: [] for name in contenders}
    start, done = time.perf_counter(), 0
    while done < rounds or (done < MOST_ROUNDS and time.perf_counter() - start < seconds):
        for name, call in contenders.items():
            clock, used = time.perf_counter(), time.process_time()
            problem.run(call)
            wall[name].append(time.perf_counter() - clock)
            cpu[name].append(time.process_time() - used)
        done += 1
    return Result(case, {n: Times(tuple(wall[n]), tuple(cpu[n])) for n in contenders})


def _contenders(case: Case, temporary: Path) -> dict[str, Call]:
    out: dict[str, Call] = {}
    for mode in ["exact", "fast"][: 1 + case.fast]:
        label = "weft" if mode == "exact" else mode
        kernel = weft.cuda(KERNELS / f"{case.kernel}.cu", math=mode).kernel(case.kernel)
        for threads in (1, 2):
            out[f"{label} {threads}"] = _with_threads(threads, kernel)
    for name in case.twins:
        out[f"c++ {name}"] = twin(name, temporary)
    return out


def _with_threads(threads: int, kernel: weft.Kernel) -> Call:
    def call(grid: tuple[int, ...], block: tuple[int, ...], *args: object) -> None:
        os.environ["WEFT_THREADS"] = str(threads)
        kernel[grid, block](*args)

    return call


def _answer(problem: Problem, call: Call) -> Array:
    """The result of a contender; its first run also compiles and warms up."""
    problem.output[...] = 0
    problem.run(call)
    return problem.output.copy()


def _compare(case: Case, answers: dict[str, Array]) -> None:
    """Compare all answers with the first twin's; those of others with a rough tolerance."""
    truth = answers[f"c++ {case.twins[0]}"]
    for name, answer in answers.items():
        tolerance = case.tolerance if name.startswith("weft") else 1e-3
        if not _agrees(answer, truth, tolerance):
            far = np.abs(answer.astype(float) - truth.astype(float)).max()
            raise Mismatch(f"{case.name}: {name} and the C++ twin differ by up to {far:g}")


def _agrees(a: Array, b: Array, tolerance: float) -> bool:
    if tolerance == 0.0:
        return a.tobytes() == b.tobytes()
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance * float(np.abs(b).max())))
