"""Warps that run together from barrier to barrier, and every way to leave the others."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.kernels import Kernel

SOURCE = r"""
#define MEET(n) asm volatile("bar.sync 0; // " #n ::: "memory")

extern "C" __global__ void k(int* out, int* early, int mode, int which) {
    __shared__ int s[256];
    int t = threadIdx.x, n = blockDim.x, w = t / 32, at = blockIdx.x * n + t;
    s[t] = t + mode;
    MEET(1);
    int v = s[(t + 33) % n];
    MEET(2);
    if (mode == 1 && w == which) { early[at] = v; return; }          // a warp ends
    if (mode == 2 && t % 32 == which) { early[at] = v; return; }     // a lane of each warp ends
    if (mode == 3 && t == which) early[at] = v;                      // lanes part and meet again
    s[t] = 3 * v;
    if (mode == 4 && w >= which) { early[at] = v; MEET(3); }         // warps wait at two places
    else { MEET(4); }
    if (mode == 5 && t % 2) { early[at] = v; MEET(5); }              // so do lanes of a warp
    else { MEET(6); }
    int sum = 0;
    for (int i = 0; i < 3; ++i) {
        sum += s[(t + i) % n];
        MEET(7);
        s[t] += i;
        MEET(8);
        if (mode == 6 && w == which && i == 1) { early[at] = sum; return; }  // ends in a loop
    }
    out[at] = sum;
}
"""


def _expected(n: int, mode: int, which: int) -> tuple[np.ndarray, np.ndarray]:
    """The values that each thread of a block writes to `out` and `early`."""
    t = np.arange(n)
    v = (t + 33) % n + mode
    ends = {1: t // 32 == which, 2: t % 32 == which}.get(mode, np.zeros(n, bool))
    s = np.where(ends, t + mode, 3 * v)
    live, total, late = ~ends, np.zeros(n, int), np.zeros(n, bool)
    early = np.where(ends, v, 0)
    for i in range(3):
        total = np.where(live, total + s[(t + i) % n], total)
        s = np.where(live, s + i, s)
        late = live & (t // 32 == which) & (mode == 6) & (i == 1)
        early = np.where(late, total, early)
        live = live & ~late
    marks = {3: t == which, 4: t // 32 >= which, 5: t % 2 == 1}.get(mode, np.zeros(n, bool))
    return np.where(live, total, 0), np.where(marks, v, early)


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return weft.cuda(SOURCE).kernel("k")


@pytest.mark.parametrize("threads", [256, 100])
@pytest.mark.parametrize("mode", range(7))
def test_a_warp_leaves_the_others(kernel: Kernel, threads: int, mode: int) -> None:
    for which in (0, 1, 3):
        # More blocks than run at once: a slot is used again after its warps were separated.
        out, early = np.zeros((2, 9, threads), np.int32)
        kernel[9, threads](out, early, mode, which)
        for found, expected in zip((out, early), _expected(threads, mode, which), strict=True):
            np.testing.assert_array_equal(found, np.broadcast_to(expected, found.shape))


@pytest.mark.parametrize("warp", [0, 2, 3])
def test_a_fault_names_its_warp(warp: int) -> None:
    source = """extern "C" __global__ void k(int* x, int far, int warp) {
        __syncthreads();
        x[threadIdx.x + (threadIdx.x / 32 == warp ? far : 0)] = 1;
        __syncthreads();
    }"""
    with pytest.raises(weft.IllegalAddress, match=rf"thread \({32 * warp}, 0, 0\)"):
        weft.cuda(source).k[1, 128](np.zeros(128, np.int32), 1 << 20, warp)
