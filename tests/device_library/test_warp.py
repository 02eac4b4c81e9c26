"""weft/warp.cuh, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from device_library import run
from everyday import close, normal, random

LANES = np.arange(64)


def test_places() -> None:
    y = np.zeros(64, np.int32)
    run("warp", "places", (1, 64), y)
    np.testing.assert_array_equal(y, LANES // 32 * 100 + LANES % 32)


@pytest.mark.parametrize("kernel", ["shuffles", "structs"])
def test_exchanges(kernel: str) -> None:
    x, y = random(1).permutation(64).astype(np.int32), np.zeros((7, 64), np.int32)
    run("warp", kernel, (1, 64), x, y)
    places = [
        LANES // 32 * 32 + 5,
        LANES ^ 3,
        np.where(LANES % 32 < 2, LANES, LANES - 2),
        np.where(LANES % 8 < 2, LANES, LANES - 2),
        np.where(LANES % 32 > 29, LANES, LANES + 2),
        np.where(LANES % 8 > 5, LANES, LANES + 2),
        LANES // 8 * 8 + 5,
    ]
    np.testing.assert_array_equal(y, [x[place] for place in places])


def test_reductions() -> None:
    x, y = normal(64, 2), np.zeros((8, 64), np.float32)
    run("warp", "reductions", (1, 64), x, y, 16)
    warps, wide = x.reshape(2, 32), x.astype(np.float64)
    close(y[0], wide.reshape(2, 32).sum(1).repeat(32))
    np.testing.assert_array_equal(y[1], warps.max(1).repeat(32))
    np.testing.assert_array_equal(y[2], warps.min(1).repeat(32))
    close(y[3], wide.reshape(8, 8).sum(1).repeat(8))
    close(y[4], wide.reshape(4, 16).sum(1).repeat(16))
    np.testing.assert_array_equal(
        y[5].reshape(2, 8, 4), warps.reshape(2, 8, 4).max(1, keepdims=True).repeat(8, 1)
    )
    np.testing.assert_array_equal(abs(y[6]), abs(warps).max(1).repeat(32))
    neighbours = x.reshape(32, 2).sum(1, dtype=np.float32)  # two by two: the order decides the bits
    np.testing.assert_array_equal(y[7], (neighbours[::2] + neighbours[1::2]).repeat(4))


def test_scans() -> None:
    x = random(3).integers(-9, 9, 64).astype(np.float64)
    sums, maxima, strided = (np.zeros_like(x) for _ in range(3))
    run("warp", "scans", (1, 64), x, sums, maxima, strided)
    np.testing.assert_array_equal(sums.reshape(2, 32), x.reshape(2, 32).cumsum(1))
    np.testing.assert_array_equal(maxima.reshape(16, 4), np.maximum.accumulate(x.reshape(16, 4), 1))
    np.testing.assert_array_equal(strided.reshape(2, 4, 8), x.reshape(2, 4, 8).cumsum(1))


def test_a_struct_is_reduced() -> None:
    x, y = random(4).integers(0, 9, 64).astype(np.float32), np.zeros(64, np.int32)
    run("warp", "argmax", (1, 64), x, y)
    np.testing.assert_array_equal(y, [x[:32].argmax()] * 32 + [32 + x[32:].argmax()] * 32)
