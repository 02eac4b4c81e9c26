"""All warps of a block in one call: from barrier to barrier, one warp after the other.

A block starts together. As long as every warp arrives at the same barrier, or ends, nothing is
noted for each of them: the code goes on with the next warp at the place where this phase began, and
after the last warp the phase is over. The first warp that does anything else (it arrives elsewhere,
waits in divergent code, ends while others wait) ends this: what was not noted is noted for all
warps, and `round` calls each of them by itself from there on.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

from weft.device.sim.analyse.waits import is_arrival, is_block_barrier, spin_heads
from weft.device.sim.emit.registers import Registers
from weft.device.sim.lane_sets import lane_table
from weft.device.sim.layout import FINISHED, Frame, Slot, Status, Worker
from weft.device.sim.observe import Watcher
from weft.device.sim.protocols import Located
from weft.ir import Builder, Val
from weft.ptx.isa import decode
from weft.ptx.model import Imm, Instruction

ENDED = 0x7FFFFFFF
"""In place of a barrier: the warps of this phase have ended."""
_P, _I32 = ("ptr", 0), ("i32", 0)


class Together(Located, Protocol):
    """The warp whose place another one takes."""

    registers: Registers
    watch: Watcher


class Lockstep:
    """The phases of a block under emission; `used` if its warps may run together."""

    def __init__(self, e: Together) -> None:
        self.e = e
        blocks = e.program.graph.blocks
        meetings = [i for x in blocks for i in x.code if is_block_barrier(i) or is_arrival(i)]
        self.used = (
            e.program.warps > 1
            # A loop that waits for another thread must let that thread run.
            and not spin_heads(e.program.graph)
            and all(is_plain(i) for i in meetings)
        )
        self.on = e.b.named("i32", 0, "%together")
        self._state = e.b.named("i32", 0, "%state")
        self._places: list[tuple[int, int, int]] = [(0, 0, 0)]
        """For each place where a warp resumes: its barrier's row in the frame, the instruction,
        the number of the barrier."""

    # ---- entry ------------------------------------------------------------------------------
    def enter(self) -> None:
        """The point where each warp starts or resumes: `e.warp` and `e.frame` are its own."""
        e, b = self.e, self.e.b
        first = e.warp
        self.phase, self.outcome, self.number, self.arriving = (b.alloca("i32") for _ in range(4))
        b.store(self._state, self.phase)
        for x in (self.outcome, self.arriving):
            b.store(b.integer("i32", 0), x)
        b.store(first, self.number)
        b.jump("enter")
        b.place("enter")
        e.warp = b.load("i32", 0, self.number)
        at = e.warp.zext("i64")
        offset, e.frame = b.named("i64", 0, b.name()), b.named("ptr", 0, b.name())
        e.registers.frame = e.frame
        self._offset = len(b.fn.lines), f"{offset.ref} = mul i64 {at.ref}"
        b.emit("")
        b.emit(f"{e.frame.ref} = getelementptr i8, {e.frames.typed}, {offset.typed}")
        self._start = len(b.fn.lines)
        b.emit("")

    def complete(self, waits_at: int, frame_bytes: int) -> None:
        """What is known at the end of emission: the size of a frame, registers that start as 0."""
        if self.used:
            self._emit_meet()
            self._emit_separate(waits_at, frame_bytes)
        lines = self.e.b.fn.lines
        at, text = self._offset
        lines[at] = f"  {text}, {frame_bytes}"
        lines[self._start] = "\n".join(self.e.registers.at_start)

    # ---- leaving ----------------------------------------------------------------------------
    def is_apart(self) -> Val:
        """Does this call run one warp alone?"""
        return self.on.eq(0)

    def meet(self, resume: int, row: int, number: int) -> None:
        """The warp waits at a barrier and will resume at place `resume`; this code is shared."""
        e, b = self.e, self.e.b
        while len(self._places) <= resume:
            self._places.append((0, 0, 0))
        self._places[resume] = (row, e.ins.index, number)
        b.store(b.integer("i32", resume), self.arriving)
        b.jump_if(self.on.ne(0), "meet")

    def _emit_meet(self) -> None:
        """Goes on with the next warp, or ends the lockstep if others have not arrived here."""
        e, b = self.e, self.e.b
        b.place("meet")
        resume = b.load("i32", 0, self.arriving)
        with b.when(self._agrees(resume)):
            last = self._is_last()
            if type(e.watch).released is not Watcher.released:
                with b.when(last):
                    self._passed(resume)
            b.store(b.select(last, b.integer("i32", 0), e.warp + 1), self.number)
            b.store(b.select(last, resume, b.load("i32", 0, self.phase)), self.phase)
            b.jump("enter")
        self._separate(Status.WAITING, resume)
        b.ret(b.integer("i32", Status.SEPARATED))

    def end(self) -> None:
        """The warp has ended: goes on with the next one, or returns."""
        e, b = self.e, self.e.b
        with b.when(self.on.ne(0)):
            with b.when(self._agrees(b.integer("i32", ENDED))):
                with b.when(self._is_last() ^ 1):
                    b.store(e.warp + 1, self.number)
                    b.jump("enter")
                b.store(b.integer("i32", 0), b.at(e.slot, Slot.LIVE_WARPS))
                b.ret(b.integer("i32", Status.DONE))
            self._separate(Status.DONE)
            b.ret(b.integer("i32", Status.SEPARATED))

    def suspend(self, status: int) -> None:
        """The warp waits or yields by itself: from here on, warps are called one by one."""
        b = self.e.b
        with b.when(self.on.ne(0), rare=True):
            self._separate(status)

    def result(self, status: int) -> Val:
        """What the code of the warp returns when it suspends."""
        b = self.e.b
        alone = b.integer("i32", status)
        if not self.used:
            return alone
        return b.select(self.is_apart(), alone, b.integer("i32", Status.SEPARATED))

    def _agrees(self, outcome: Val) -> Val:
        """Have the warps before this one done the same? The first warp decides."""
        b = self.e.b
        agreed = b.select(self.e.warp.eq(0), outcome, b.load("i32", 0, self.outcome))
        b.store(agreed, self.outcome)
        return agreed.eq(outcome)

    def _is_last(self) -> Val:
        return self.e.warp.eq(self.e.program.warps - 1)

    def _table(self, b: Builder) -> Val:
        return lane_table(b, "i32", tuple(x for row in self._places for x in row))

    def _passed(self, resume: Val) -> None:
        """Notifies the observer, as `release` does."""
        b, watch = self.e.b, self.e.watch

        def body(x: Builder, args: list[Val]) -> None:
            place = x.at(self._table(x), args[1].zext("i64") * 12 + 8)
            watch.released(x, args[0], x.load("i32", 0, place, 4))

        b.helper("passed", [_P, _I32], None, body)(self.e.slot, resume)

    # ---- separation -------------------------------------------------------------------------
    def _separate(self, status: int, resume: Val | None = None) -> None:
        """From here on each warp is called by itself.

        A warp that waits at a barrier of all its lanes gives the place where it will resume; any
        other notes its state itself.
        """
        e, b = self.e, self.e.b
        words = [b.load("i32", 0, x) for x in (self.phase, self.outcome)]
        words += [b.integer("i32", status), resume or b.integer("i32", 0)]
        typed = ", ".join(v.typed for v in (e.worker, e.slot, e.frames, e.warp, *words))
        b.emit(f"call void @separate({typed})")

    def _emit_separate(self, waits_at: int, frame_bytes: int) -> None:
        """separate(worker, slot, frames, warp, phase, outcome, status and place of that warp)."""
        warps = self.e.program.warps

        def body(b: Builder, args: list[Val]) -> None:
            worker, slot, frames, warp, phase, outcome, status, resume = args
            table = self._table(b)
            releases = b.load("i32", 0, b.at(slot, Slot.RELEASES))

            def wait(frame: Val, resume: Val, passed: bool) -> None:
                """The warp waits at a barrier, or is about to go on from one."""
                place = b.at(table, resume.zext("i64") * 12)
                row, index, number = (b.load("i32", 0, b.at(place, 4 * i), 4) for i in range(3))
                barrier = b.at(slot, (number * Slot.BARRIER_BYTES + Slot.BARRIERS).zext("i64"))
                generation = b.load("i32", 0, b.at(barrier, Slot.GENERATION))
                lanes = b.load("i32", 0, b.at(frame, Frame.LIVE))
                fields = {
                    Frame.STATE: resume,
                    Frame.STATUS: b.integer("i32", Status.WAITING),
                    Frame.MASK: lanes,
                    Frame.SEEN: releases - int(passed),
                    Frame.SITE: index,
                }
                for at, value in fields.items():
                    b.store(value, b.at(frame, at))
                note = b.at(b.at(frame, waits_at), row.zext("i64") << 4)
                for i, value in enumerate((lanes, number, generation - int(passed))):
                    b.store(value, b.at(note, 4 * i))
                if not passed:
                    threads = b.intrinsic("ctpop", [lanes])
                    whole = b.integer("i32", 32)
                    for at, by in ((Slot.ARRIVED, threads), (Slot.WEIGHT, whole)):
                        b.store(b.load("i32", 0, b.at(barrier, at)) + by, b.at(barrier, at))
                    ids = b.at(slot, Slot.ARRIVED_IDS)
                    b.store(b.load("i32", 0, ids) | (b.integer("i32", 1) << number), ids)

            def end(frame: Val) -> None:
                live = b.at(slot, Slot.LIVE_WARPS)
                b.store(b.load("i32", 0, live) - 1, live)
                b.store(b.integer("i32", FINISHED), frame)
                retire(b, slot, frame)

            ended = outcome.eq(ENDED)
            with b.loop(warps) as w:
                frame = b.at(frames, w.zext("i64") * frame_bytes)
                with b.when(w.ult(warp)):
                    b.either(
                        ended,
                        partial(end, frame),
                        partial(wait, frame, outcome, passed=False),
                    )
                with b.when(w.ugt(warp) & phase.ne(0)):
                    wait(frame, phase, passed=True)
            frame = b.at(frames, warp.zext("i64") * frame_bytes)
            with b.when(resume.ne(0)):
                wait(frame, resume, passed=False)
            b.store(status, b.at(frame, Frame.STATUS))
            b.store(releases, b.at(frame, Frame.SEEN))
            with b.when(status.eq(Status.DONE)):
                end(frame)
            b.store(b.integer("i64", 1), b.at(worker, Worker.CHANGED))

        self.e.b.helper("separate", [_P, _P, _P, *[_I32] * 5], None, body, attrs="#2")


def retire(b: Builder, slot: Val, frame: Val) -> None:
    """The lanes of a warp that live return: barriers expect only threads that have not exited."""
    at, threads = b.at(frame, Frame.LIVE), b.at(slot, Slot.LIVE_THREADS)
    gone = b.intrinsic("ctpop", [b.load("i32", 0, at)])
    b.store(b.load("i32", 0, threads) - gone, threads)
    b.store(b.integer("i32", 0), at)


def is_plain(ins: Instruction) -> bool:
    """A barrier with a known number, for all threads of the block, at which warps wait."""
    if not is_block_barrier(ins) or ins.guard is not None or decode(ins).row.has_dest:
        return False
    return len(ins.operands) <= 1 and all(isinstance(x, Imm) for x in ins.operands)


def barrier_number(ins: Instruction) -> int:
    """The number of a plain barrier."""
    first = ins.operands[0] if ins.operands else Imm(0)
    assert isinstance(first, Imm)
    return first.value
