"""weft/cluster.cuh, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from device_library import run
from everyday import random


def test_blocks_read_each_other() -> None:
    x, y = random(1).integers(-9, 9, (2, 4, 32)).astype(np.float32), np.zeros((2, 4, 32, 6), "f4")
    run("cluster", "totals", (8, 32, 0, None, 4), x, y)
    sums = x.sum(1, keepdims=True).repeat(4, 1)
    for i in range(4):
        np.testing.assert_array_equal(y[..., i], sums * (i + 1))
    np.testing.assert_array_equal(y[..., 4], sums[..., :1].repeat(32, 2))
    assert all((y[:, block, :, 5] == block).all() for block in range(4))


def test_blocks_store_in_each_other() -> None:
    x, y = random(2).integers(-9, 9, (2, 4, 128)).astype(np.float32), np.zeros((2, 4, 128), "f4")
    run("cluster", "given", (8, 32, 0, None, 4), x, y)
    np.testing.assert_array_equal(y, x.sum(1, keepdims=True).repeat(4, 1))


@pytest.mark.parametrize("blocks", [2, 8])
def test_values_of_blocks_are_combined(blocks: int) -> None:
    x, y = random(2).normal(size=(16, 32)).astype(np.float32), np.zeros((16, 32, 2), "f4")
    run("cluster", "largest", (16, 32, 0, None, blocks), x, y)
    sums = x.astype(np.float64).sum(1).reshape(-1, blocks)
    best = sums.argmax(1).repeat(blocks)[:, None].repeat(32, 1)
    np.testing.assert_array_equal(y[..., 1], best)
    np.testing.assert_allclose(y[..., 0], sums.max(1).repeat(blocks)[:, None].repeat(32, 1), 1e-5)
