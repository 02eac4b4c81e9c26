"""Launch shapes, arguments, templates and addresses."""

from __future__ import annotations

import re

import numpy as np
import pytest

import devices
import weft
from everyday import load, normal, random
from weft import cdiv
from weft.device.sim.run import settings

BLOCKS = [1, 31, 33, 100, 1024, (17, 3, 2), (1, 1, 64), (5, 7), (32, 32), (2, 256, 2)]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
@pytest.mark.parametrize("grid", [1, (3, 2), (2, 3, 4)], ids=str)
def test_every_thread_runs_once(grid: int | tuple[int, ...], block: int | tuple[int, ...]) -> None:
    blocks, threads = int(np.prod(grid)), int(np.prod(block))
    seen, lanes, warps = (np.zeros((blocks, threads), np.int32) for _ in range(3))
    load("shapes").places[grid, block](seen, lanes, warps)
    np.testing.assert_array_equal(seen, 1)
    rank = np.tile(np.arange(threads), (blocks, 1))
    np.testing.assert_array_equal(lanes, rank % 32)
    if devices.current.name == "sim":  # hardware numbers warps as it places them
        np.testing.assert_array_equal(warps, rank // 32)


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_barrier_and_active_lanes(block: int | tuple[int, ...]) -> None:
    n = int(np.prod(block))
    out, active = np.zeros(n, np.int32), np.zeros(n, np.uint32)
    load("shapes").neighbours[1, block](out, active)
    np.testing.assert_array_equal(out, np.roll(np.arange(n) ** 2, -1))
    last = (1 << (n % 32 or 32)) - 1
    np.testing.assert_array_equal(active[: (n - 1) // 32 * 32], 0xFFFFFFFF)
    np.testing.assert_array_equal(active[(n - 1) // 32 * 32 :], last)


@pytest.mark.parametrize("grid", [0, (0, 5), (4, 0, 3)], ids=str)
def test_no_blocks_are_refused(grid: int | tuple[int, ...]) -> None:
    seen = np.zeros(64, np.int32)
    with pytest.raises(weft.LaunchError, match="1 and above in x, y and z"):
        load("shapes").places[grid, 32](seen, seen, seen)
    assert not seen.any()


def test_many_blocks() -> None:
    n = 70_000  # more than 65,535 in x
    x, index = normal(n, 1), random(2).permutation(n)
    y = np.empty_like(x)
    load("shapes").gather[n, 1](index, x, y, n)
    np.testing.assert_array_equal(y, x[index])


OPTIONS = np.dtype(
    {
        "names": ["tag", "scale", "offsets", "inner", "table"],
        "formats": ["i1", "f8", ("i2", 3), ("f4", 4), "u8"],
        "offsets": [0, 8, 16, 32, 48],
        "itemsize": 64,
    }
)


LAST_BLOCK = """
__global__ void last(unsigned* seen) {
    if (blockIdx.x == gridDim.x - 1) seen[0] = blockIdx.x;
}
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_most_blocks_there_can_be() -> None:
    seen = np.zeros(1, np.uint32)
    weft.cuda(LAST_BLOCK).last[2**31 - 1, 1](seen)
    assert seen[0] == 2**31 - 2


def test_one_block_more_than_there_can_be() -> None:
    with pytest.raises(weft.LaunchError, match=r"grid\.x is too large"):
        weft.cuda(LAST_BLOCK).last[2**31, 1](np.zeros(1, np.uint32))


@pytest.mark.sim  # the struct holds an address of the host
def test_struct_by_value() -> None:
    table, out = normal(40, 1), np.zeros(40)
    options = np.array((7, 0.5, (1, -2, 3), (0, 11, 0, 0), table.ctypes.data), OPTIONS)[()]
    load("shapes").by_value[1, 40](options, table, out, 200, -5, 2**40)
    offsets = np.resize([1, -2, 3], 40)
    np.testing.assert_array_equal(out, 0.5 * offsets + 11 + table + 7 + 200 - 5 + 2**40)


@pytest.mark.sim
def test_pointer_in_a_struct_to_memory_that_was_not_given() -> None:
    table, out = normal(40, 1), np.zeros(40)
    options = np.array((7, 0.5, (1, -2, 3), (0, 11, 0, 0), table.ctypes.data), OPTIONS)[()]
    sanitized = settings.active() is not None  # it raises its finding, and the fault is the cause
    with pytest.raises(weft.SanitizerError if sanitized else weft.IllegalAddress) as caught:
        load("shapes").by_value[1, 40](options, None, out, 200, -5, 2**40)
    fault = caught.value.__cause__ if sanitized else caught.value
    assert isinstance(fault, weft.IllegalAddress)
    assert re.search(r"shapes\.cu:\d+ .*: out-of-bounds read of 4 bytes", str(fault))


@pytest.mark.parametrize("n", [1, 1000])
def test_64_bit_indices(n: int) -> None:
    x, index = normal(n, 1), random(n).integers(0, n, n)
    y = np.empty_like(x)
    load("shapes").gather[cdiv(n, 128), 128](index, x, y, n)
    np.testing.assert_array_equal(y, x[index])


def test_more_than_4_gib() -> None:
    size, step = 5 << 30, (1 << 28) + 12345
    far = np.zeros(size, np.uint8)  # pages that nobody touches cost nothing
    load("shapes").stride[1, 32](far, step, size)
    touched = np.arange(0, size, step)
    np.testing.assert_array_equal(far[touched], np.arange(len(touched)) + 1)
    assert not far[touched[touched >= 1 << 32] - (1 << 32)].any()  # nothing wrapped at 32 bits


@pytest.mark.parametrize(
    ("types", "kind"), [("float", np.float32), ("double", np.float64), ("int", np.int32)]
)
@pytest.mark.parametrize("power", [1, 5])
def test_templates(types: str, kind: type, power: int) -> None:
    x = random(power).integers(-9, 9, 100).astype(kind)
    y = np.empty_like(x)
    load("shapes").kernel(f"powers<{types}, {power}>")[2, 64](x, y, x.size)
    np.testing.assert_array_equal(y, x**power)


def test_unaligned_views() -> None:
    """Arrays that start anywhere in their buffer."""
    store = np.zeros(4 * 130, np.uint8)
    for shift in (1, 2, 3, 7):
        x, y = normal(100 + shift, 1)[shift:], store[4 * shift :].view(np.float32)[:100]
        load("shapes").kernel("powers<float, 1>")[1, 128](x, y, 100)
        np.testing.assert_array_equal(y, x)


def _collatz(v: int, limit: int) -> tuple[int, int]:
    count = kind = 0
    while v > 1:
        if count == limit:
            return -1, kind
        count += 1
        kind += (1, 10, 100, 1000)[v % 4]
        v = 3 * v + 1 if v % 2 else v // 2
    return count, kind


@pytest.mark.parametrize("block", [32, 100])
def test_collatz(block: int) -> None:
    start = np.concatenate([np.arange(300), random(1).integers(0, 2**32, 200)]).astype(np.uint32)
    steps, kinds = np.zeros(500, np.int32), np.zeros(500, np.int32)
    load("shapes").collatz[cdiv(500, block), block](start, steps, kinds, 500, 150)
    want = np.array([_collatz(int(v), 150) for v in start])
    np.testing.assert_array_equal(steps, want[:, 0])
    np.testing.assert_array_equal(kinds, want[:, 1])


@pytest.mark.parametrize("back", [1, 5, 31])
def test_lanes_that_do_not_run_may_lie_before_shared_memory(back: int) -> None:
    source = r"""
    __global__ void k(const float* x, float* y) {
        __shared__ float s[64];
        s[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        y[threadIdx.x] = threadIdx.x >= BACK ? s[threadIdx.x - BACK] : 0;
    }"""
    x, y = np.arange(1, 65, dtype=np.float32), np.zeros(64, np.float32)
    weft.cuda(source, defines={"BACK": back}).k[1, 64](x, y)
    np.testing.assert_array_equal(y[back:], x[:-back])
    assert not y[:back].any()


def test_dozens_of_guards_after_a_barrier() -> None:
    """Values of the start are restored after the barrier, and live on at every place of waiting."""
    guards = weft.cuda(r"""
    __global__ void guards(const float* x, float* y, int n) {
        __shared__ float s[64];
        int t = threadIdx.x;
        bool up = x[t] > 0;
        s[t] = x[t];
        __syncthreads();
        float v = s[63 - t];
        #pragma unroll
        for (int k = 0; k < 40; ++k)
            if (up ? t * k % 7 < 3 : t + k < n) y[k * 64 + t] = v + k;
    }
    """).guards
    x, y = normal(64), np.zeros((40, 64), np.float32)
    guards[1, 64](x, y, 70)
    t, k = np.arange(64), np.arange(40)[:, None]
    stored = np.where(x > 0, t * k % 7 < 3, t + k < 70)
    np.testing.assert_array_equal(y, np.where(stored, x[::-1] + k.astype(np.float32), 0))
