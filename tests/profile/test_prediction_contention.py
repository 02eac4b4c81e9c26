"""Predicted times of accesses that wait for each other, and of work that one block does alone."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.device import models
from weft.measure.profile.prediction.constants import SPIN_CLOCKS
from weft.measure.profile.prediction.demand import demand
from weft.measure.profile.prediction.duration import times
from weft.values.profile import Profile

pytestmark = pytest.mark.sim

SOURCE = r"""
__global__ void most(const int* x, int* out) {
    atomicMax(out, x[blockIdx.x * blockDim.x + threadIdx.x]);
}
__global__ void most_there(const int* x, const int* place, int* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicMax(out + place[i], x[i]);
}
__global__ void ticket(int* out, int* tickets, const int* x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tickets[i] = atomicAdd(out, x[i]);
}
template <class T> __device__ void sum(const T* x, T* y) {
    __shared__ T all;
    if (threadIdx.x == 0) all = 0;
    __syncthreads();
    atomicAdd(&all, x[blockIdx.x * blockDim.x + threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) y[blockIdx.x] = all;
}
__global__ void sum_floats(const float* x, float* y) { sum(x, y); }
__global__ void sum_integers(const int* x, int* y) { sum(x, y); }
__global__ void sum_long(const unsigned long long* x, unsigned long long* y) { sum(x, y); }
__global__ void sum_of_last(const int* x, int* y, unsigned* done, int n) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        y[blockIdx.x] = x[blockIdx.x];
        __threadfence();
        last = atomicAdd(done, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        int at = 0;
        for (int k = 0; k < n; k++) at = x[at];
        y[0] = at;
    }
}
__global__ void exact(const float* x, float* y, int n) {
    float all = 0;
    for (int k = 0; k < n; k++) all += __fdiv_rn(x[64 * k], x[k]);
    y[blockIdx.x * blockDim.x + threadIdx.x] = all;
}
__global__ void near(const float* x, float* y, int n) {
    float all = 0;
    for (int k = 0; k < n; k++) all += __fdividef(x[64 * k], x[k]);
    y[blockIdx.x * blockDim.x + threadIdx.x] = all;
}
__global__ void columns(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i % n * n + i / n] = x[i];
}
__global__ void eight_each(const unsigned short* x, unsigned short* y) {
    int i = 8 * (blockIdx.x * blockDim.x + threadIdx.x);
    unsigned short a = x[i], b = x[i + 1], c = x[i + 2], d = x[i + 3];
    unsigned short e = x[i + 4], f = x[i + 5], g = x[i + 6], h = x[i + 7];
    y[i] = h; y[i + 1] = g; y[i + 2] = f; y[i + 3] = e;
    y[i + 4] = d; y[i + 5] = c; y[i + 6] = b; y[i + 7] = a;
}
"""
BLOCKS, N = 64, 256 * 64
H200 = models.get("h200")


@pytest.fixture(scope="module")
def kernels() -> weft.Module:
    return weft.cuda(SOURCE, name="contention.cu")


def clocks(p: Profile) -> float:
    """The clocks of a launch without competition."""
    return demand(p, H200).latency * H200.boost_mhz * 1e6


def test_lanes_of_a_warp_are_merged_at_one_address(kernels: weft.Module) -> None:
    x, out = np.arange(N, dtype=np.int32), np.zeros(8, np.int32)
    one = weft.profile(kernels.most[BLOCKS, 256], x, out)
    found = weft.profile(kernels.most_there[BLOCKS, 256], x, np.zeros(N, np.int32), out)
    merged, each = (demand(p, H200).units["atomics"] for p in (one, found))
    assert each == pytest.approx(32 * merged)
    assert each == pytest.approx(N / 1.37e9)  # as fast as one address is


def test_lanes_that_need_their_own_result_are_not_merged(kernels: weft.Module) -> None:
    out, tickets = np.zeros(1, np.int32), np.zeros(N, np.int32)
    p = weft.profile(kernels.ticket[BLOCKS, 256], out, tickets, np.ones(N, np.int32))
    assert demand(p, H200).units["atomics"] == pytest.approx(N / 1.37e9)


@pytest.mark.parametrize(
    ("name", "dtype"), [("sum_floats", np.float32), ("sum_long", np.uint64)], ids=["float", "long"]
)
def test_lanes_that_add_to_one_word_of_shared_memory_wait_for_each_other(
    kernels: weft.Module, name: str, dtype: type[np.generic]
) -> None:
    x, y = np.ones(N, dtype), np.zeros(BLOCKS, dtype)
    slow = weft.profile(getattr(kernels, name)[BLOCKS, 256], x, y)
    x, y = np.ones(N, np.int32), np.zeros(BLOCKS, np.int32)
    fast = weft.profile(kernels.sum_integers[BLOCKS, 256], x, y)
    assert clocks(slow) - clocks(fast) == pytest.approx(256 * SPIN_CLOCKS, rel=0.1)


def test_the_work_of_the_last_block_comes_on_top(kernels: weft.Module) -> None:
    places = np.roll(np.arange(512, dtype=np.int32), -64)
    y, long, short = np.zeros(BLOCKS, np.int32), 400, 4
    taken = [
        clocks(
            weft.profile(kernels.sum_of_last[BLOCKS, 64], places, y, np.zeros(1, np.uint32), steps)
        )
        for steps in (short, long)
    ]
    # One block of 64 waits for so many loads, the others for none of them.
    assert taken[1] - taken[0] > 30 * (long - short)


def test_l2_merges_stores_to_parts_of_a_sector(kernels: weft.Module) -> None:
    n = 128
    x, y = np.ones(N, np.float32), np.zeros(N, np.float32)
    p = weft.profile(kernels.columns[BLOCKS, 256], x, y, n)
    taken = times(demand(p, H200))
    assert taken["L2 partial writes"] > 2 * taken["L2"]
    h = np.ones(8 * N, np.uint16)
    whole = weft.profile(kernels.eight_each[BLOCKS, 256], h, np.zeros(8 * N, np.uint16))
    assert "L2 partial writes" not in times(demand(whole, H200))
    # All bytes of a sector reach L2 at once, though each is stored alone.
    assert demand(whole, H200).units["L2"] < 2 * demand(p, H200).units["L2"]


def test_nothing_moves_past_an_exact_division(kernels: weft.Module) -> None:
    x, y = np.ones(N, np.float32), np.zeros(N, np.float32)
    exact, near = (
        clocks(weft.profile(kernel[BLOCKS, 256], x, y, 64))
        for kernel in (kernels.exact, kernels.near)
    )
    # The loads of the next rounds begin after the branch of the division before them.
    assert exact > 5 * near
