"""A launch in which nothing has changed for long: its schedule leaves nothing to chance any more.

A wait may end by chance: a test of an mbarrier completes a copy, or the lanes that the others wait
for get the turn. Until then a block comes back to states that it was in before, and yet does not
repeat forever. So states are compared only where chance no longer decides how a warp goes on:
pending copies complete when they are waited for, no warp is suspended, and lanes keep their order.
A GPU may choose this as well. The order of warps is still drawn; while memory stays the same, it
does not matter.
"""

from __future__ import annotations

from weft.device.sim.layout import ScheduleFields, SlotFields
from weft.device.sim.memory.timing import is_certain
from weft.ir import Builder, Val

LONG = 32
"""Rounds of every block without a change, after which nothing is left to chance. Warps that sleep
wake earlier, one by one."""


def note_round(b: Builder, at: Val, slot: Val, changes: Val) -> None:
    """A round of a block begins; `changes` are those of the launch so far."""
    still, seen = b.at(at, ScheduleFields.STILL), b.at(at, ScheduleFields.STILL_AT)
    same = b.load("i64", 0, seen).eq(changes)
    rounds = b.select(same, b.load("i64", 0, still) + 1, b.integer("i64", 0))
    b.store(rounds, still)
    b.store(changes, seen)
    long = b.load("i64", 0, b.at(at, ScheduleFields.BUSY)) * LONG
    b.store(rounds.uge(long).zext("i64"), b.at(at, ScheduleFields.CERTAIN))
    with b.when(is_certain(b, at) ^ 1):  # no later state is compared with one from before
        b.store(b.integer("i64", 0), b.at(slot, SlotFields.EPOCH))
