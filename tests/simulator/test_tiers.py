"""Two tiers: a draft runs first, full code is made meanwhile and takes over between blocks."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from numpy.typing import NDArray

import weft
from weft.device import jit
from weft.device.sim.layout import Run, WorkerFields
from weft.device.sim.run import shared_code
from weft.device.sim.run.compile import CompiledKernel
from weft.device.sim.run.tiers import background, kernel_code

pytestmark = pytest.mark.sim

SOURCE = r"""
__global__ void mix(const float* x, float* y, const volatile int* flag, int n) {
    __shared__ float tile[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    tile[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    float sum = 0.0f;
    for (int k = 0; k <= threadIdx.x % 7; ++k) sum = fmaf(tile[(threadIdx.x + k) % 64], 1.7f, sum);
    if (blockIdx.x == 5 && threadIdx.x % 3 == 0) while (*flag == 0);  // other lanes wait below
    __syncthreads();
    sum += __shfl_xor_sync(0xffffffffu, sum, 3) + tile[63 - threadIdx.x];
    if (i < n) y[i] = expf(sum) / (1.0f + sum * sum);
}
"""
N = 1000
X = np.random.default_rng(1).standard_normal(N).astype(np.float32)


LEAVES = """
import time
import numpy as np
import weft
from weft.device.sim.run.tiers import background, kernel_code

kernel_code.FULL_COST = 0.0
background._START = "import time; time.sleep(1000)"
x, flag = np.ones(100, np.float32), np.ones(1, np.int32)
weft.cuda({source!r}).mix[2, 64](x, x.copy(), flag, 100)
while not background._processes:
    time.sleep(0.01)
print(*(p.pid for p in background._processes))
"""
"""A program that ends while its full code is made."""


LOADS = """
import threading, time
import numpy as np
import weft
from weft.device import jit
from weft.device.sim.run.tiers import kernel_code

kernel_code.FULL_COST = 0.0
load, begun = jit.load_object, threading.Event()


def slowly(data, libraries=()):
    if threading.current_thread() is not threading.main_thread():
        begun.set()
        time.sleep(0.5)
        load(data, libraries)
        print("loaded", flush=True)
    return load(data, libraries)


jit.load_object = slowly
x, flag = np.ones(100, np.float32), np.ones(1, np.int32)
weft.cuda({source!r}).mix[2, 64](x, x.copy(), flag, 100)
assert begun.wait(60)
"""
"""A program that ends while its full code is loaded."""
C_EXIT = """
import ctypes, functools
from weft.device.sim.run.tiers import background
from weft.frontends.program import serve

libc = ctypes.CDLL(None)
background.at_exit = functools.partial(serve._at_exit, libc)
{script}
libc.exit(0)
"""
"""The same as a whole CUDA program ends: none of Python's own functions for the end are called."""


class Seen:
    """A log of the code of kernels."""

    def __init__(self) -> None:
        self.runs: list[tuple[int, int]] = []
        """The code that a worker ran, in the order of loading, and its results."""
        self.replaced = threading.Event()


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """Full code is asked for as soon as a draft has run for any time at all."""
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("WEFT_DRAFTS", raising=False)
    monkeypatch.setattr(kernel_code, "FULL_COST", 0.0)
    monkeypatch.setattr(background, "LINGER", 0.0)  # no process is left to the next test
    while any(t.is_alive() for t in background._threads):  # nor from the test before
        time.sleep(0.01)
    seen, loaded = Seen(), itertools.count()
    load, replace = jit.load_object, kernel_code.TieredCode._replace

    def load_object(data: bytes, libraries: Sequence[jit.LoadedLibrary] = ()) -> jit.LoadedCode:
        code, number = load(data, libraries), next(loaded)
        run = code.run

        def recorded(context: int, worker: int) -> int:
            result = run(context, worker)
            seen.runs.append((number, result))
            return result

        code.run = recorded
        return code

    def _replace(code: kernel_code.TieredCode, full: CompiledKernel | None) -> None:
        replace(code, full)
        seen.replaced.set()

    monkeypatch.setattr(jit, "load_object", load_object)
    monkeypatch.setattr(kernel_code.TieredCode, "_replace", _replace)
    return seen


def launch(flag: int = 1) -> NDArray[np.float32]:
    """One launch in which no block waits; `flag` 0: block 5 waits for ever."""
    y = np.zeros_like(X)
    weft.cuda(SOURCE).mix[16, 64](X, y, np.array([flag], np.int32), N)
    return y


def launch_until(event: threading.Event) -> NDArray[np.float32]:
    """One launch, in which block 5 waits for the event."""
    y, flag = np.zeros_like(X), np.zeros(1, np.int32)
    thread = threading.Thread(target=lambda: weft.cuda(SOURCE).mix[16, 64](X, y, flag, N))
    thread.start()
    came = event.wait(60)
    flag[0] = 1
    thread.join()
    assert came
    return y


def test_full_code_goes_on_with_blocks_that_a_draft_has_begun(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken_over = launch_until(seen.replaced)
    assert (0, Run.REPLACED) in seen.runs and (1, Run.FINISHED) in seen.runs
    seen.runs.clear()
    again = launch()
    assert {number for number, _ in seen.runs} == {2}, "the cache has the full code"
    monkeypatch.setenv("WEFT_DRAFTS", "1")
    draft = launch()
    assert taken_over.any()
    assert taken_over.tobytes() == again.tobytes() == draft.tobytes()


def test_a_draft_of_the_cache_is_replaced_as_well(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_DRAFTS", "1")
    draft = launch()
    assert seen.runs and not seen.replaced.is_set()
    monkeypatch.delenv("WEFT_DRAFTS")
    taken_over = launch_until(seen.replaced)
    assert (1, Run.REPLACED) in seen.runs and (2, Run.FINISHED) in seen.runs
    assert taken_over.tobytes() == draft.tobytes()


def test_short_launches_stay_drafts(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_code, "FULL_COST", 1e9)
    monkeypatch.setattr(background, "submit", lambda *_: pytest.fail("full code does not pay"))
    launch()
    assert {number for number, _ in seen.runs} == {0}


def test_the_draft_stays_where_no_process_can_start(
    seen: Seen, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no python"))
    y = launch_until(seen.replaced)
    assert y.any() and {number for number, _ in seen.runs} == {0}


def test_an_exit_waits_for_no_compiler(seen: Seen, tmp_path: Path) -> None:
    script = tmp_path / "leave.py"
    script.write_text(LEAVES.format(source=SOURCE))
    done = subprocess.run(
        [sys.executable, script], stdout=subprocess.PIPE, check=True, text=True, timeout=60
    )
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


@pytest.mark.parametrize("how", ["by Python", "by C"])
def test_an_exit_waits_for_code_that_is_loaded(seen: Seen, how: str) -> None:
    """LLVM is taken apart at the exit of a process, and must not be at work then."""
    script = LOADS.format(source=SOURCE)
    done = subprocess.run(
        [sys.executable, "-c", C_EXIT.format(script=script) if how == "by C" else script],
        capture_output=True, check=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == "loaded\n"


def test_a_fork_can_compile_whatever_its_parent_does() -> None:
    held = threading.Event()

    def work() -> None:
        with shared_code._lock, jit._linking:
            held.set()
            time.sleep(0.2)

    thread = threading.Thread(target=work)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        locks = (jit._linking, shared_code._lock)
        os._exit(not all(lock.acquire(timeout=5) for lock in locks))
    assert os.waitpid(child, 0)[1] == 0
    thread.join()
    assert not jit._linking.locked()


def test_llvm_is_free_after_a_callback_has_failed() -> None:
    """Numba has callbacks, which fail where a finaliser runs at the limit of recursion."""

    def fail() -> None:
        raise RecursionError

    def pass_() -> None:
        pass

    for callbacks in ((fail, pass_), (pass_, fail)):
        llvm.ffi.register_lock_callback(*callbacks)
        try:
            with pytest.raises(RecursionError):
                llvm.create_context()
        finally:
            llvm.ffi.unregister_lock_callback(*callbacks)
        other = threading.Thread(target=llvm.create_context, daemon=True)
        other.start()
        other.join(30)
        assert not other.is_alive()


def test_a_fork_has_none_of_its_parents_compilers(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "LINGER", 1.0)
    launch_until(seen.replaced)
    assert background._threads and background._processes
    child = os.fork()
    if child == 0:
        os._exit(bool(background._threads or background._processes or background._jobs))
    assert os.waitpid(child, 0)[1] == 0


ORDER = r"""
extern "C" __global__ void order(int* taken, unsigned* next, int rounds) {
  for (int i = 0; i < rounds; i++) {
    if (threadIdx.x == 0) taken[atomicAdd(next, 1u)] = blockIdx.x;
    __syncthreads();
  }
}
"""


@pytest.mark.parametrize("schedule", ["random:1", "random:2"])
def test_the_order_of_blocks_does_not_depend_on_when_code_takes_over(
    schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that leaves one code goes on in the next with the slot that it had reached."""
    left = 0
    run = kernel_code.TieredCode.run

    def disturbed(code: kernel_code.TieredCode, arena: Any, worker: int) -> int:
        nonlocal left
        fields, done = arena.workers[worker].fields, threading.Event()

        def ask() -> None:
            nonlocal left
            while not done.wait(0.0002):
                left += fields[WorkerFields.REPLACE // 8] == 0
                fields[WorkerFields.REPLACE // 8] = 1

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            return run(code, arena, worker)
        finally:
            done.set()
            thread.join()

    def order() -> list[int]:
        taken, following = np.full(8 * 20_000, -1, np.int32), np.zeros(1, np.uint32)
        with weft.schedule(schedule):
            weft.cuda(ORDER).order[8, 64](taken, following, 20_000)
        return list(taken)

    alone = order()
    monkeypatch.setattr(kernel_code.TieredCode, "run", disturbed)
    assert order() == alone
    assert left > 3, "no code was asked to leave"
