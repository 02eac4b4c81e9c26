"""The planted mistakes of tests/kernels/scheduled: launches, and what is right.

`tests/simulator/test_schedules.py` shows that each appears under a schedule,
`benchmarks/schedule_rates.py` counts the seeds under which it does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import weft
from folders import TESTS
from weft.device.sim import schedules
from weft.device.sim.run import draft

X = (1 + np.arange(512) * 7919 % 1009).astype(np.int32)
THREADS = 128
Right = Callable[[np.ndarray, np.ndarray], bool]
"""(y, flags) -> whether the result is right."""


class Mistake(NamedTuple):
    """A kernel with a mistake, and its twin without.

    what    the mistake, for the table of docs/check.md
    hidden  a schedule that hides it ("": a plain run); None: a plain run is a deadlock
    mapped  the array that its tensor map describes, if it takes one
    """

    kernel: str
    file: str
    what: str
    grid: int
    right: Right
    hidden: str | None = ""
    mapped: str = ""

    def run(self, schedule: str, *, right: bool) -> bool:
        """Return whether a launch under a schedule is right; no name: a plain launch."""
        return self.right(*self.results(schedule, right=right))

    def results(self, schedule: str, *, right: bool) -> tuple[np.ndarray, np.ndarray]:
        """(y, flags) after a launch under a schedule."""
        arrays = {"y": np.zeros(THREADS, np.int32), "flags": np.zeros(1024, np.int32)}
        maps: list[Any] = []
        if self.mapped:
            maps = [weft.tensor_map(arrays[self.mapped][:THREADS], box=(THREADS,))]
        launch = module(self.file, right).kernel(self.kernel)[self.grid, THREADS]
        with schedules.named(schedule), draft.drafts():
            launch(X, *arrays.values(), *maps, time_limit=10)
        return arrays["y"], arrays["flags"]


@functools.cache
def module(file: str, right: bool) -> weft.Module:
    """The planted kernels of a file, with their mistakes or without."""
    source = (TESTS / "kernels" / "scheduled" / f"{file}.cu").read_text()
    head = f"[[maybe_unused]] constexpr bool right = {str(right).lower()};\n"
    return weft.cuda(head + source, arch="sm_90", device="sim:h200")


def _y(want: Callable[[], np.ndarray]) -> Right:
    return lambda y, flags: np.array_equal(y, want())


def _first(want: int) -> Right:
    return lambda y, flags: bool(y[0] == want)


def _flags(want: Callable[[], np.ndarray]) -> Right:
    return lambda y, flags: np.array_equal(flags[: len(want())], want())


def _count(number: int) -> Right:
    return lambda y, flags: bool(flags[1] == number)


def _warp(number: int, values: Callable[[], np.ndarray]) -> np.ndarray:
    y = np.zeros(THREADS, np.int32)
    y[32 * number : 32 * (number + 1)] = values()
    return y


def _shifted(*shifts: int) -> np.ndarray:
    return _warp(3, lambda: sum(X[96 - d : 128 - d] for d in shifts))


def _all_blocks(grid: int) -> np.ndarray:
    return grid * X[:128] + sum(range(grid))


def _before(grid: int) -> np.ndarray:
    y = np.zeros(THREADS, np.int32)
    y[1:grid] = np.cumsum(X[: grid - 1])
    return y


_LANES = np.arange(THREADS)
MISTAKES = {
    m.kernel: m
    for m in (
        # asynchronous copies
        Mistake("waited", "copies", "`cp.async`: a wait that leaves the last group pending", 1,
                _y(lambda: X[:128] + X[128:256]), "first"),
        Mistake("rewritten", "copies", "`cp.async`: the source is rewritten before the wait", 1,
                _y(lambda: X[:128])),
        Mistake("advanced", "copies", "the same, with a wait for another group", 1,
                _y(lambda: X.reshape(4, 128).sum(0))),
        Mistake("landed", "copies", "`cp.async.bulk`: `__syncthreads` instead of a wait", 1,
                _y(lambda: X[:128]), "first"),
        Mistake("parity", "copies", "`cp.async.bulk`: a wait for the wrong parity", 1,
                _y(lambda: X[:128]), None),
        Mistake("bulk_rewritten", "copies", "`cp.async.bulk`: the source is rewritten", 1,
                _y(lambda: X[:128]), "first"),
        Mistake("sent", "copies", "a bulk store whose source is rewritten", 1,
                _y(lambda: 2 * X[:128]), "first"),
        Mistake("staged", "copies", "the same in stages, with a wait that is one too late", 1,
                _flags(lambda: X), "first"),
        Mistake("tensor_rewritten", "copies", "a tensor copy whose source is rewritten", 1,
                _y(lambda: X[:128]), "first", "flags"),
        Mistake("tensor_sent", "copies", "a tensor store whose source is rewritten", 1,
                _flags(lambda: 2 * X[:128]), "first", "flags"),
        # threads of a block
        Mistake("reused", "warps", "a stage is filled again too early", 1,
                _y(lambda: _warp(0, lambda: X.reshape(16, 32).sum(0)))),
        Mistake("joined", "warps", "`__syncthreads` is missing", 1,
                _y(lambda: _shifted(96, 64, 32))),
        Mistake("named", "warps", "a named barrier for too few warps", 1,
                _y(lambda: _shifted(64, 32))),
        Mistake("exchanged", "warps", "`__syncwarp` is missing after a store", 1,
                _y(lambda: X[_LANES ^ 31])),
        Mistake("broadcast", "warps", "the same, where one lane stores", 1,
                _y(lambda: X[_LANES // 32 * 32])),
        Mistake("rounds", "warps", "`__syncwarp` is missing before a store", 1,
                _y(lambda: np.repeat(X[:128].reshape(4, 32).sum(1), 32))),
        # blocks
        Mistake("counted", "blocks", "a counter that is no atomic", 4, _count(16)),
        Mistake("locked", "blocks", "a lock tested and taken in two steps", 4, _count(16)),
        Mistake("unlocked", "blocks", "a lock released without a fence", 4, _count(16)),
        Mistake("handed", "blocks", "a flag is set before the data are written", 2,
                _first(int(X[0]))),
        Mistake("unfenced", "blocks", "no fence between data and their flag", 2,
                _first(int(X[0]))),
        Mistake("announced", "blocks", "a flag is set before all warps have written", 2,
                _y(lambda: X[:128])),
        Mistake("finished", "blocks", "last block: a block counts itself too early", 3,
                _y(lambda: _all_blocks(3))),
        Mistake("summed", "blocks", "last block: no fence before the count", 3,
                _first(int(X[:3].sum()))),
        Mistake("gathered", "blocks", "a grid barrier without `__syncthreads`", 3,
                _y(lambda: _all_blocks(3))),
        Mistake("queued", "blocks", "a queue grows before its element is written", 4,
                _first(int(X[1:4].sum()))),
        Mistake("chained", "blocks", "look-back: the state is set before the sum", 4,
                _y(lambda: _before(4))),
    )
}  # fmt: skip
