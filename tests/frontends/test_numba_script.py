"""Unedited Numba programs where there is no GPU: `weft run script.py` and `import weft.numba`."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import weft
from limits import PROCESS_SECONDS

pytest.importorskip("numba.cuda")

Done = subprocess.CompletedProcess[str]
SOURCE = str(Path(weft.__file__).parents[1])
ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCE, "NO_COLOR": "1"}
PLAIN = ("-c", "import sys, runpy; runpy.run_path(sys.argv[1])")
HEAD = "import math\nimport numpy as np\nfrom numba import cuda, vectorize, guvectorize, float32\n"


def run(folder: Path, text: str, *command: str, **environment: str) -> Done:
    path = folder / "script.py"
    if not path.exists():  # its age is part of what Numba's own cache goes by
        path.write_text(HEAD + textwrap.dedent(text))
    return subprocess.run(
        [sys.executable, *(command or ("-m", "weft", "run")), str(path)],
        env={**ENVIRONMENT, **environment}, text=True, capture_output=True, timeout=PROCESS_SECONDS,
    )  # fmt: skip


# One script for many host functions: a process costs more than what it does.
HOST = """
assert cuda.is_available()
device = cuda.get_current_device()
assert device.compute_capability == (9, 0) and device.MULTIPROCESSOR_COUNT == 132
free, total = cuda.current_context().get_memory_info()

# explicit signatures, streams, events, device arrays
@cuda.jit("void(float32[:], float32[:], int32)")
def add(x, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] += x[i]

x = np.arange(1000, dtype=np.float32)
stream = cuda.stream()
d_x, d_y = cuda.to_device(x, stream), cuda.device_array_like(x)
assert cuda.current_context().get_memory_info().free == free - 8000
d_y.copy_to_device(x)
start, end = cuda.event(), cuda.event()
start.record(stream)
add[4, 256, stream](d_x, d_y, 1000)
end.record(stream)
end.synchronize()
stream.synchronize()
assert start.elapsed_time(end) > 0
assert (d_y.copy_to_host() == 2 * x).all()
assert (x == np.arange(1000)).all()
assert d_y[10] == 20 and (d_y[10:20:2].copy_to_host() == 2 * x[10:20:2]).all()
d_y[:5] = 7
assert d_y.copy_to_host()[4:6].tolist() == [7, 10]
out = np.zeros(1000, np.float32)
with stream.auto_synchronize():
    d_y.copy_to_host(out, stream=stream)
assert out[4] == 7

# host arrays go there and back
y = x.copy()
add[4, 256](x, y, 1000)
assert (y == 2 * x).all()

# matrices
m = cuda.to_device(np.arange(12.0).reshape(3, 4))
assert (m.T.copy_to_host() == np.arange(12.0).reshape(3, 4).T).all()
assert m.reshape(4, 3).shape == (4, 3) and m.ravel().size == 12 and (m[1].copy_to_host()[0] == 4)

# pinned, mapped, managed
mapped, managed = cuda.mapped_array(10, np.float32), cuda.managed_array(10, np.float32)
mapped[:], managed[:] = 1, 2
add[1, 32](mapped, managed, 10)
assert (managed == 3).all()
pinned = cuda.pinned_array(10)
with cuda.pinned(x), cuda.mapped(x) as view:
    add[1, 32](view, view, 10)
assert x[3] == 6

# callbacks, forall, ufuncs, random numbers
said = []
stream.add_callback(lambda s, status, arg: said.append((status, arg)), "done")
assert said == [(0, "done")]
add.forall(10)(mapped, managed, 10)
assert (managed == 4).all()

@vectorize(["float32(float32, float32)"], target="cuda")
def hypot(a, b):
    return math.sqrt(a * a + b * b)

assert np.allclose(hypot(x, 1), np.hypot(x, 1))
assert np.allclose(hypot(d_x, d_x).copy_to_host(), np.hypot(d_x.copy_to_host(), d_x.copy_to_host()))

@guvectorize(["(float32[:], float32[:], float32[:])"], "(n),(n)->()", target="cuda")
def dot(a, b, c):
    total = float32(0)
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    c[0] = total

a = np.arange(12, dtype=np.float32).reshape(4, 3)
assert (dot(a, a) == (a * a).sum(1)).all()

from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

@cuda.jit
def pi(states, hits):
    i = cuda.grid(1)
    a, b = xoroshiro128p_uniform_float32(states, i), xoroshiro128p_uniform_float32(states, i)
    if a * a + b * b < 1:
        cuda.atomic.add(hits, 0, 1)

hits = np.zeros(1, np.int64)
pi[32, 128](create_xoroshiro128p_states(4096, seed=1), hits)
assert abs(4 * hits[0] / 4096 - math.pi) < 0.1

# an array of the device as a global; a cooperative launch; questions on a kernel
@cuda.jit
def captured(out):
    cuda.cg.this_grid().sync()
    out[cuda.grid(1)] = d_x[cuda.grid(1)]

