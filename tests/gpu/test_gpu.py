"""The real GPU alone: arrays and streams of frameworks, graphs, faults."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import weft
from commands import run_weft
from devices import CudaArray
from folders import ROOT, SUPPORT
from limits import PROCESS_SECONDS
from weft.device.devices import real

pytestmark = pytest.mark.gpu

SOURCE = r"""
__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
__global__ void add(float* y, float k) { y[threadIdx.x] += k; }
__global__ void hopper(float* y) {
    asm volatile("wgmma.fence.sync.aligned;");
    y[threadIdx.x] = 1;
}
"""


@pytest.fixture(scope="module")
def module() -> weft.Module:
    return weft.cuda(SOURCE)


# ---- arrays ----------------------------------------------------------------------------------
class OnlyDlpack:
    """An array of a library that nobody knows."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **how: Any) -> Any:
        return self._array.__dlpack__(**how)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


def _torch(a: np.ndarray) -> Any:
    return pytest.importorskip("torch").from_numpy(a).cuda()


def _cupy(a: np.ndarray) -> Any:
    return pytest.importorskip("cupy").asarray(a)


def _numba(a: np.ndarray) -> Any:
    return pytest.importorskip("numba.cuda").to_device(a)


def _parameter(a: np.ndarray) -> Any:
    return pytest.importorskip("torch").nn.Parameter(_torch(a))


