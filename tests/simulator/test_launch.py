"""Launches among others: at the same time, after a failure, in a child, from another's cache."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import weft
from limits import PROCESS_SECONDS

SOURCE = r"""
__device__ int* kept;
__global__ void once(const int* x, int* y, int k) { y[threadIdx.x] = x[threadIdx.x] * k; }
__global__ void often(const int* x, int* y, int k) {
    int sum = 0;
    for (int i = 0; i < k; i++) sum += x[threadIdx.x];
    atomicAdd(&y[threadIdx.x], sum);
}
__global__ void checked(int k) { assert(k == 0); }
__global__ void outside(int* y) { y[threadIdx.x + 1000000] = 1; }
__global__ void keep(int k) { kept = new int(k); }
__global__ void look(int* y) { y[0] = *kept; }
"""


@pytest.fixture(scope="module")
def module() -> weft.Module:
    return weft.cuda("#include <assert.h>\n" + SOURCE)


@pytest.mark.parametrize(("kernel", "blocks"), [("once", 1), ("often", 1), ("often", 50)])
def test_launches_may_overlap(module: weft.Module, kernel: str, blocks: int) -> None:
    """Each has memory of its own: parameters, tables, what accesses remember."""

    def work(k: int) -> bool:
        x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
        for _ in range(40):
            y[:] = 0
            module.kernel(kernel)[blocks, 64](x, y, k)
            if not np.array_equal(y, x * k * blocks):
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(1, 17)))


def test_a_failure_leaves_nothing_behind(module: weft.Module) -> None:
    x, y = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    for k in range(3):
        with pytest.raises(weft.AssertFailed):
            module.checked[2, 32](1)
        with pytest.raises(weft.IllegalAddress):  # not the assertion again
            module.outside[1, 32](y)
        module.checked[2, 32](0)
        module.once[1, 32](x, y, k)
        assert np.array_equal(y, x * k)


def test_a_kernel_without_calls_sees_the_heap(module: weft.Module) -> None:
    y = np.zeros(1, np.int32)
    for k in (5, 6):
        module.keep[1, 1](k)
        module.look[1, 1](y)
        assert y[0] == k


def test_a_list_as_grid_may_change(module: weft.Module) -> None:
    grid = [1]
    x, y = np.ones(32, np.int32), np.zeros(32, np.int32)
    for blocks in (1, 3):
        grid[0] = blocks
        y[:] = 0
        module.often[grid, 32](x, y, 1)
        assert (y == blocks).all()


def test_arrays_like_earlier_ones_are_still_checked(module: weft.Module) -> None:
    x, y = np.ones(64, np.int32), np.zeros(64, np.int32)
    module.once[1, 32](x, y, 1)
    fixed = np.zeros(64, np.int32)
    fixed.flags.writeable = False
    shifted = np.zeros(130, np.uint8)[1:129].view(np.int32)
    for bad in (fixed, y[::2], shifted, y.astype(np.float32), y.astype(">i4"), 7):
        with pytest.raises(weft.ArgumentError, match="'y'"):
            module.once[1, 32](x, bad, 1)
    module.once[1, 32](fixed, y, 2)  # `x` is const
    with pytest.raises(weft.IllegalAddress):
        module.once[1, 32](x, y[:0], 1)
    with pytest.raises(weft.ArgumentError, match="does not fit"):
        module.once[1, 32](x, y, 2**31)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_view_may_be_read_around_but_not_written(library: str) -> None:
    xp = pytest.importorskip(library)
    kernel = weft.cuda(
        "__global__ void shift(const float *x, float *y, int from, int to) {"
        " y[(int)threadIdx.x + to] = x[(int)threadIdx.x + from]; }"
    ).shift
    x, y = xp.arange(34, dtype=xp.float32), xp.zeros(34, dtype=xp.float32)
    for sanitize in (False, True):
        for shift in (-1, 1):
            kernel[1, 32](x[1:-1], y[1:-1], shift, 0, sanitize=sanitize)
            assert (y[1:-1] == xp.arange(32) + 1 + shift).all()
    with pytest.raises(weft.IllegalAddress, match=r"the array of the view x\)\[34\] of 34 float32"):
        kernel[1, 32](x[1:-1], y[1:-1], 2, 0)
    with pytest.raises(weft.IllegalAddress, match=r"y\[-1\] of 32 float32"):
        kernel[1, 32](x[1:-1], y[1:-1], 0, -1)


SCRIPT = r"""
import os, sys
import numpy as np, weft
m = weft.cuda(sys.argv[1])
def works():
    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    m.often[9, 64](x, y, 2)
    return np.array_equal(y, 18 * x)
