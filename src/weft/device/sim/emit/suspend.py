"""Suspending and resuming a warp: the state that is saved, and the points where it resumes."""

from __future__ import annotations

from typing import Protocol

from weft.device.sim.analyse.waits import member_mask
from weft.device.sim.emit.frame import FrameWords
from weft.device.sim.emit.pending_lanes import Pending, Running
from weft.device.sim.emit.registers import Registers
from weft.device.sim.layout import NOTHING_PENDING, Frame, Status
from weft.device.sim.protocols import Executing
from weft.ir import Val
from weft.ptx.cfg import EXIT, Block

SPIN_FUEL = 256
"""Iterations of a loop that may be waiting before the warp yields. A waiting loop must yield, since
the thread it waits for may be a lane of the same warp or of a block on the same host thread."""


class Suspending(Executing, Running, Protocol):
    """What a warp that stops must save."""

    registers: Registers


class Suspension:
    """Suspending and resuming of a warp under emission."""

    def __init__(self, e: Suspending, words: FrameWords, pending: Pending) -> None:
        self.e, self.words, self.pending = e, words, pending
        self.resumes: list[str] = []
        self.rotates = False

    def prologue(self) -> None:
        """A call of the warp starts with all its fuel."""
        self.fuel = self.e.b.alloca("i32")
        self._refuel()

    def _refuel(self) -> None:
        self.e.b.store(self.e.b.integer("i32", SPIN_FUEL), self.fuel)

    def survivors(self, block: Block, target: int) -> list[str]:
        """Registers that must outlive a suspension in `block`."""
        live = self.e.program.graph.live_in
        names: set[str] = set() if target == EXIT else set(live[target])
        for x in self.e.program.waiting[block.index]:
            names |= live[x]
        return sorted(names)

    def suspend(self, names: list[str], status: int, site: Val | None = None) -> None:
        """Saves and returns `status`; what is emitted next is where the warp comes back.

        `site` is the instruction that errors name: the present one, unless another is given.
        """
        e, b = self.e, self.e.b
        label = b.label("resume")
        self.resumes.append(label)
        # Numbered from 1: 0 is a fresh warp.
        self.words.store(Frame.STATE, b.integer("i32", len(self.resumes)))
        self.words.store(Frame.SITE, site or b.integer("i32", e.ins.index))
        self.words.store(Frame.MASK, b.load("i32", 0, e.mask_slot))
        e.registers.save(names, e.frame)
        b.ret(b.integer("i32", status))
        b.place(label)
        e.registers.restore(names, e.frame)
        b.store(self.words.load(Frame.MASK), e.mask_slot)

    def turn(self, block: Block, target: int) -> None:
        """A backward branch of a loop that may be waiting: yields after `SPIN_FUEL` iterations."""
        b = self.e.b
        left = b.load("i32", 0, self.fuel) - 1
        b.store(left, self.fuel)
        with b.when(left.slt(0), rare=True):
            self._let_others_run(block, target)

    def _let_others_run(self, block: Block, target: int) -> None:
        """Lets other lanes, warps and blocks run; then the next pending lanes take their turn."""
        e, b = self.e, self.e.b
        if not e.program.partial[block.index]:
            self.suspend(self.survivors(block, target), Status.YIELDED)
            self._refuel()
            b.jump(f"B{target}")
            return
        # Among the pending lanes, so that `rotate` can give the turn to those that they wait for.
        self.pending.add(target, e.mask())
        self.suspend(self.survivors(block, target), Status.YIELDED)
        self._refuel()
        self.rotates = True
        b.jump("rotate")

    def meet(self, block: Block) -> None:
        """Before a `.sync` instruction: waits for named lanes that have not arrived yet."""
        e, b = self.e, self.e.b
        lanes = e.mask()
        named = self.words.load(Frame.LIVE)
        mask = member_mask(block.code[0], e.program.decoded[block.code[0].index].row)
        if mask is not None:
            member = e.read(mask, "b32")
            if member.lanes:
                member = b.extract(member, b.intrinsic("cttz", [lanes], extra="false") & 31)
            named = named & member
        # Only pending lanes can still arrive: other live lanes wait at a barrier.
        others = self.words.load(Frame.LOWEST).ne(NOTHING_PENDING)
        with b.when((named & ~lanes).ne(0) & others, rare=True):
            self._let_others_run(block, block.index)
