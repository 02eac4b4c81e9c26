"""weft/barrier.cuh, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from device_library import run
from everyday import random


@pytest.mark.parametrize("tiles", [1, 7])
def test_threads_wait_for_copies(tiles: int) -> None:
    x = random(tiles).integers(-9, 9, tiles * 64).astype(np.float32)
    y = np.zeros(64, np.float32)
    run("barrier", "sums", (1, 128), x, y, tiles)
    np.testing.assert_array_equal(y, x.reshape(tiles, 64).sum(0)[::-1])


def test_a_block_arrives_at_the_barrier_of_another() -> None:
    y = np.zeros(32, np.float32)
    run("barrier", "turns", (2, 32, 0, None, 2), y)
    np.testing.assert_array_equal(y, np.arange(32))


def test_phases_are_complete_when_all_have_arrived() -> None:
    """The phase before the first one, of parity 1, is complete until the first one is."""
    y = np.zeros((32, 3), np.int32)
    run("barrier", "phases", (1, 64), y)
    np.testing.assert_array_equal(y, [[2, 2, 1]] * 32)
