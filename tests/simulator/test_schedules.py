"""Schedules: mistakes that plain runs hide show under some schedule, their clean twins under none.

Also: a schedule repeats itself, every lane order is right for code that synchronises, and launches
without a schedule run the code that they always ran.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

import weft
from folders import ROOT
from scheduled import MISTAKES, X, module
from weft.device.sim import schedules
from weft.device.sim.emit.generate import generate
from weft.device.sim.run import draft
from weft.errors import Error
from weft.ptx.parse import parse

sys.path.insert(0, str(ROOT / "benchmarks"))

import schedule_rates

SCHEDULES = ["first", "last", *(f"random:{i}" for i in range(1, 5))]
MANY = [*SCHEDULES, *(f"random:{i}" for i in range(5, 31))]
"""The rarest mistake shows under a fourth of the schedules."""


@pytest.mark.parametrize("kernel", MISTAKES)
def test_mistake_shows_under_a_schedule(kernel: str) -> None:
    mistake = MISTAKES[kernel]
    if mistake.hidden is not None:
        assert mistake.run(mistake.hidden, right=False), "the mistake is not hidden"
    tried = ["last"] if mistake.hidden is None else MANY
    found = next((s for s in tried if not mistake.run(s, right=False)), None)
    assert found is not None
    first, again = (mistake.results(found, right=False) for _ in range(2))
    assert all(map(np.array_equal, first, again))  # the same every time


@pytest.mark.parametrize("kernel", MISTAKES)
def test_clean_twin_is_right_under_all(kernel: str) -> None:
    for schedule in ("", *SCHEDULES):
        assert MISTAKES[kernel].run(schedule, right=True), schedule


def launch(kernel: str, schedule: str, grid: int, block: int = 128) -> tuple[np.ndarray, ...]:
    """(y, flags) after a launch of a kernel of right.cu."""
    y, flags = np.zeros(128, np.int32), np.zeros(1024, np.int32)
    with schedules.named(schedule), draft.drafts():
        module("right", True).kernel(kernel)[grid, block](X, y, flags, time_limit=60)
    return y, flags


@pytest.mark.parametrize("kernel", ["own", "sizes"])
def test_delayed_stores_and_late_copies_give_the_same_bits(kernel: str) -> None:
    want = launch(kernel, "", 1)
    assert want[0].any()
    for schedule in SCHEDULES:
        assert all(map(np.array_equal, launch(kernel, schedule, 1), want)), schedule


def test_own_stores_are_seen() -> None:
    """The numbers of a plain run, computed without it."""
    low = X[:64] & 0xFF
    want = 4 + low + X[:64] + 7 + (1 << 8) + (2 << 16)
    assert np.array_equal(launch("own", "last", 1)[0][:64], want)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_large_grids_run_in_part_under_a_schedule(schedule: str) -> None:
    blocks = 3 * schedules.MANY_WARPS
    some = schedules.parse(schedule).stretch(blocks, 1)
    assert schedules.MANY_WARPS <= len(some) < blocks and some.stop <= blocks
    y, flags = launch("counts", schedule, blocks, 32)
    assert np.all(flags == 32 * blocks // 1024)
    assert np.all(y[:32] == blocks * (blocks - 1) // 2)


def test_small_grids_run_under_a_schedule_as_a_whole() -> None:
    for schedule in SCHEDULES:
        assert schedules.parse(schedule).stretch(100, 8) == range(100)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_block_that_waits_in_a_loop_of_barriers_is_served(schedule: str) -> None:
    assert np.array_equal(launch("awaited", schedule, 2)[0], X[:128])


@pytest.mark.parametrize("kernel", ["kept", "forgotten"])
def test_deadlocks_are_found_under_schedules(kernel: str) -> None:
    for schedule in ("first", "last", "random:1", "random:2"):
        with pytest.raises(weft.Deadlock):
            launch(kernel, schedule, 3)


def test_only_scheduled_code_draws() -> None:
    """Plain code has nothing of a schedule: no other order, no switches, no random numbers."""
    for file in sorted({m.file for m in MISTAKES.values()}):
        ptx = parse(module(file, True).ptx.text)
        for entry in list(ptx.entries)[::3]:
            plain, _ = generate(ptx, entry, (128, 1, 1))
            assert "schedule_" not in plain
            assert "schedule_turn" in generate(ptx, entry, (128, 1, 1), scheduled=True)[0]


@pytest.mark.parametrize("name", ["", "middle", "random", "random:-1", "random:x", "last:2"])
def test_unknown_schedules_are_refused(name: str) -> None:
    with pytest.raises(Error, match="first, last or random:N"), weft.schedule(name):
        pass


def test_a_launch_that_is_refused_is_no_finding() -> None:
    """The record of rates counts faults and wrong results."""
    assert schedule_rates.shows(MISTAKES["parity"], "first")
    missing = MISTAKES["parity"]._replace(file="nowhere")
    empty = MISTAKES["joined"]._replace(grid=0)
    for refused, error in ((missing, FileNotFoundError), (empty, Error)):
        with pytest.raises(error):
            schedule_rates.shows(refused, "first")
