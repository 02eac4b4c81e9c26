"""Launches under schedules on a busy machine: their verdict stays the same."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from everyday import load
from weft.device.sim.run import launch

OFTEN = 0.0003
"""Seconds between two looks: as if the launch had little of the processor between them."""


@pytest.fixture(autouse=True)
def busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "PAUSE", OFTEN)


@pytest.mark.parametrize("schedule", ["last", "random:1", "random:2", "random:14"])
def test_waits_that_end_by_chance_are_no_deadlock(schedule: str) -> None:
    """Copies that are pending may complete at the next test of their mbarrier, or later."""
    copies, blocks = 4, 2
    x = np.arange(128 * copies, dtype=np.int32) * 7919 % 1009
    sums, turn = np.zeros(128, np.int32), np.zeros(1, np.uint32)
    with weft.schedule(schedule):
        load("late_ends", arch="sm_90a").chained[blocks, 128](x, sums, turn, copies, 200_000)
    one = x.reshape(copies, 128).sum(0)
    np.testing.assert_array_equal(sums, 3 * one + one)


@pytest.mark.parametrize("schedule", ["last", "random:1", "random:2"])
def test_pending_copies_hide_no_deadlock(schedule: str) -> None:
    x, flag = np.ones(128, np.int32), np.zeros(1, np.int32)
    with weft.schedule(schedule), pytest.raises(weft.Deadlock):
        load("late_ends", arch="sm_90a").pending[3, 128](x, flag, time_limit=60)
