"""Schedules: mistakes that plain runs hide show under some schedule, their clean twins under none.

Also: a schedule repeats itself, every lane order is right for code that synchronises, and launches
without a schedule run the code that they always ran.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
from scheduled import MISTAKES, module
from weft.device.sim.emit.generate import generate
from weft.errors import Error
from weft.ptx.parse import parse

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


def test_only_scheduled_code_draws() -> None:
    """Plain code has nothing of a schedule: no other order, no switches, no random numbers."""
    for file in sorted({m.file for m in MISTAKES.values()}):
        ptx = parse(module(file, True).ptx.text)
        for entry in ptx.entries:
            plain, _ = generate(ptx, entry, (128, 1, 1))
            assert "schedule_" not in plain
            assert "schedule_turn" in generate(ptx, entry, (128, 1, 1), scheduled=True)[0]


@pytest.mark.parametrize("name", ["", "middle", "random", "random:-1", "random:x", "last:2"])
def test_unknown_schedules_are_refused(name: str) -> None:
    with pytest.raises(Error, match="first, last or random:N"), weft.schedule(name):
        pass
