"""Schedules: mistakes that plain runs hide show under some schedule, their clean twins under none.

Also: a schedule repeats itself, every lane order is right for code that synchronises, and launches
without a schedule run the code that they always ran.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest

import weft
from folders import TESTS
from weft.device.sim import schedules
from weft.device.sim.emit.generate import generate
from weft.errors import Error
from weft.ptx.parse import parse

SCHEDULES = ["first", "last", *(f"random:{i}" for i in range(1, 5))]
MANY = [*SCHEDULES, *(f"random:{i}" for i in range(5, 97))]
"""A mistake between blocks shows under one schedule of thirty, others under most."""
X = (1 + np.arange(512) * 7919 % 1009).astype(np.int32)


@functools.cache
def module(right: bool) -> weft.Module:
    """All planted kernels, with their mistakes or without."""
    source = (TESTS / "kernels" / "scheduled.cu").read_text()
    head = f"constexpr bool right = {str(right).lower()};\n"
    return weft.cuda(head + source, arch="sm_90", device="sim:h200")


def run(kernel: str, schedule: str, grid: int, *, right: bool) -> tuple[np.ndarray, np.ndarray]:
    """(y, flags) after a launch under a schedule; no name: a plain launch."""
    y, flags = np.zeros(128, np.int32), np.zeros(1024, np.int32)
    launch = module(right).kernel(kernel)[grid, 128]
    with schedules.named(schedule):
        launch(X, y, flags, time_limit=60)
    return y, flags


def _finished(grid: int) -> np.ndarray:
    return grid * X[:128] + sum(range(grid))


def _rounds() -> np.ndarray:
    return np.repeat(X[:128].reshape(4, 32).sum(1), 32)


def _last_warp(*shifts: int) -> np.ndarray:
    y = np.zeros(128, np.int32)
    y[96:] = sum(X[96 - d : 128 - d] for d in shifts)
    return y


def _first_warp() -> np.ndarray:
    y = np.zeros(128, np.int32)
    y[:32] = X.reshape(16, 32).sum(0)
    return y


def _handed() -> np.ndarray:
    return np.where(np.arange(128) == 0, X[0], 0)


Expected = Callable[[np.ndarray, np.ndarray], bool]


def same(want: Callable[[], np.ndarray]) -> Expected:
    """y is the array."""
    return lambda y, flags: np.array_equal(y, want())


def count(number: int) -> Expected:
    """The second flag is the number."""
    return lambda y, flags: flags[1] == number


CASES: dict[str, tuple[int, Expected, str | None]] = {
    "waited": (1, same(lambda: X[:128] + X[128:256]), "first"),
    "reused": (1, same(_first_warp), ""),
    "landed": (1, same(lambda: X[:128]), "first"),
    "parity": (1, same(lambda: X[:128]), None),
    "sent": (1, same(lambda: 2 * X[:128]), "first"),
    "joined": (1, same(lambda: _last_warp(96, 64, 32)), ""),
    "named": (1, same(lambda: _last_warp(64, 32)), ""),
    "locked": (4, count(16), ""),
    "counted": (4, count(16), ""),
    "exchanged": (1, same(lambda: X[np.arange(128) ^ 31]), ""),
    "broadcast": (1, same(lambda: X[np.arange(128) // 32 * 32]), ""),
    "rounds": (1, same(_rounds), ""),
    "handed": (2, same(_handed), ""),
    "finished": (3, same(lambda: _finished(3)), ""),
}
"""Kernel -> the grid, what is right, and a schedule that hides the mistake ("": a plain run).

None: a plain run is a deadlock, since it completes a copy before the test that should not wait.
"""


@pytest.mark.parametrize("kernel", CASES)
def test_mistake_shows_under_a_schedule(kernel: str) -> None:
    grid, right, hidden = CASES[kernel]
    if hidden is not None:
        assert right(*run(kernel, hidden, grid, right=False)), "the mistake is not hidden"
    tried = ["last"] if hidden is None else MANY
    wrong = (s for s in tried if not right(*run(kernel, s, grid, right=False)))
    found = next(wrong, None)
    assert found is not None
    y, flags = run(kernel, found, grid, right=False)
    again, as_before = run(kernel, found, grid, right=False)
    assert np.array_equal(y, again) and np.array_equal(flags, as_before)  # the same every time


@pytest.mark.parametrize("kernel", CASES)
def test_clean_twin_is_right_under_all(kernel: str) -> None:
    grid, right, _ = CASES[kernel]
    for schedule in ("", *SCHEDULES):
        assert right(*run(kernel, schedule, grid, right=True)), schedule


def test_only_scheduled_code_draws() -> None:
    """Plain code has nothing of a schedule: no other order, no switches, no random numbers."""
    ptx = parse(module(True).ptx.text)
    for entry in ptx.entries:
        plain, _ = generate(ptx, entry, (128, 1, 1))
        assert "schedule_" not in plain
        assert "schedule_turn" in generate(ptx, entry, (128, 1, 1), scheduled=True)[0]


@pytest.mark.parametrize("name", ["", "middle", "random", "random:-1", "random:x", "last:2"])
def test_unknown_schedules_are_refused(name: str) -> None:
    with pytest.raises(Error, match="first, last or random:N"), weft.schedule(name):
        pass
