"""Switches to other threads where nothing waits: in code that is compiled for schedules.

Before some instructions (`analyse.switches`) a warp may be suspended, with all its lanes. Where the
order of the lanes of a warp matters, some of its lanes may go on there alone, and run ahead of the
others until they meet. Plain code has none of this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from weft.device.sim.analyse import switches
from weft.device.sim.emit.pending_lanes import PendingQueue
from weft.device.sim.emit.suspend import Suspending, Suspension, Undisturbed
from weft.device.sim.emit.switching import allowance
from weft.device.sim.layout import (
    NOTHING_PENDING,
    FrameFields,
    ScheduleFields,
    WarpStatus,
    WorkerFields,
)
from weft.device.sim.memory.accessing import Delays
from weft.device.sim.memory.timing import Timing, chance, draw, is_certain
from weft.ir import Builder, Val
from weft.ptx.cfg import BasicBlock

ENDLESS = 1 << 30
"""A turn that ends where the warp waits."""


class Preempted(Suspending, Protocol):
    """The emitter's interface for switching."""

    timing: Timing
    delays: Delays | None


class Preemption(Undisturbed):
    """The switches of a warp under emission."""

    def __init__(self, e: Preempted, pending: PendingQueue, suspension: Suspension) -> None:
        self.e, self.pending, self.suspension = e, pending, suspension
        self._places, self._holds_at = (
            set(e.program.blocks_from(x)) for x in (e.program.switches, e.program.holds)
        )
        self.blocks = frozenset(self._places | self._holds_at)
        self._parts = set(e.program.blocks_from(e.program.parts))
        self._polling = switches.polling(e.program)

    def prologue(self) -> None:
        """A call of the warp is a turn of some length."""
        e, b = self.e, self.e.b
        self._left, self._ahead, self._held = (b.alloca("i32") for _ in range(3))
        b.store(_turn(b, e.timing.memory()), self._left)
        for flag in (self._ahead, self._held):
            b.store(b.integer("i32", 0), flag)

    def enter(self, block: BasicBlock) -> None:
        """The start of a block: the turn may end here, or some lanes may go on alone."""
        e, b = self.e, self.e.b
        if block.index in self._holds_at:
            self._hold(block)
        if block.index not in self._places:
            return
        e.ins = block.code[0]
        left = b.load("i32", 0, self._left) - 1
        b.store(left, self._left)
        with b.when(left.slt(0), rare=True):
            self._suspend(block, self._status(block), self._pass_once)
        if block.index in self._parts:
            left = allowance.may_part(b, e.timing.memory())
            with b.when(left, rare=True), b.when(e.timing.chance(ScheduleFields.PART)):
                self._part(block)

    def _suspend(self, block: BasicBlock, status: Val, resumed: Callable[[], None]) -> None:
        """Let the warp sleep: others overtake it. `resumed` emits code that runs afterwards."""
        e = self.e
        allowance.pay_suspensions(e.b, e.timing.memory())
        self.suspension.let_others_run(
            block,
            block.index,
            status=status,
            # Elsewhere the others wait for these lanes, which keep the turn of the warp.
            rotates=block.index in e.program.apart,
            resumed=resumed,
        )

    def _hold(self, block: BasicBlock) -> None:
        """Stores are pending that land here: others may overtake the warp before that."""
        e, b = self.e, self.e.b
        if e.delays is None:
            return
        e.ins = block.code[0]
        held = b.load("i32", 0, self._held).ne(0)
        with b.when(held):
            b.store(b.integer("i32", 0), self._held)
        with b.when(held ^ 1), b.when(self._holds(e.delays)):
            last = b.integer("i32", WarpStatus.DEEP_ASLEEP)
            self._suspend(block, last, lambda: b.store(b.integer("i32", 1), self._held))

    def leave(self) -> None:
        """The warp ends: others may overtake it before its stores land."""
        e, b = self.e, self.e.b
        assert e.delays is not None
        with b.when(self._holds(e.delays)):
            allowance.pay_suspensions(b, e.timing.memory())
            self.suspension.suspend(set(), b.integer("i32", WarpStatus.DEEP_ASLEEP))

    def _holds(self, delays: Delays) -> Val:
        """True at run time if the warp is suspended where its stores would land."""
        e, b = self.e, self.e.b
        may = delays.are_pending() & allowance.may_suspend(b, e.timing.memory())
        return b.either(
            may, lambda: e.timing.chance(ScheduleFields.HOLD), lambda: b.integer("i1", 0)
        )

    def _status(self, block: BasicBlock) -> Val:
        """Asleep; but a warp that has gone around a polling loop and changed nothing has spun."""
        e, b = self.e, self.e.b
        light, deep = (b.integer("i32", x) for x in (WarpStatus.ASLEEP, WarpStatus.DEEP_ASLEEP))
        asleep = b.select(e.timing.chance(ScheduleFields.DEEP), deep, light)
        if block.index not in self._polling:
            return asleep
        back = b.load("i32", 0, self.suspension.lockstep.phase).eq(self.suspension.next_place)
        same = b.load("i64", 0, b.at(e.worker, WorkerFields.CHANGED)).eq(0)
        return b.select(back & same, b.integer("i32", WarpStatus.YIELDED), asleep)

    def _pass_once(self) -> None:
        """Let the warp pass the place where it was suspended: each turn gets somewhere."""
        b = self.e.b
        b.store(b.smax(b.load("i32", 0, self._left), 0) + 1, self._left)

    def _part(self, block: BasicBlock) -> None:
        """Let some lanes go on alone, or others of the warp; the rest follows later."""
        e, b = self.e, self.e.b
        at = e.timing.memory()
        lanes = b.load("i32", 0, e.mask_slot)
        some = lanes & draw(b, at)
        waiting = self.pending.words.load(FrameFields.LOWEST).ne(NOTHING_PENDING)
        with b.when(some.eq(0) & waiting):
            allowance.pay_parting(b, at)
            self.pending.add(block.index, lanes)
            self.suspension.rotates = True
            b.jump("rotate")
        with b.when(some.ne(0) & some.ne(lanes)):
            allowance.pay_parting(b, at)
            self.pending.add(block.index, lanes & ~some)
            b.store(some, e.mask_slot)
            b.store(b.integer("i32", 1), self._ahead)

    def may_go_on(self, due: Val, block: BasicBlock, target: int) -> Val:
        """True at run time if lanes go on to `target`: they are due, or run ahead."""
        if not self._is_free(block, target):
            return due
        return due | self.e.b.load("i32", 0, self._ahead).ne(0)

    def _is_free(self, block: BasicBlock, target: int) -> bool:
        """Return whether lanes may go to `target` before others that come earlier in the code."""
        return {block.index, target} <= self.e.program.apart

    def swaps(self, first: int, later: int) -> bool:
        """Return whether lanes that a branch sends to `later` may run before those at `first`."""
        return {first, later} <= self.e.program.apart

    def swap(self) -> Val:
        """True at run time if the later side of a branch runs first; it then runs ahead."""
        e, b = self.e, self.e.b
        at = e.timing.memory()
        swapped = b.either(
            allowance.may_part(b, at),
            lambda: e.timing.chance(ScheduleFields.SWAP),
            lambda: b.integer("i1", 0),
        )
        with b.when(swapped):
            allowance.pay_parting(b, at)
            b.store(b.integer("i32", 1), self._ahead)
        return swapped

    def dispatch(self) -> None:
        """The lanes that are due next do not run ahead."""
        self.e.b.store(self.e.b.integer("i32", 0), self._ahead)

    def rotate(self) -> None:
        """Lanes get the turn out of order: they may run ahead."""
        e, b = self.e, self.e.b
        certain = is_certain(b, e.timing.memory())
        ahead = e.timing.chance(ScheduleFields.AHEAD) & (certain ^ 1)
        b.store(ahead.zext("i32"), self._ahead)


def _turn(b: Builder, at: Val) -> Val:
    """The number of places that a warp passes before it is suspended."""

    def body(x: Builder, args: list[Val]) -> Val:
        at = args[0]
        places = x.alloca("i32")
        x.store(x.integer("i32", 0), places)
        with x.forever():
            with x.when(chance(x, at, ScheduleFields.SUSPEND)):
                x.ret(x.load("i32", 0, places))
            x.store(x.load("i32", 0, places) + 1, places)
        return x.integer("i32", ENDLESS)

    drawn = b.helper("schedule_turn", [("ptr", 0)], ("i32", 0), body)
    wanted = b.load("i64", 0, b.at(at, ScheduleFields.SUSPEND)).ne(0)
    return b.either(
        allowance.may_suspend(b, at) & wanted, lambda: drawn(at), lambda: b.integer("i32", ENDLESS)
    )
