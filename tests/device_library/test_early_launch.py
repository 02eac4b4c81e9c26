"""weft/early_launch.cuh: the results of kernels that wait for each other."""

from __future__ import annotations

import numpy as np

from device_library import run


def test_a_kernel_waits_for_the_one_before() -> None:
    x = np.arange(128, dtype=np.float32)
    for _ in range(3):
        y = np.zeros_like(x)
        run("early_launch", "next", (4, 32), x, y)
        np.testing.assert_array_equal(y, 2 * x + 1)
        x = y


def test_a_kernel_that_begins_with_its_turn() -> None:
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    run("early_launch", "square", (4, 32), x, y)
    np.testing.assert_array_equal(y, x * x)


def test_a_kernel_that_knows_its_addresses_before_it_waits() -> None:
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    run("early_launch", "triple", (4, 32), x, y)
    np.testing.assert_array_equal(y, 3 * x)
