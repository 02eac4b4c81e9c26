"""Deadlocks: what is one, what is none, and that a busy machine changes nothing."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import weft
from everyday import load
from weft.device.sim.run.failures import deadlock_detection

BUSY = 8


@dataclass(frozen=True)
class Row:
    """A launch of a kernel of kernels/deadlocks.cu on flags of which the first is `first`."""

    kernel: str
    grid: int
    block: int
    verdict: str
    first: int = 0
    more: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.kernel}-{self.grid}x{self.block}"

    def run(self) -> str:
        flags = np.zeros(64, np.int32)
        flags[0] = self.first
        try:
            load("deadlocks").kernel(self.kernel)[self.grid, self.block](flags, *self.more)
        except weft.Deadlock:
            return "deadlock"
        return "ends"


ROWS = [
    Row("read_flag", 1, 32, "deadlock"),
    Row("read_flag", 264, 1024, "deadlock"),  # a picture of all its registers takes long
    Row("take_lock", 3, 64, "deadlock", first=1),
    Row("exchange_lock", 3, 64, "deadlock", first=1),
    Row("add_nothing", 3, 64, "deadlock"),
    Row("greatest", 1, 64, "deadlock"),
    Row("back_off", 1, 64, "deadlock", first=1),
    Row("seven_places", 3, 64, "deadlock"),
    Row("across_barriers", 2, 128, "deadlock", first=1),
    Row("barrier_and_flag", 2, 64, "deadlock"),
    Row("within_a_warp", 1, 32, "deadlock"),
    Row("counts", 2, 64, "ends", more=(3_000_000,)),
    Row("adds", 8, 64, "ends", more=(20_000,)),
    Row("waits_for_long_work", 4, 32, "ends", more=(1_500_000_000,)),
    Row("stores_the_same", 2, 1, "ends", more=(50_000_000,)),
    Row("by_the_clock", 2, 32, "ends"),
    Row("counts", 1, 1, "ends", more=(100_000_000,)),
    Row("grid_sync", 264, 1024, "ends", more=(3,)),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_verdict(row: Row) -> None:
    assert row.run() == row.verdict


@pytest.mark.slow
def test_a_busy_machine_changes_no_verdict() -> None:
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY)]
    try:
        assert {str(row): row.run() for row in ROWS} == {str(row): row.verdict for row in ROWS}
    finally:
        for process in busy:
            process.kill()
            process.wait()


def test_launches_that_wait_for_each_other() -> None:
    flags = np.zeros(64, np.int32)
    kernel = load("deadlocks").meets[1, 1]
    first = threading.Thread(target=kernel, args=(flags, 0))
    first.start()
    kernel(flags, 1)
    first.join()
    assert flags[0] == flags[1] == 1


def test_a_thread_of_the_host_sets_the_flag() -> None:
    """After a time in which nothing at all happens."""
    flags = np.zeros(64, np.int32)
    timer = threading.Timer(2.5, lambda: flags.__setitem__(0, 1))
    timer.start()
    load("deadlocks").read_flag[1, 1](flags)
    timer.join()


def test_launches_that_wait_for_nobody_together() -> None:
    """Both are told: neither is waited for by the other as if it could still write."""
    errors: list[weft.Deadlock] = []

    def run() -> None:
        try:
            load("deadlocks").read_flag[1, 1](np.zeros(64, np.int32))
        except weft.Deadlock as error:
            errors.append(error)

    other = threading.Thread(target=run)
    other.start()
    run()
    other.join()
    assert len(errors) == 2


IN_A_THREAD = """
import sys, threading
sys.path[:0] = [{support!r}]
import numpy as np, weft
from everyday import load
kernel, flags = load("deadlocks").{kernel}, [np.zeros(64, np.int32)][:{arguments}]

def run():
    try:
        kernel[1, 64](*flags)
    except weft.Deadlock as error:
        print(error.what)