captured[2, 32](out)
assert (out[:64] == np.arange(64)).all()
overload = captured.overloads[captured.signatures[0]]
assert overload.cooperative and overload.max_cooperative_grid_blocks(32) == 32 * 132
assert add.get_regs_per_thread() > 0 and add.get_max_threads_per_block() == 1024
cuda.synchronize()
del d_x, d_y, m
cuda.close()
print("all", cuda.get_current_device().name)
"""


def test_host_functions(tmp_path: Path) -> None:
    done = run(tmp_path, HOST)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "all H200 SXM 141 GB (simulated by weft)\n"
    assert done.stderr == ""


REDUCTION = """
@cuda.reduce
def largest(a, b):
    return max(a, b)

x = np.arange(1000, dtype=np.float32)
print(largest(x), largest(cuda.to_device(x)), largest(x, init=2000))
"""


@pytest.mark.slow  # the kernel is unrolled for every size, and compiled for three block shapes
def test_reductions(tmp_path: Path) -> None:
    assert run(tmp_path, REDUCTION).stdout == "999.0 999.0 2000.0\n"


BUG = """
@cuda.jit
def shift(x):
    i = cuda.grid(1)
    x[i] = x[i + 1]

x = cuda.to_device(np.zeros(64))
shift[1, 64](x)
"""


def test_a_bug_names_the_line_of_the_script(tmp_path: Path) -> None:
    done = run(tmp_path, BUG)
    assert done.returncode == 1
    assert "`x[i] = x[i + 1]`: out-of-bounds read of 8 bytes in shift" in done.stderr
    assert "'x' (512 bytes): 8 bytes past its end" in done.stderr


CACHED = """
@cuda.jit(cache=True)
def double(x):
    x[cuda.grid(1)] *= 2

x = np.ones(32)
double[1, 32](x)
print(x.sum(), sum(double.stats.cache_hits.values()))
"""


def test_numbas_own_cache(tmp_path: Path) -> None:
    runs = [run(tmp_path, CACHED, NUMBA_CACHE_DIR=str(tmp_path / "cache")) for _ in range(2)]
    assert [done.stderr for done in runs] == ["", ""]
    assert [done.stdout for done in runs] == ["64.0 0\n", "64.0 1\n"]


IMPORTED = """
import weft.numba
import weft

@cuda.jit("void(int32[:])")
def count(x):
    x[cuda.grid(1)] += 1

x = cuda.to_device(np.zeros(64, np.int32))
count[1, 64](x)
weft.kernel(count)[1, 64](x)
print(x.copy_to_host().sum())
"""


def test_import_is_enough(tmp_path: Path) -> None:
    done = run(tmp_path, IMPORTED, *PLAIN)
    assert (done.stdout, done.stderr) == ("128\n", "")


REFUSED = """
import weft.frontends.numba
from numba.cuda.cudadrv import driver

weft.frontends.numba.install("t4")
for refused in (
    lambda: weft.frontends.numba.install("h200"),
    lambda: driver.Device(1),
    lambda: driver.host_to_device(cuda.device_array(4), np.zeros(100), 800),
    lambda: cuda.device_array(4).get_ipc_handle(),
    lambda: cuda.device_array(1 << 60, np.uint8),
    lambda: cuda.get_current_device().MAX_PITCH,
    lambda: cuda.event().elapsed_time(cuda.event()),
):
    try:
        refused()
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0].partition("] ")[2] or error.what)
"""
SAID = """\
LaunchError another simulated GPU is already under Numba
LaunchError there is one simulated GPU
CudaAPIError CUDA_ERROR_INVALID_VALUE: 800 bytes at 0x, of which 32 are device memory
LaunchError the simulated GPU does not serve this function of the CUDA driver
CudaAPIError CUDA_ERROR_OUT_OF_MEMORY: 1152921504606846976 bytes of memory
LaunchError the simulated GPU has no such attribute
CudaAPIError CUDA_ERROR_INVALID_HANDLE: an event not recorded
"""


def test_refusals(tmp_path: Path) -> None:
    done = run(tmp_path, REFUSED, *PLAIN)
    assert re.sub("0x[0-9a-f]+", "0x", done.stdout) == SAID
    assert done.stderr == ""


@pytest.mark.parametrize("found", ["0.29.3", "0.31.0", "1.0"])
def test_other_versions_are_refused(found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: found)
    with pytest.raises(weft.MissingDependency, match=f"got: numba-cuda {found}"):
        weft.kernel(lambda x: None)


def test_numba_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(weft.MissingDependency, match=r"pip install '.*\[numba\]'"):
        weft.kernel(lambda x: None)


def test_numbas_own_simulator_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    with pytest.raises(weft.MissingDependency, match="unset NUMBA_ENABLE_CUDASIM"):
        weft.kernel(lambda x: None)
