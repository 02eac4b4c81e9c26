"""The order of blocks and warps in code that is compiled for schedules (`ScheduleFields`)."""

from __future__ import annotations

import math
from collections.abc import Callable

from weft.device.sim.layout import ContextFields, ScheduleFields, SlotFields, WarpOrder
from weft.device.sim.memory.timing import chance, draw, schedule
from weft.ir import Builder, Val


class LaunchOrder:
    """The order in which `round` runs the warps of a block, and `start` the blocks."""

    def __init__(self, warps: int, clear: Callable[[Builder, Val], None]) -> None:
        """`clear` empties what the first warp keeps for its block: another may start first."""
        self._warps, self._clear = warps, clear
        # A step that has no factor in common with the number of warps reaches all of them.
        self._steps = [x for x in range(1, warps + 1) if math.gcd(x, warps) == 1]

    def block(self, b: Builder, context: Val, index: Val) -> Val:
        """The number of the block that is started as number `index`."""
        at = schedule(b, context)
        step, first = (
            b.load("i64", 0, b.at(at, x))
            for x in (ScheduleFields.BLOCK_STEP, ScheduleFields.BLOCK_FIRST)
        )
        total = b.load("i64", 0, b.at(context, ContextFields.TOTAL))
        return b.binary("urem", first + index * step, total)

    def start(self, b: Builder, slot: Val) -> None:
        """A block has been given its slot."""
        self._clear(b, b.at(slot, SlotFields.FRAMES))

    def begin(self, b: Builder, context: Val, turns: Val) -> None:
        """Start a round: `turns` gets the number of turns before another block has its own."""
        self._at = schedule(b, context)
        self._first, self._step, self._odd = (b.alloca("i32") for _ in range(3))
        b.store(b.integer("i32", 0), self._odd)
        most = b.load("i64", 0, b.at(self._at, ScheduleFields.PASSES)).trunc("i32")
        with b.when(most.ne(0)):
            b.store(b.binary("urem", draw(b, self._at), most) + 1, turns)

    def next_pass(self, b: Builder) -> None:
        """Choose the order of the warps of the next turn."""
        order = b.load("i64", 0, b.at(self._at, ScheduleFields.ORDER))
        last, steps = self._warps - 1, len(self._steps)
        backward = order.eq(WarpOrder.BACKWARD)
        for place, forwards, backwards in ((self._first, 0, last), (self._step, 1, max(1, last))):
            plain = b.select(backward, b.integer("i32", backwards), b.integer("i32", forwards))
            b.store(plain, place)
        with b.when(order.eq(WarpOrder.RANDOM)):
            table = b.table("schedule_steps", "i32", self._steps)
            chosen = b.binary("urem", draw(b, self._at), b.integer("i32", steps))
            b.store(b.load("i32", 0, b.at(table, chosen.zext("i64") << 2)), self._step)
            first = b.binary("urem", draw(b, self._at), b.integer("i32", self._warps))
            b.store(first, self._first)
        b.store(b.load("i32", 0, self._odd) ^ 1, self._odd)

    def warp(self, b: Builder, number: Val) -> Val:
        """The warp that has this place in the order."""
        place = b.load("i32", 0, self._first) + number * b.load("i32", 0, self._step)
        return b.binary("urem", place, b.integer("i32", self._warps))

    def leaves_out(self, b: Builder, idle: Val) -> Val:
        """True at run time if a warp that could run does not get this turn.

        Every other pass runs all warps, so that `stall` never sees a state repeat in which some
        warp has not run.
        """
        held = chance(b, self._at, ScheduleFields.HOLD)
        return held & (idle ^ 1) & b.load("i32", 0, self._odd).ne(0)