launching = threading.Thread(target=run)
launching.start()
{meanwhile}
"""


@pytest.mark.parametrize(
    ("kernel", "arguments", "meanwhile"),
    [
        ("empty_mbarrier", 0, "while launching.is_alive(): launching.join(0.01)"),
        ("empty_mbarrier", 0, "launching.join()"),
        ("read_flag", 1, "launching.join()"),
        ("read_flag", 1, ""),
    ],
    ids=["busy", "joining", "flag-joining", "flag-at-the-end"],
)
def test_a_launch_of_another_thread(kernel: str, arguments: int, meanwhile: str) -> None:
    """The main thread can neither arrive at an mbarrier nor run before the launch has ended."""
    support = str(Path(__file__).parents[1] / "support")
    script = IN_A_THREAD.format(
        support=support, kernel=kernel, arguments=arguments, meanwhile=meanwhile
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert f"{kernel} is deadlocked" in done.stdout, done.stderr


WORDS = [  # kernel, what its verdict says of the warps, and what it advises
    (
        "read_flag",
        "warp 0 spins on a value in argument 0 (flag[0] of 64 int32 holds 0): ",
        "what the host writes must be there",
    ),
    (
        "take_lock",
        "warp 0 spins on a lock in argument 0 (lock[0] of 64 int32 holds 1): ",
        "release the lock on every path",
    ),
    (
        "barrier_and_flag",
        "warp 0 waits at a barrier: ",
        "let all threads of a block reach the same",
    ),
    (
        "within_a_warp",  # which of its lanes have run last, and so where the warp is, may differ
        "lanes wait for a lock while other lanes of their warp wait for them",
        "must not wait for its warp",
    ),
    (
        "across_barriers",
        "spins on a lock in argument 0 (lock[0] of 64 int32 holds 1): ",
        "release the lock on every path",
    ),
]


@pytest.mark.parametrize(("kernel", "waits", "advice"), WORDS, ids=lambda x: str(x)[:20])
def test_words_that_fit(kernel: str, waits: str, advice: str) -> None:
    flags = np.zeros(64, np.int32)
    flags[0] = kernel in ("take_lock", "across_barriers")
    with pytest.raises(weft.Deadlock) as found:
        load("deadlocks").kernel(kernel)[1, 64](flags)
    text = str(found.value)
    assert waits in text and advice in text and "deadlocks.cu:" in text


AWAITED = r"""
__device__ int gate[4];
__global__ void indexed(int* locks, int n) {
    while (atomicCAS(&locks[blockIdx.x * n + 1], 0, 1) != 0) { }
}
__global__ void of_each_thread(volatile float* f) { while (f[threadIdx.x + 5] < 1.0f) { } }
__global__ void backwards(volatile short* f, int i) { f += 7; while (f[-i] == 0) { } }
__global__ void variable() { volatile int* g = gate; while (g[2] == 0) { } }
__global__ void bytes(volatile unsigned char* f) { while (f[3] == 200) { } }
__global__ void wide(volatile long long* f) { while (f[1] < 0) { } }
__global__ void through_memory(volatile int* f) { while (f[f[0]] == 0) { } }
"""
HELD = [  # kernel, grid, arguments, what is said of the last warp
    ("indexed", 2, (np.ones((2, 4), np.int32), 3), "locks[1, 0] of (2, 4) int32 holds 1"),
    ("of_each_thread", 1, (np.full(128, 0.5, np.float32),), "f[37] of 128 float32 holds 0.5"),
    ("backwards", 1, (np.zeros(8, np.int16), 3), "f[4] of 8 int16 holds 0"),
    ("variable", 1, (), "gate[2] of 4 elements of 4 bytes holds 0"),
    ("bytes", 1, (np.full(8, 200, np.uint8),), "f[3] of 8 uint8 holds 200"),
    ("wide", 1, (np.full(2, -(2**40), np.int64),), "f[1] of 2 int64 holds -1099511627776"),
    ("through_memory", 1, (np.zeros(4, np.int32),), ""),
]


@pytest.mark.parametrize(("kernel", "grid", "arguments", "says"), HELD, ids=[r[0] for r in HELD])
def test_the_awaited_element(
    kernel: str, grid: int, arguments: tuple[object, ...], says: str
) -> None:
    with pytest.raises(weft.Deadlock) as found:
        weft.cuda(AWAITED).kernel(kernel)[grid, 64](*arguments)
    warps = found.value.got.splitlines()
    assert f" ({says}): " in warps[-1] if says else "holds" not in found.value.got, found.value.got


def test_a_launch_is_told_from_the_one_before_it() -> None:
    """A new launch may have the memory of an old one, and has changed as much: it is another."""
    arena = SimpleNamespace(workers=[])
    seen = set()
    for _ in range(100):
        with deadlock_detection.Watch(arena):  # type: ignore[arg-type]
            seen.add(deadlock_detection._activity())
    assert len(seen) == 100
