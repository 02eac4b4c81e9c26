"""The order of blocks and of their warps in code that is compiled for schedules."""

from __future__ import annotations

from collections.abc import Callable

from weft.device.sim.emit.frame import FrameLayout
from weft.device.sim.emit.switching import block_turn, waking
from weft.device.sim.layout import ContextFields, ScheduleFields, SlotFields, WarpOrder
from weft.device.sim.memory.timing import draw, schedule
from weft.ir import Builder, IrModule, Val


class LaunchOrder:
    """The order in which `start` takes the blocks of a grid, and `round` the warps of a block."""

    def __init__(self, warps: int, clear: Callable[[Builder, Val], None], *, parks: bool) -> None:
        """Remember what `emit_run` does not know.

        clear  empties what the first warp keeps for its block: another may start first
        parks  a warp that has found nothing new need not look again before memory has changed
        """
        self._warps, self._clear, self._parks = warps, clear, parks

    def block(self, b: Builder, context: Val, index: Val) -> Val:
        """The number of the block that is started as number `index`."""
        at = schedule(b, context)
        base, step, first = (
            b.load("i64", 0, b.at(at, x))
            for x in (
                ScheduleFields.BLOCK_BASE,
                ScheduleFields.BLOCK_STEP,
                ScheduleFields.BLOCK_FIRST,
            )
        )
        count = b.load("i64", 0, b.at(context, ContextFields.TOTAL)) - base
        return base + b.binary("urem", first + (index - base) * step, count)

    def start(self, b: Builder, context: Val, slot: Val) -> None:
        """A block has been given its slot: all its warps can run."""
        at = schedule(b, context)
        self._clear(b, b.at(slot, SlotFields.FRAMES))
        every = b.integer("i32", -1 if self._warps == 32 else (1 << self._warps) - 1)
        late = waking.late_warps(b, at, every)
        b.store(late, b.at(slot, SlotFields.ASLEEP))
        b.store(every & ~late, b.at(slot, SlotFields.READY))
        empty = (
            SlotFields.WAITING,
            SlotFields.SPUN,
            SlotFields.UNSEEN,
            SlotFields.DEEP_ASLEEP,
            SlotFields.RELEASED,
        )
        for field in empty:
            b.store(b.integer("i32", 0), b.at(slot, field))
        given = b.load("i64", 0, b.at(at, ScheduleFields.RANKS)).trunc("i32")
        drawn = given.eq(WarpOrder.DRAWN)
        b.store(
            b.either(drawn, lambda: self._ranks(b, at), lambda: given), b.at(slot, SlotFields.RANKS)
        )
        busy = b.at(at, ScheduleFields.BUSY)
        b.store(b.load("i64", 0, busy) + 1, busy)

    def _ranks(self, b: Builder, at: Val) -> Val:
        """A random order of the warps of a block."""
        number = draw(b, at)
        start = b.binary("urem", number & 0xFFFF, b.integer("i32", self._warps))
        return (number & WarpOrder.BACKWARD) | start

    def emit_turn(
        self, module: IrModule, frames: FrameLayout, *, waits: bool, clusters: bool
    ) -> None:
        """Add `round` to the module."""
        block_turn.emit(module, frames, waits=waits, parks=self._parks, clusters=clusters)