ARRAYS = {
    "torch": (_torch, lambda t: t.cpu().numpy()),
    "parameter": (_parameter, lambda t: t.detach().cpu().numpy()),
    "cupy": (_cupy, lambda t: t.get()),
    "numba": (_numba, lambda t: t.copy_to_host()),
    "cuda array interface": (CudaArray, lambda t: t.numpy()),
    "dlpack": (lambda a: OnlyDlpack(_torch(a)), lambda t: t._array.cpu().numpy()),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays(module: weft.Module, kind: str) -> None:
    make, read = ARRAYS[kind]
    x, y = make(np.arange(100, dtype=np.float32)), make(np.zeros(100, np.float32))
    for n in (50, 100, 100):  # the long way, then the short one
        module.scale[1, 128](x, y, n)
    weft.synchronize()
    assert np.array_equal(read(y), 2 * np.arange(100))


def test_machine_code_packs_as_python_does() -> None:
    torch = pytest.importorskip("torch")
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("this torch has no C exchange interface")
    kinds = ("signed char", "unsigned short", "int", "unsigned", "long long", "float", "double")
    takes = ", ".join(f"{kind} a{i}" for i, kind in enumerate(kinds))
    puts = "".join(f"y[{i}] = a{i};" for i in range(len(kinds)))
    kernel = weft.cuda(f"__global__ void k({takes}, double* y) {{ {puts} }}").k
    rows = [
        (-128, 65535, -(2**31), 2**32 - 1, -(2**52), 0.1, 0.1),
        (127, 0, 2**31 - 1, 0, 2**52, -1e300, -1e300),
        (np.int8(-1), 1, np.int32(-1), 1, -1, 1, np.float32(0.5)),
    ]
    y = torch.zeros(7, dtype=torch.float64, device="cuda")
    for row in [rows[0], *rows]:
        kernel[1, 1](*row, y)
        single = -np.inf if row[5] == -1e300 else float(np.float32(row[5]))
        assert y.tolist() == [*map(float, row[:5]), single, float(row[6])]
    assert kernel[1, 1]._native is not None


def test_dtypes_of_torch() -> None:
    torch = pytest.importorskip("torch")
    m = weft.cuda("#include <cuda_bf16.h>\n__global__ void k(__nv_bfloat16* x) { x[0] = 3.0f; }")
    x = torch.zeros(1, dtype=torch.bfloat16, device="cuda")
    m.k[1, 1](x)
    m.k[1, 1](x)
    assert x.item() == 3
    with pytest.raises(weft.ArgumentError, match="dtype float16 does not fit"):
        m.k[1, 1](x.half())


def test_places_are_not_mixed(module: weft.Module) -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.ones(8, device="cuda"), torch.zeros(8)
    for _ in range(2):
        with pytest.raises(weft.ArgumentError, match="'y': is not where the other arrays are"):
            module.scale[1, 8](x, y, 8)
        module.scale[1, 8](x, y.cuda(), 8)
    module.scale[1, 8](x.cpu(), y, 8)  # the same launch, simulated
    assert (y == 2).all()


def test_a_module_for_the_gpu_takes_no_host_arrays() -> None:
    m = weft.cuda(SOURCE, device="gpu:0")
    with pytest.raises(weft.ArgumentError, match="its arrays are in host memory"):
        m.add[1, 8](np.zeros(8, np.float32), 1.0)
    with pytest.raises(weft.LaunchError, match="no GPU 99"):
        weft.cuda(SOURCE, device="gpu:99")


def test_the_short_way_refuses_what_the_long_way_refuses(module: weft.Module) -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.ones(64, device="cuda"), torch.zeros(64, device="cuda")
    for _ in range(2):
        module.scale[1, 32](x, y, 32)
    bad = (y[::2], y.double(), torch.zeros(8, 8, device="cuda").t(), y.cpu(), y.tolist(), 3, None)
    for value in bad[:-1]:
        with pytest.raises(weft.ArgumentError, match="'y'"):
            module.scale[1, 32](x, value, 32)
    for value in (2**31, 1.5, "1", None):
        with pytest.raises(weft.ArgumentError, match="'n'"):
            module.scale[1, 32](x, y, value)
    with pytest.raises(weft.ArgumentError, match="takes 3 arguments"):
        module.scale[1, 32](x, y)


# ---- streams ---------------------------------------------------------------------------------
def test_streams_of_every_library(module: weft.Module) -> None:
    torch = pytest.importorskip("torch")
    side = torch.cuda.Stream()
    streams: list[Any] = [side, side.cuda_stream, 0]
    with contextlib.suppress(ImportError):
        import cupy

        streams.append(cupy.cuda.Stream(non_blocking=True))
    from cuda.core import Device

    Device(0).set_current()
    streams.append(Device(0).create_stream())
    y = torch.zeros(8, device="cuda")
    torch.cuda.synchronize()
    for stream in streams:
        module.add[1, 8, 0, stream](y, 1.0)
        module.add(y, 1.0, grid=1, block=8, stream=stream)
        module.add.bind(1, 8, y, 1.0, stream=stream)()
        weft.synchronize()
    assert (y == 3 * len(streams)).all()
    with pytest.raises(weft.LaunchError, match="not a CUDA stream"):
        module.add[1, 8, 0, "main"](y, 1.0)


def test_launches_are_captured_on_the_current_stream(module: weft.Module) -> None:
    """Only what is launched on torch's current stream becomes part of the graph."""
    torch = pytest.importorskip("torch")
    y = torch.zeros(8, device="cuda")
    bound = module.add.bind(1, 8, y, 10.0)
    fresh = weft.cuda(SOURCE + "// loaded while capturing")
    module.add[1, 8](y, 1.0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        module.add[1, 8](y, 1.0)
        module.add[1, 8](y, 1.0)
        fresh.add[1, 8](y, 100.0)
        bound()
    assert y.tolist() == [1] * 8
    for _ in range(3):
        graph.replay()
    assert y.tolist() == [1 + 3 * 112] * 8


def test_a_graph_clears_counters_once() -> None:
    """Its launches share them; each replay begins with zeros, whatever is there."""
    torch = pytest.importorskip("torch")
    from weft.ops.core import library, runner
    from weft.ops.core.plan import Counters

    x = torch.arange(1 << 20, device="cuda").float() % 7
    function = library.function("sum")
    plan = function.choice(function.request(x)).used.build()
    assert any(isinstance(a, Counters) for step in plan.steps for a in step.args)
    want = weft.ops.sum(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        sums = [weft.ops.sum(x) for _ in range(4)]
    for cleared in (False, True):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as made:
            graph.replay()
            torch.cuda.synchronize()
        assert all(bool(s == want) for s in sums)
        fills = [e for e in made.events() if "FillFunctor" in e.name]
        assert sum(e.device_type == torch.autograd.DeviceType.CUDA for e in fills) == 1
        if not cleared:
            for kept in runner._GRAPH_COUNTERS.values():
                kept.fill_(1)


def test_the_current_stream_of_cupy(module: weft.Module) -> None:
    cupy = pytest.importorskip("cupy")
    y, side = cupy.zeros(8, "float32"), cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with side:
        side.begin_capture()
        module.add[1, 8](y, 1.0)
        graph = side.end_capture()
    assert not y.any()
    graph.launch(side)
    side.synchronize()
    assert (y == 1).all()


# ---- code ------------------------------------------------------------------------------------
def test_code_for_this_generation_alone() -> None:
    m = weft.cuda(SOURCE)
    assert m.hopper.program.on(real(0)).module._code.code_type == "cubin"
    torch = pytest.importorskip("torch")
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("wgmma is Hopper's")
    y = torch.zeros(128, device="cuda")
    m.hopper[1, 128](y)
    assert y.sum() == 128


def test_ptx_that_is_too_new() -> None:
    text = weft.cuda(SOURCE).ptx.text
    version = text.partition(".version ")[2].split()[0]
    with pytest.raises(weft.PtxError, match="newer than the GPU's driver"):
        weft.load_ptx(text.replace(version, "99.0", 1)).add[1, 8](CudaArray(np.zeros(8, "f4")), 1.0)


def test_ptx_that_does_not_assemble() -> None:
    text = ".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 p) { nonsense; }\n"
    from weft.device.gpu import load

    with pytest.raises(weft.PtxError) as caught:
        load(text).launch("k", bytes(8), (1, 1, 1), (1, 1, 1))
    assert "nonsense" in caught.value.got


def test_the_low_level_entry() -> None:
    from weft.device.gpu import load

    source = 'extern "C" __global__ void add(float* y, float k) { y[threadIdx.x] += k; }'
    text = weft.cuda(source).ptx.text.replace(".version 9.4", ".version 9.0")
    y = CudaArray(np.zeros(8, np.float32))
    params = np.array([(y.pointer, 2.5)], [("y", "u8"), ("k", "f4")]).tobytes()
    load(text, 0).launch("add", params, (1, 1, 1), (8, 1, 1))
    assert (y.numpy() == 2.5).all()
    with pytest.raises(weft.LaunchError, match="add needs a longer parameter block"):
        load(text, 0).launch("add", params[:8], (1, 1, 1), (8, 1, 1))


def test_registers_of_the_real_code() -> None:
    source = r"""extern "C" __global__ void wide(float* y) {
        float v[120];
        #pragma unroll
        for (int i = 0; i < 120; i++) v[i] = y[i * 32 + threadIdx.x];
        for (int r = 0; r < 10; r++) {
            __syncthreads();
            #pragma unroll
            for (int i = 0; i < 120; i++) v[i] = v[i] * v[(i + 1) % 120] + v[(i + 7) % 120];
        }
        #pragma unroll
        for (int i = 0; i < 120; i++) y[i * 32 + threadIdx.x] = v[i];
    }"""
    y = CudaArray(np.zeros(120 * 1024, np.float32))
    with pytest.raises(weft.LaunchError, match="needs more registers than a block may have"):
        weft.cuda(source).wide[1, 1024](y)


# ---- faults: each takes its process's context with it ----------------------------------------
FAULTS = {
    "illegal address": ("y[1 << 30] = 1;", "IllegalAddress", "outside of every allocation"),
    "misaligned": ("*(float4*)(y + 1) = float4();", "MisalignedAddress", "not a multiple"),
    "assert": ("assert(y == nullptr);", "AssertFailed", "assert was false"),
    "trap": ("__trap();", "DeviceError", "in bad"),
}
SCRIPT = r"""
import sys, numpy as np, weft
from devices import CudaArray
m = weft.cuda("#include <cassert>\n__global__ void good(float* y) { y[0] = 1; }\n"
              "__global__ void bad(float* y) { " + sys.argv[1] + " }")
y = CudaArray(np.zeros(8, np.float32))
m.good[1, 1](y)
weft.synchronize()
m.bad[1, 1](y)
for attempt in range(2):
    try:
        weft.synchronize() if sys.argv[2] == "sync" else [m.bad[1, 1](y) for _ in range(10000)]
        print("nothing was raised")
    except weft.DeviceError as error:
        print(type(error).__name__, error.kernel, error)
        print("simulator:", "simulated GPU" in error.next, "lost:", "context is lost" in error.next)
"""


@pytest.mark.parametrize("how", ["sync", "launch"])
@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_told_at_the_next_call(name: str, how: str) -> None:
    body, kind, words = FAULTS[name]
    folders = [str(SUPPORT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(folders)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, body, how],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=PROCESS_SECONDS,
    )
    first, *_ = done.stdout.splitlines() or [done.stderr]
    assert first.startswith(f"{kind} bad") and words in first, done.stdout + done.stderr
    assert done.stdout.count("simulator: True lost: True") == 2, done.stdout


def test_a_kernel_that_takes_too_long() -> None:
    source = """__global__ void wait(volatile int* stop) { while (!*stop) {} }"""
    script = f"""
import ctypes, numpy as np, weft
from weft.device import driver
with driver.current(0):
    host = ctypes.c_void_p()
    driver.library().cuMemHostAlloc(ctypes.byref(host), 4, 2)
    flag = ctypes.c_int.from_address(host.value)
    flag.value = 0
class Pinned:
    __cuda_array_interface__ = dict(
        shape=(1,), typestr="<i4", data=(host.value, False), version=3)
k = weft.cuda({source!r}).wait
try:
    k[1, 1](Pinned(), time_limit=0.2)
except weft.TimeLimit as error:
    print(error.kernel, error)
flag.value = 1
weft.synchronize()
print("done")
"""
    src = str(ROOT / "src")
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": src},
        capture_output=True,
        text=True,
        timeout=PROCESS_SECONDS,
    )
    assert done.stdout.startswith("wait wait still runs after 0.2 s"), done.stdout + done.stderr
    assert done.stdout.endswith("done\n")


# ---- the command line ------------------------------------------------------------------------
def test_devices_and_doctor_show_it() -> None:
    pytest.importorskip("typer")
    for verb, words in (("devices", ("SMs", "sm_")), ("doctor", ("driver", "PTX", "counters"))):
        done = run_weft(verb)
        for word in ("gpu:0", *words):
            assert word in done.stdout, done.stdout + done.stderr
