"""Sums, argmax and histograms, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from everyday import close, load, normal, random
from weft import cdiv

SIZES = [1, 31, 1000, 4097, 20000]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("block", [1, 33, 100, 256, 1024])
def test_tree(n: int, block: int) -> None:
    x, partial = normal(n, n, block), np.full(5, np.nan, np.float32)
    load("reduce").tree[5, block, 4 * block](x, partial, n)
    close(partial.astype(np.float64).sum(), x.sum(dtype=np.float64), atol=1e-3)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("block", [32, 256, 1024])
def test_shuffle(n: int, block: int) -> None:
    x, partial = normal(n, n, block), np.full(7, np.nan, np.float32)
    load("reduce").shuffle[7, block](x, partial, n)
    close(partial.astype(np.float64).sum(), x.sum(dtype=np.float64), atol=1e-3)


@pytest.mark.parametrize("n", SIZES)
def test_atomic(n: int) -> None:
    x, total = normal(n, n), np.zeros(1, np.float32)
    load("reduce").atomic[13, 128](x, total, n)
    close(total[0], x.sum(dtype=np.float64), atol=1e-3)


@pytest.mark.parametrize("n", SIZES)
def test_atomic_of_every_thread(n: int) -> None:
    x = normal(n, n)
    total, wide, count = np.zeros(1, np.float32), np.zeros(1), np.zeros(1, np.int32)
    load("reduce").atomic_each[cdiv(n, 100), 100](x, total, wide, count, n)
    close(total[0], x.sum(dtype=np.float64), atol=1e-2)
    close(wide[0], x.sum(dtype=np.float64), rtol=1e-12, atol=1e-10)
    assert count[0] == (x > 0).sum()


@pytest.mark.parametrize("n", SIZES)
def test_last_block_done(n: int) -> None:
    x = normal(n, n)
    for blocks in (1, 8, 50):  # the counter must be back at zero for the next launch
        partial, total = np.full(blocks, np.nan, np.float32), np.full(1, np.nan, np.float32)
        load("reduce").last_block[blocks, 128](x, partial, total, n)
        close(total[0], x.sum(dtype=np.float64), atol=1e-3)
    assert load("reduce").variable("blocks_done", np.uint32)[0] == 0


@pytest.mark.parametrize("n", SIZES)
def test_tiles_of_cooperative_groups(n: int) -> None:
    x, total = normal(n, n), np.zeros(1, np.float32)
    load("reduce").tiles[cdiv(n, 96), 96](x, total, n)
    close(total[0], x.sum(dtype=np.float64), atol=1e-2)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("blocks", [1, 3, 16])
def test_grid_sync(n: int, blocks: int) -> None:
    x = normal(n, n)
    want = x.sum(dtype=np.float64)
    load("reduce").grid_sync[blocks, 128](x, n)
    close(x[0], want, atol=1e-3)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 31), (5, 1000), (4, 2049)])
def test_argmax(rows: int, columns: int) -> None:
    x = random(rows, columns).integers(-50, 50, (rows, columns)).astype(np.float32)  # many ties
    where, best = np.empty(rows, np.int32), np.empty(rows, np.float32)
    load("reduce").argmax[rows, 256](x, where, best, columns)
    np.testing.assert_array_equal(where, x.argmax(1))
    np.testing.assert_array_equal(best, x.max(1))


@pytest.mark.parametrize("n", SIZES)
def test_argmax_packed(n: int) -> None:
    x, best = normal(n, n), np.zeros(1, np.uint64)
    load("reduce").argmax_packed[cdiv(n, 256), 256](x, best, n)
    assert 0xFFFFFFFF - (int(best[0]) & 0xFFFFFFFF) == x.argmax()


def test_redux() -> None:
    x = random(1).integers(-(2**31), 2**31, 32 * 12, np.int32)
    out = [np.empty(12, t) for t in (np.int32, np.int32, np.uint32)]
    load("reduce").redux[3, 128](x, *out)
    rows = x.reshape(12, 32)
    np.testing.assert_array_equal(out[0], rows.sum(1, dtype=np.int32))
    np.testing.assert_array_equal(out[1], rows.min(1))
    np.testing.assert_array_equal(out[2], np.bitwise_or.reduce(rows.view(np.uint32), 1))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kernel", ["global_bins", "shared_bins", "warp_bins"])
def test_histogram(kernel: str, n: int) -> None:
    x, bins = random(n).integers(0, 256, n, np.uint8), np.zeros(256, np.uint32)
    load("histogram").kernel(kernel)[4, 192](x, bins, n)
    np.testing.assert_array_equal(bins, np.bincount(x, minlength=256))


@pytest.mark.parametrize("bins", [1, 37, 1000])
def test_histogram_of_floats(bins: int) -> None:
    x, got = normal(5000, bins), np.zeros(bins, np.uint32)
    load("histogram").ranges[5, 256, 4 * bins](x, got, x.size, bins, -3.0, 3.0)
    width = np.float32(6.0 / bins)
    at = ((x - np.float32(-3)) / width).astype(np.int64)
    inside = (x >= -3) & (x < 3)
    want = np.bincount(np.minimum(at[inside], bins - 1), minlength=bins)
    np.testing.assert_array_equal(got, want)
