"""Prefix sums, stream compaction and sorting, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from everyday import close, load, normal, random
from weft import cdiv

SIZES = [1, 33, 512, 3001]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("block", [32, 256, 1024])
def test_scan_in_one_block(n: int, block: int) -> None:
    x = random(n).integers(-1000, 1000, n, np.int32)
    y = np.empty_like(x)
    load("scan").one_block[1, block](x, y, n)
    np.testing.assert_array_equal(y, np.cumsum(x, dtype=np.int32))


@pytest.mark.parametrize(("n", "half"), [(1, 1), (32, 16), (100, 64), (1000, 512)])
def test_blelloch(n: int, half: int) -> None:
    x, y = normal(n, n), np.empty(n, np.float32)
    load("scan").blelloch[1, half, 8 * half](x, y, n)
    close(y, np.cumsum(x, dtype=np.float64) - x, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("n", [*SIZES, 20000])
@pytest.mark.parametrize("block", [64, 256])
def test_decoupled_look_back(n: int, block: int) -> None:
    x = random(n, block).integers(-(2**31), 2**31, n, np.int32)  # sums wrap
    y, tiles = np.empty_like(x), cdiv(n, block)
    states, counter = np.zeros(tiles, np.uint64), np.zeros(1, np.int32)
    load("scan").look_back[tiles, block](x, y, states, counter, n)
    np.testing.assert_array_equal(y, np.cumsum(x, dtype=np.int32))


@pytest.mark.parametrize("n", SIZES)
def test_stream_compaction(n: int) -> None:
    x, count = normal(n, n), np.zeros(1, np.int32)
    kept, where = np.zeros(n, np.float32), np.zeros(n, np.int32)
    load("scan").compact[cdiv(n, 128), 128](x, kept, where, count, n)
    positive = np.flatnonzero(x > 0)
    assert count[0] == len(positive)
    order = np.argsort(where[: count[0]])
    np.testing.assert_array_equal(where[: count[0]][order], positive)
    np.testing.assert_array_equal(kept[: count[0]][order], x[positive])


@pytest.mark.parametrize(("size", "block"), [(2, 32), (64, 32), (256, 100), (1024, 512)])
def test_bitonic_sort(size: int, block: int) -> None:
    keys = random(size).permutation(3 * size).astype(np.uint32).reshape(3, size)
    values = np.tile(np.arange(size, dtype=np.int32), (3, 1))
    want = np.sort(keys, 1), np.argsort(keys, 1)
    load("scan").bitonic[3, block, 8 * size](keys, values, size)
    np.testing.assert_array_equal(keys, want[0])
    np.testing.assert_array_equal(values, want[1])


@pytest.mark.parametrize("n", [1, 100, 777])
def test_radix_sort(n: int) -> None:
    keys = random(n).integers(0, 2**32, n, np.uint32)
    want, other = np.sort(keys), np.empty_like(keys)
    for shift in range(0, 32, 4):
        load("scan").radix_pass[1, 128](keys, other, n, shift)
        keys, other = other, keys
    np.testing.assert_array_equal(keys, want)


def test_lanes_that_do_not_run_may_be_in_front_of_shared_memory() -> None:
    """`s[t - d]`: lane 0 would wrap, lane 1 must not be taken for one 2^32 bytes further on."""
    k = weft.cuda(
        "__global__ void k(int* y) { __shared__ int s[64]; int t = threadIdx.x; s[t] = t + 1;"
        "__syncthreads(); for (int d = 1; d < 64; d *= 2) y[t] += t >= d ? s[t - d] : 0; }"
    ).k
    y, t = np.zeros(64, np.int32), np.arange(64)
    k[1, 64](y)
    want = sum(np.where(t >= d, t - d + 1, 0) for d in (1, 2, 4, 8, 16, 32))
    np.testing.assert_array_equal(y, want)
