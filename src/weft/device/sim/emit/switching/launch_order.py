"""The order of blocks and warps in code that is compiled for schedules (`ScheduleFields`)."""

from __future__ import annotations

import math
from collections.abc import Callable

from weft.device.sim.layout import ContextFields, ScheduleFields, SlotFields, WarpOrder
from weft.device.sim.memory.timing import chance, draw, is_slow, schedule
from weft.ir import Builder, Val


class LaunchOrder:
    """The order in which `round` runs the warps of a block, and `start` the blocks."""

    PERIOD = 16
    """Passes over the warps of a block, of which only the last runs all of them for certain.
    `stall` compares the state of a block after such a pass, in which no warp is missing.
    """

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

    def start(self, b: Builder, context: Val, slot: Val) -> None:
        """A block has been given its slot."""
        self._clear(b, b.at(slot, SlotFields.FRAMES))
        b.store(b.integer("i32", 0), b.at(slot, SlotFields.PASS))
        b.store(draw(b, schedule(b, context)), b.at(slot, SlotFields.RANKS))

    def has_run_all(self, b: Builder, slot: Val) -> Val:
        """True at run time if the last pass over a block left out no warp."""
        return b.load("i32", 0, b.at(slot, SlotFields.PASS)).eq(0)

    def begin(self, b: Builder, context: Val, slot: Val, turns: Val) -> None:
        """Start a round: `turns` gets the number of turns before another block has its own."""
        self._at, self._slot = schedule(b, context), slot
        self._first, self._step = b.alloca("i32"), b.alloca("i32")
        most = b.load("i64", 0, b.at(self._at, ScheduleFields.PASSES)).trunc("i32")
        with b.when(most.ne(0)):
            number = b.binary("urem", draw(b, self._at), most) + 1
            # The block as a whole is slow where a warp of this number would be.
            slow = is_slow(b, self._at, slot, b.integer("i32", self._warps))
            b.store(b.select(slow, b.integer("i32", 1), number), turns)

    def next_pass(self, b: Builder) -> None:
        """Choose the order of the warps of the next turn."""
        last, steps = self._warps - 1, len(self._steps)
        backward = self._order(b).eq(WarpOrder.BACKWARD)
        for place, forwards, backwards in ((self._first, 0, last), (self._step, 1, max(1, last))):
            plain = b.select(backward, b.integer("i32", backwards), b.integer("i32", forwards))
            b.store(plain, place)
        with b.when(self._order(b).uge(WarpOrder.RANDOM)):
            ranks = b.at(self._slot, SlotFields.RANKS)
            with b.when(chance(b, self._at, ScheduleFields.REORDER)):
                b.store(draw(b, self._at), ranks)
            number, table = b.load("i32", 0, ranks), b.table("schedule_steps", "i32", self._steps)
            chosen = b.binary("urem", number >> 16, b.integer("i32", steps))
            b.store(b.load("i32", 0, b.at(table, chosen.zext("i64") << 2)), self._step)
            first = b.binary("urem", number & 0xFFFF, b.integer("i32", self._warps))
            b.store(first, self._first)
        at = b.at(self._slot, SlotFields.PASS)
        b.store((b.load("i32", 0, at) + 1) & (self.PERIOD - 1), at)

    def _order(self, b: Builder) -> Val:
        return b.load("i64", 0, b.at(self._at, ScheduleFields.ORDER))

    def warp(self, b: Builder, number: Val) -> Val:
        """The warp that has this place in the order."""
        place = b.load("i32", 0, self._first) + number * b.load("i32", 0, self._step)
        return b.binary("urem", place, b.integer("i32", self._warps))

    def leaves_out(self, b: Builder, ran: Val) -> Val:
        """True at run time if a warp does not get its turn, since one before it has run."""
        ranked = self._order(b).eq(WarpOrder.RANKED) & (self.has_run_all(b, self._slot) ^ 1)
        return ranked & ran.ne(0)
