"""Runs example kernels on the simulated GPU and catches planted bugs.

The kernels are in `examples/`; this module has their inputs and expected results.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weft.device import models
from weft.device.sim.run import host
from weft.device.sim.tools.sanitizer.session import Report
from weft.errors import DeviceError, IllegalAddress
from weft.kernels import Dim, Kernel, cdiv, cuda
from weft.tasks.launches import sanitized

EXAMPLES = Path(__file__).parents[1] / "examples"
BUG, RACE = "out_of_bounds", "race"

Random = np.random.Generator
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class TourCase:
    """A launch: its shape, its arguments, and the expected contents of the array `out`."""

    grid: Dim
    block: Dim
    args: Sequence[Any]
    out: Array
    expected: Array


@dataclass(frozen=True)
class Stop:
    """One example; `tolerance` is the largest allowed error."""

    name: str
    shows: str
    tolerance: float
    prepare: Callable[[Random], TourCase]


@dataclass(frozen=True)
class Visit:
    """The result of an example.

    max_error    the largest difference to NumPy's float64 result, relative to its maximum
    run_seconds  the simulation time on this CPU, unrelated to the time on a GPU
    """

    name: str
    shows: str
    grid: Dim
    block: Dim
    compile_seconds: float
    run_seconds: float
    max_error: float
    tolerance: float

    @property
    def ok(self) -> bool:
        return self.max_error <= self.tolerance


def simulation() -> str:
    """The GPU that is simulated, and the CPU that does it."""
    machine, model = host.describe(), models.get(models.DEFAULT)
    return f"{model.name} on {machine.threads} threads of {machine.cpu}"


def visits(stops: Sequence[Stop] | None = None) -> Iterator[Visit]:
    """Compile, launch and verify the examples."""
    for stop in STOPS if stops is None else stops:
        yield visit(stop)


def visit(stop: Stop) -> Visit:
    """Run an example twice: once to compile it, once to time and verify it."""
    # Different data per run: stale output of the first run cannot pass.
    first, case = (stop.prepare(np.random.default_rng(seed)) for seed in (0, 1))
    start = time.perf_counter()
    kernel = load(stop.name)
    _launch(kernel, first)
    began = time.perf_counter()
    _launch(kernel, case)
    seconds = time.perf_counter() - began
    error = np.max(np.abs(case.out - case.expected)) / np.max(np.abs(case.expected))
    return Visit(
        name=stop.name,
        shows=stop.shows,
        grid=case.grid,
        block=case.block,
        compile_seconds=began - start,
        run_seconds=seconds,
        max_error=float(error),
        tolerance=stop.tolerance,
    )


def caught() -> DeviceError | None:
    """Launch the example with the out-of-bounds bug; return the error, or None."""
    # Not a multiple of the block size, so that the last block overshoots.
    n = 1000
    x, d = np.zeros(n, np.float32), np.zeros(n, np.float32)
    kernel = load(BUG, "difference")
    try:
        kernel[cdiv(n, 256), 256](x, d, n)
    except IllegalAddress as error:
        return error
    return None


def raced() -> Iterator[Report]:
    """Sanitizer reports of the example without a barrier and of the one with it."""
    for name in ("reversed_too_early", "reversed"):
        x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
        yield sanitized(functools.partial(load(RACE, name)[1, 256], x, y))[0]


def load(example: str, kernel: str = "") -> Kernel:
    """Load the kernel of an example."""
    path = EXAMPLES / f"{example}.cu"
    return cuda(path.read_text(encoding="utf-8"), name=path.name).kernel(kernel or example)


def _launch(kernel: Kernel, case: TourCase) -> None:
    kernel[case.grid, case.block](*case.args)


# ---- what the kernels are given, and NumPy's answer in float64 ---------------------------------
def _normal(random: Random, *shape: int) -> Array:
    return random.standard_normal(shape).astype(np.float32)


def _vecadd(random: Random) -> TourCase:
    n = 1_000_000
    a, b, c = _normal(random, n), _normal(random, n), np.zeros(n, np.float32)
    return TourCase(cdiv(n, 256), 256, (a, b, c, n), c, a.astype(np.float64) + b)


def _matmul(random: Random) -> TourCase:
    n = 256
    a, b, c = _normal(random, n, n), _normal(random, n, n), np.zeros((n, n), np.float32)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    return TourCase((n // 32, n // 32), (32, 32), (a, b, c, n), c, expected)


def _reduce(random: Random) -> TourCase:
    n = 1_000_000
    x, total = random.random(n, np.float32), np.zeros(1, np.float32)
    return TourCase(64, 256, (x, total, n), total, x.sum(keepdims=True, dtype=np.float64))


def _softmax(random: Random) -> TourCase:
    rows, columns = 512, 1000
    x, y = _normal(random, rows, columns), np.zeros((rows, columns), np.float32)
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return TourCase(rows, 256, (x, y, columns), y, powers / powers.sum(axis=1, keepdims=True))


def _histogram(random: Random) -> TourCase:
    n = 1_000_000
    x, counts = random.integers(0, 256, n).astype(np.uint8), np.zeros(256, np.uint32)
    return TourCase(32, 256, (x, counts, n), counts, np.bincount(x, minlength=256))


def _matmul_wmma(random: Random) -> TourCase:
    n = 256
    a, b = (_normal(random, n, n).astype(np.float16) for _ in range(2))
    c = np.zeros((n, n), np.float32)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    return TourCase((n // 16, n // 16), 32, (a, b, c, n), c, expected)


STOPS = (
    Stop("vecadd", "one thread an element", 1e-7, _vecadd),
    Stop("matmul", "tiles in shared memory, barriers", 1e-6, _matmul),
    Stop("reduce", "warp shuffles, a float atomic", 1e-6, _reduce),
    Stop("softmax", "a block a row, expf, templates", 1e-6, _softmax),
    Stop("histogram", "shared and global atomics", 0.0, _histogram),
    Stop("matmul_wmma", "tensor cores, bit-true sums", 1e-6, _matmul_wmma),
)