assert works()
slow = ("weft.ptx.parse", "weft.ptx.isa", "weft.device.sim.emit.warp")
print(*(name for name in slow if name in sys.modules))
from weft.source import nvrtc
print("NVRTC" * nvrtc._library.cache_info().currsize)
if hasattr(os, "fork"):
    child = os.fork()
    if child == 0:
        os._exit(0 if works() else 1)
    assert os.waitpid(child, 0)[1] == 0
"""


def test_a_new_process_needs_only_the_cache(tmp_path: Path) -> None:
    """The second one imports nothing that makes code; a forked child has threads of its own."""
    source = "__device__ int hidden = 3;" + SOURCE.replace("assert", "(void)")
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT, source]
    shown = [
        subprocess.run(
            command,
            env={**os.environ, "WEFT_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=PROCESS_SECONDS,
            check=True,
        ).stdout.split()
        for _ in range(2)
    ]
    assert shown == [["weft.ptx.parse", "weft.ptx.isa", "weft.device.sim.emit.warp", "NVRTC"], []]


LAST_BLOCK = """
template <int ALIGN> __global__ void split(const float* x, float* parts, float* out,
                                           unsigned* ticket, unsigned* base) {
    extern __shared__ __align__(ALIGN) unsigned char tile[];
    __shared__ bool last;
    // Written at swizzled addresses, as bulk copies do, and read at swizzled offsets.
    unsigned start = __cvta_generic_to_shared(tile), at = start + threadIdx.x * 4;
    at ^= (at >> 3) & (ALIGN / 8 - 1) & ~3u;
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(x[blockIdx.x * 64 + threadIdx.x]));
    __syncthreads();
    unsigned offset = (threadIdx.x ^ 1) * 4;
    offset ^= (offset >> 3) & (ALIGN / 8 - 1) & ~3u;
    parts[blockIdx.x * 64 + threadIdx.x] = *reinterpret_cast<float*>(tile + offset);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(ticket, 1) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    float sum = 0;
    for (int i = 0; i < gridDim.x; ++i) sum += parts[i * 64 + threadIdx.x];
    out[threadIdx.x] = sum;
    base[threadIdx.x] = start | unsigned(reinterpret_cast<size_t>(tile));
}
"""


@pytest.mark.parametrize("align", [128, 1024])
def test_dynamic_shared_memory_is_aligned_behind_static(align: int) -> None:
    x = np.arange(3 * 64, dtype=np.float32)
    parts, out, ticket, base = (
        np.zeros(n, t) for n, t in zip((192, 64, 1, 64), "ffII", strict=True)
    )
    weft.cuda(LAST_BLOCK).kernel(f"split<{align}>")[3, 64, 512](x, parts, out, ticket, base)
    assert np.array_equal(out, x.reshape(3, 32, 2)[..., ::-1].reshape(3, 64).sum(0))
    assert not (base % align).any()


def test_a_kernel_has_the_shared_variables_that_it_names() -> None:
    """Others of its module take nothing from what a launch may ask for."""
    module = weft.load_ptx(
        """
.version 8.0
.target sm_80
.address_size 64
.shared .align 4 .b8 tile[40000];
.extern .shared .align 16 .b8 rest[];
.func helper() { .reg .b32 %r<2>; mov.u32 %r1, 7; st.shared.u32 [tile+39996], %r1; ret; }
.visible .entry owner() { call.uni helper, (); ret; }
.visible .entry other(.param .u64 out)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<3>;
    mov.u32 %r1, 5;
    st.shared.u32 [rest+119996], %r1;
    ld.shared.u32 %r2, [rest+119996];
    ld.param.u64 %rd1, [out];
    st.global.u32 [%rd1], %r2;
    ret;
}
""",
        device="sim:a100",
    )
    assert [module.kernel(name).static_shared for name in ("owner", "other")] == [40000, 0]
    module.owner[1, 1]()
    out = np.zeros(1, np.int32)
    module.other[1, 1, 130_000](out)  # an A100 gives a block 166,912 bytes
    assert out[0] == 5
