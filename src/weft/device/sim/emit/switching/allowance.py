"""The suspensions and partings that a launch under a schedule has left.

A suspension costs the turns of a warp that it ends and begins, the search for the warp that wakes
next, and a turn of each warp that waits for it; a parting costs turns of lanes. They are paid from
an allowance that grows with the turns that get on: a small launch has more than it needs, a long
one keeps to a multiple of its plain time.
"""

from __future__ import annotations

from weft.device.sim.layout import ScheduleFields
from weft.device.sim.memory.timing import is_certain
from weft.ir import Builder, Val

SUSPENSION, SEARCH, PARTING, SPIN = 16, 4, 32, 8
"""The cost in turns of a suspension, and of the search for the next warp in each block; of a
parting; of a turn that finds nothing new."""


def count_turn(b: Builder, at: Val, spun: Val) -> None:
    """Count a turn of a warp that got on, or `spun`; `at` is the memory of the schedule."""
    one, less = b.integer("i64", 1), b.integer("i64", -SPIN)
    _add(b, at, ScheduleFields.CREDIT, b.select(spun, less, one))
    _add(b, at, ScheduleFields.PARTINGS, one)


def may_suspend(b: Builder, at: Val) -> Val:
    """True at run time if another warp may be suspended."""
    return b.load("i64", 0, b.at(at, ScheduleFields.CREDIT)).sgt(0) & (is_certain(b, at) ^ 1)


def may_part(b: Builder, at: Val) -> Val:
    """True at run time if lanes may part once more."""
    return b.load("i64", 0, b.at(at, ScheduleFields.PARTINGS)).sgt(0) & (is_certain(b, at) ^ 1)


def pay_suspensions(b: Builder, at: Val, count: Val | int = 1) -> None:
    """Count suspensions."""
    number = b.integer("i64", count) if isinstance(count, int) else count
    each = b.load("i64", 0, b.at(at, ScheduleFields.BUSY)) * SEARCH + SUSPENSION
    _add(b, at, ScheduleFields.CREDIT, b.integer("i64", 0) - number * each)


def pay_parting(b: Builder, at: Val) -> None:
    """Count a parting."""
    _add(b, at, ScheduleFields.PARTINGS, b.integer("i64", -PARTING))


def _add(b: Builder, at: Val, field: int, amount: Val) -> None:
    place = b.at(at, field)
    b.store(b.load("i64", 0, place) + amount, place)
