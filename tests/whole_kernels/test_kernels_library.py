"""Philox, cuRAND and CUB, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from everyday import close, load, normal, random
from weft import cdiv

MASK = np.uint64(0xFFFFFFFF)


def philox(counter: np.ndarray, seed: int) -> np.ndarray:
    """Philox4x32-10 of rows of four 32-bit words (held in uint64)."""
    x = [counter[:, i].astype(np.uint64) for i in range(4)]
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        p0, p1 = x[0] * np.uint64(0xD2511F53), x[2] * np.uint64(0xCD9E8D57)
        high0, high1 = p0 >> np.uint64(32), p1 >> np.uint64(32)
        x = [high1 ^ x[1] ^ np.uint64(k0), p1 & MASK, high0 ^ x[3] ^ np.uint64(k1), p0 & MASK]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(x, 1).astype(np.uint32)


@pytest.mark.parametrize(("n", "p"), [(1, 0.5), (1000, 0.1), (4099, 0.75)])
def test_philox_dropout(n: int, p: float) -> None:
    seed, offset = 0x123456789ABCDEF, 0x5555555500000007
    x, y, bits = normal(n, n), np.empty(n, np.float32), np.empty(n, np.uint32)
    load("random").dropout[cdiv(cdiv(n, 4), 64), 64](x, y, bits, n, p, seed, offset)
    groups = np.arange(cdiv(n, 4), dtype=np.uint64)
    counters = np.zeros((len(groups), 4), np.uint64)
    counters[:, 0], counters[:, 1], counters[:, 2] = offset & 0xFFFFFFFF, offset >> 32, groups
    want = philox(counters, seed).ravel()[:n]
    np.testing.assert_array_equal(bits, want)
    kept = (want >> 8) * np.float32(2.0**-24) >= np.float32(p)
    close(y, np.where(kept, x.astype(np.float64) / (1 - p), 0))


@pytest.mark.parametrize("skip", [0, 4, 2**33])
def test_curand_philox_bits(skip: int) -> None:
    seed, threads = 987654321987654321, 96
    out = np.empty((threads, 4), np.uint32)
    load("random").curand_bits[3, 32](out, seed, skip)
    counters = np.zeros((threads, 4), np.uint64)  # position low and high, then the thread
    counters[:, 0], counters[:, 1] = skip // 4 & 0xFFFFFFFF, skip // 4 >> 32
    counters[:, 2] = np.arange(threads)
    np.testing.assert_array_equal(out, philox(counters, seed))


def test_monte_carlo_pi() -> None:
    inside, samples = np.zeros(1, np.uint64), 200
    load("random").monte_carlo_pi[4, 128](inside, samples, 1234)
    n = 4 * 128 * samples
    assert abs(4 * int(inside[0]) / n - np.pi) < 5 * 1.65 / np.sqrt(n)  # five deviations


def test_curand_normals() -> None:
    samples = 4
    out, wide = np.empty(128 * samples * 4, np.float32), np.empty(128 * samples)
    load("random").normals[2, 64](out, wide, samples, 7)
    for x in (out, wide):
        assert abs(x.mean()) < 5 / np.sqrt(x.size)
        assert abs(x.std() - 1) < 5 / np.sqrt(2 * x.size)
        assert len(np.unique(x)) > 0.99 * x.size


@pytest.mark.parametrize("n", [1, 128, 500])
def test_cub_reduce(n: int) -> None:
    x, blocks = normal(n, n), cdiv(n, 128)
    sums, maxima = np.empty(blocks, np.float32), np.empty(blocks, np.float32)
    load("blocks").reduce[blocks, 128](x, sums, maxima, n)
    parts = np.split(x, range(128, n, 128))
    close(sums, np.array([p.sum(dtype=np.float64) for p in parts]), atol=1e-5)
    np.testing.assert_array_equal(maxima, [p.max() for p in parts])


def test_cub_scan() -> None:
    x = random(1).integers(-1000, 1000, (3, 256), np.int32)
    inclusive, exclusive, totals = np.empty_like(x), np.empty_like(x), np.empty(3, np.int32)
    load("blocks").scan[3, 128](x, inclusive, exclusive, totals)
    sums = np.cumsum(x, 1)
    np.testing.assert_array_equal(inclusive, sums)
    np.testing.assert_array_equal(exclusive, sums - x)
    np.testing.assert_array_equal(totals, sums[:, -1])


def test_cub_radix_sort() -> None:
    keys = normal((2, 128), 1)
    keys[0, :3] = np.inf, -np.inf, 1e-40
    values = np.tile(np.arange(128, dtype=np.int32), (2, 1))
    order = np.argsort(-keys, 1, kind="stable")
    want = np.take_along_axis(keys, order, 1)
    load("blocks").sort[2, 64](keys, values)
    np.testing.assert_array_equal(keys, want)
    np.testing.assert_array_equal(values, order)
