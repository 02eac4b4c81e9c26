"""weft/grid.cuh, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from device_library import run
from everyday import random


@pytest.mark.parametrize("blocks", [1, 4, 12])
def test_blocks_meet(blocks: int) -> None:
    """Groups of blocks see what all of a group have written, and leave their counters at 0."""
    x, turns = random(1).integers(-9, 9, 12).astype(np.int32), 2
    y, found = np.zeros((12, 64), np.int32), np.zeros((turns, 12), np.int32)
    counters = np.zeros((12 // blocks, turns), np.int32)
    run("grid", "totals", (12, 64), x, y, found, counters, blocks, turns)
    sums = x.reshape(-1, blocks).sum(1).repeat(blocks)
    np.testing.assert_array_equal(y, (3 * sums)[:, None].repeat(64, 1))
    assert not counters.any()


def test_blocks_meet_again_and_again() -> None:
    """Each turn sees what all blocks wrote before it, in a second launch as well."""
    x, turns = random(2).integers(-9, 9, 5).astype(np.int32), 6
    y, found = np.zeros((5, turns), np.int32), np.zeros((turns, 5), np.int32)
    counter = np.zeros(1, np.int32)
    for launch in (1, 2):
        run("grid", "turns", (5, 64), x * launch, y, found, counter, turns)
        np.testing.assert_array_equal(
            y, x.sum() * launch * np.arange(1, turns + 1)[None].repeat(5, 0)
        )
        assert not counter.any()


def test_more_blocks_than_run_at_once_are_refused() -> None:
    x = np.zeros(1, np.int32)
    with pytest.raises(weft.LaunchError, match="too many blocks for a cooperative launch"):
        run("grid", "totals", (10**6, 64), x, x, x, x, 1, 1)
