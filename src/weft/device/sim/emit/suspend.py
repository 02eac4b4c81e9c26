"""Suspending and resuming a warp: the state that is saved, and the points where it resumes.

A warp of plain code is suspended only where it waits (`Undisturbed`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from weft.device.sim.analyse.waits import member_mask
from weft.device.sim.emit.frame import FrameWords
from weft.device.sim.emit.lockstep import Lockstep, Together
from weft.device.sim.emit.pending_lanes import PendingQueue, RunningLanes
from weft.device.sim.emit.recompute import Recomputed, Recomputing
from weft.device.sim.emit.stall import note_change
from weft.device.sim.layout import NOTHING_PENDING, FrameFields, WarpStatus, WorkerFields
from weft.ir import Val
from weft.ptx.cfg import EXIT, BasicBlock

SPIN_FUEL = 256
"""Iterations of a loop that may be waiting before the warp yields. A waiting loop must yield, since
the thread it waits for may be a lane of the same warp or of a block on the same host thread."""

SHORT_FUEL = 4
"""The same under a schedule, for a warp that changes nothing meanwhile."""


class Suspending(RunningLanes, Together, Recomputing, Protocol):
    """The emitter's interface for saving a warp."""


class Suspension:
    """Suspending and resuming of a warp under emission."""

    def __init__(
        self, e: Suspending, words: FrameWords, pending: PendingQueue, lockstep: Lockstep
    ) -> None:
        self.e, self.words, self.pending, self.lockstep = e, words, pending, lockstep
        self.recomputed = Recomputed(e)
        e.predicates.settled = self.recomputed.comparisons.keys()
        self.resumes: dict[int, str] = {}
        """The number of a place where a warp resumes -> its label; from 1, 0 is a fresh warp."""
        self._places = len(lockstep.phases.sites)
        self.rotates = False
        self.before_yield: Callable[[], None] | None = None
        """Emits code for a warp that waits."""

    def prologue(self) -> None:
        """A call of the warp starts with all its fuel."""
        b = self.e.b
        self.fuel = b.alloca("i32")
        if self.e.program.scheduled:
            self.turns = b.alloca("i32")
            b.store(b.integer("i32", SPIN_FUEL // SHORT_FUEL), self.turns)
        self._refuel()

    def _refuel(self) -> None:
        fuel = SHORT_FUEL if self.e.program.scheduled else SPIN_FUEL
        self.e.b.store(self.e.b.integer("i32", fuel), self.fuel)

    @property
    def next_place(self) -> int:
        """The number of the place where the next suspension resumes."""
        return self._places + 1

    def survivors(self, block: BasicBlock, target: int) -> set[str]:
        """Registers that must outlive a suspension in `block`."""
        live = self.e.program.graph.live_in
        names: set[str] = set() if target == EXIT else set(live[target])
        for x in self.e.program.waiting[block.index]:
            names |= live[x]
        return names

    def suspend(
        self, names: set[str], status: int | Val, site: Val | None = None, place: int | None = None
    ) -> None:
        """Save the warp and return `status`; the code emitted next is where it resumes.

        `site` is the instruction that errors name: the present one, unless another is given.
        `place` is for a warp of which all lanes wait at a barrier: the code may go on with another
        warp, and with this one at that place of `phases`.
        """
        e, b = self.e, self.e.b
        label = b.label("resume")
        number = place or self.next_place
        if place is None:
            self._places = number
        self.resumes[number] = label
        saved = sorted(self.recomputed.without(names))
        e.registers.save(saved, e.frame)
        if place is not None:
            self.lockstep.meet(place)
        elif self.lockstep.used:
            assert not isinstance(status, Val), "a schedule has no lockstep"
            self.lockstep.suspend(status)
        self.words.store(FrameFields.STATE, b.integer("i32", number))
        self.words.store(FrameFields.SITE, site or b.integer("i32", e.ins.index))
        self.words.store(FrameFields.MASK, b.load("i32", 0, e.mask_slot))
        b.ret(status if isinstance(status, Val) else self.lockstep.result(status))
        b.place(label)
        e.registers.restore(saved, e.frame)
        self.recomputed.resume(names)
        # Where warps run together, the mask has not been saved: all lanes that live wait there.
        lanes = FrameFields.MASK if place is None else FrameFields.LIVE
        b.store(self.words.load(lanes), e.mask_slot)

    def turn(self, block: BasicBlock, target: int) -> None:
        """A backward branch of a loop that may be waiting: yields after `SPIN_FUEL` iterations."""
        b = self.e.b
        left = b.load("i32", 0, self.fuel) - 1
        b.store(left, self.fuel)
        with b.when(left.slt(0), rare=True):
            if self.e.program.scheduled:
                with b.when(self._has_found_nothing()):
                    self.let_others_run(block, target)
                self._refuel()
            else:
                self.let_others_run(block, target)

    def _has_found_nothing(self) -> Val:
        """True at run time if the warp has changed nothing since the last time.

        Under a schedule many warps wait for one that sleeps: each looks a few times only.
        """
        e, b = self.e, self.e.b
        flag = b.at(e.worker, WorkerFields.CHANGED)
        changed = b.load("i64", 0, flag).ne(0)
        with b.when(changed):
            b.store(b.integer("i64", 0), flag)
            note_change(b, e.worker)
        left = b.load("i32", 0, self.turns) - 1
        b.store(left, self.turns)
        return (changed & left.sgt(0)) ^ 1

    def let_others_run(
        self,
        block: BasicBlock,
        target: int,
        *,
        status: Val | None = None,
        rotates: bool = True,
        resumed: Callable[[], None] = lambda: None,
    ) -> None:
        """Let other lanes, warps and blocks run; then run the next pending lanes.

        status   the result of the warp's code; None: it yields
        rotates  False: these lanes go on themselves when the warp is called again
        resumed  emits code that runs then
        """
        e, b = self.e, self.e.b
        if status is None and self.before_yield is not None:
            self.before_yield()
        result = status or WarpStatus.YIELDED
        if not rotates or not e.program.partial[block.index]:
            self.suspend(self.survivors(block, target), result)
            self._refuel()
            resumed()
            b.jump(f"B{target}")
            return
        # Among the pending lanes, so that `rotate` can give the turn to those that they wait for.
        self.pending.add(target, e.mask())
        self.suspend(self.survivors(block, target), result)
        self._refuel()
        resumed()
        self.rotates = True
        b.jump("rotate")

    def meet(self, block: BasicBlock) -> None:
        """Before a `.sync` instruction: waits for named lanes that have not arrived yet."""
        e, b = self.e, self.e.b
        lanes = e.mask()
        named = self.words.load(FrameFields.LIVE)
        mask = member_mask(block.code[0], e.program.decoded[block.code[0].index].row)
        if mask is not None:
            member = e.read(mask, "b32")
            if member.lanes:
                member = b.extract(member, b.intrinsic("cttz", [lanes], extra="false") & 31)
            named = named & member
        # Only pending lanes can still arrive: other live lanes wait at a barrier.
        others = self.words.load(FrameFields.LOWEST).ne(NOTHING_PENDING)
        with b.when((named & ~lanes).ne(0) & others, rare=True):
            self.let_others_run(block, block.index)


class Undisturbed:
    """The switches of a warp under emission: none. `switching.preemption` has others."""

    blocks: frozenset[int] = frozenset()
    """Blocks at whose start a warp may be suspended."""

    def prologue(self) -> None:
        """Emit what comes before the first block."""

    def enter(self, block: BasicBlock) -> None:
        """Emit what comes at the start of a block."""

    def leave(self) -> None:
        """Emit what comes at the end of the warp, before its delayed stores land."""

    def may_go_on(self, due: Val, block: BasicBlock, target: int) -> Val:
        """True at run time if lanes go on from a block to `target`; `due`: no others come first."""
        return due

    def swaps(self, first: int, later: int) -> bool:
        """Return whether lanes that a branch sends to `later` may run before those at `first`."""
        return False

    def swap(self) -> Val:
        """True at run time if the later side of a branch runs first."""
        raise NotImplementedError

    def dispatch(self) -> None:
        """Emit what comes before the lanes that are due run."""

    def rotate(self) -> None:
        """Emit what comes before lanes run out of order."""
