"""Warps that sleep under a schedule: which of them do, and which wakes first."""

from __future__ import annotations

from collections.abc import Callable

from weft.device.sim.emit.switching import allowance
from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import ScheduleFields, SlotFields
from weft.device.sim.memory.timing import chance, draw, priority
from weft.ir import Builder, Val

MANY = 16
"""Blocks that run, beyond which it would take too long to ask each for its priorities."""


def late_warps(b: Builder, at: Val, warps: Val) -> Val:
    """The warps that sleep, of some that could run: where a block starts or leaves a barrier."""
    none = b.integer("i32", 0)

    def some() -> Val:
        late = warps & draw(b, at)
        allowance.pay_suspensions(b, at, b.intrinsic("ctpop", [late]).zext("i64"))
        return late

    def drawn() -> Val:
        return b.either(chance(b, at, ScheduleFields.LATE), some, lambda: none)

    return b.either(allowance.may_suspend(b, at), drawn, lambda: none)


def any_of(b: Builder, at: Val, warps: Val, count: int) -> Val:
    """The place of one of some warps, drawn; a block has `count` of them."""
    start = b.binary("urem", draw(b, at), b.integer("i32", count))
    wide = warps.zext("i64")
    turned = ((wide | (wide << count)) >> start.zext("i64")).trunc("i32")
    place = b.intrinsic("cttz", [turned], extra="false") + start
    return b.select(place.uge(count), place - count, place)


def wake(b: Builder, at: Val, slot: Val, count: int) -> None:
    """Wake warps of a block that sleep: when nothing gets on, or by chance."""
    asleep, ready = b.at(slot, SlotFields.ASLEEP), b.at(slot, SlotFields.READY)
    with b.when(allowance.may_suspend(b, at) ^ 1):  # too many have waited for them
        b.store(b.load("i32", 0, ready) | b.load("i32", 0, asleep), ready)
        for place in (asleep, b.at(slot, SlotFields.DEEP_ASLEEP)):
            b.store(b.integer("i32", 0), place)
        _reset(b, at)
    left = b.load("i32", 0, asleep)
    with b.when(left.ne(0)):
        _wake_one(b, at, slot, left, lambda: any_of(b, at, left, count))


def _wake_one(b: Builder, at: Val, slot: Val, asleep: Val, one: Callable[[], Val]) -> None:
    """Wake the warp of the highest priority, or any: `one` draws it."""

    def number(field: int) -> Val:
        return b.load("i64", 0, b.at(at, field))

    busy, quiet = number(ScheduleFields.BUSY), number(ScheduleFields.QUIET)
    wakes = b.at(at, ScheduleFields.WAKES)
    with b.when(quiet.uge(busy)):
        with b.when(busy.ule(MANY)):
            _wake_best(b, at, slot, asleep, quiet.uge(busy + busy))
        with b.when(busy.ugt(MANY)):
            b.store(busy >> 4, wakes)
            _reset(b, at)
    left = b.load("i64", 0, wakes)
    with b.when(left.ne(0)), b.when((draw(b, at) & 7).eq(0)):
        b.store(left - 1, wakes)
        _let_run(b, slot, one())
    with b.when(quiet.eq(0)), b.when(chance(b, at, ScheduleFields.WAKE)):
        _let_run(b, slot, one())
        _reset(b, at)


def _wake_best(b: Builder, at: Val, slot: Val, asleep: Val, told: Val) -> None:
    """Wake the warp of the highest priority of all blocks, once all have `told` theirs."""
    best, chosen = b.alloca("i64"), b.alloca("i32")
    b.store(b.integer("i64", -1), best)

    deep = b.load("i32", 0, b.at(slot, SlotFields.DEEP_ASLEEP))

    def one(place: Val) -> None:
        # One that sleeps deep has a priority below all others.
        light = ((deep >> place) & 1).zext("i64") ^ 1
        value = priority(b, at, slot, place) | (light << 32)
        with b.when(value.sgt(b.load("i64", 0, best))):
            b.store(value, best)
            b.store(place, chosen)

    each_lane(b, asleep, one)
    mine, highest = b.load("i64", 0, best), b.at(at, ScheduleFields.BEST)
    most = b.smax(b.load("i64", 0, highest), mine)
    b.store(most, highest)
    with b.when(told & mine.eq(most)):
        _let_run(b, slot, b.load("i32", 0, chosen))
        _reset(b, at)
        # Else a warp that tests a flag again and again would keep those from running that set it.
        with b.when(chance(b, at, ScheduleFields.RENEW)):
            b.store(draw(b, at).zext("i64"), b.at(at, ScheduleFields.SALT))


def _let_run(b: Builder, slot: Val, place: Val) -> None:
    bit = b.integer("i32", 1) << place
    for field in (SlotFields.ASLEEP, SlotFields.DEEP_ASLEEP):
        b.store(b.load("i32", 0, b.at(slot, field)) & ~bit, b.at(slot, field))
    ready = b.at(slot, SlotFields.READY)
    b.store(b.load("i32", 0, ready) | bit, ready)


def _reset(b: Builder, at: Val) -> None:
    """Forget what has been told of warps that sleep: one of them may have woken."""
    for field in (ScheduleFields.BEST, ScheduleFields.QUIET):
        b.store(b.integer("i64", 0), b.at(at, field))
