"""Lockstep: all warps of a block in one call, from barrier to barrier, one warp after the other.

As long as every warp of a block arrives at the same barrier, or ends, no state is recorded for each
of them: the code continues with the next warp at the start of the phase, and after the last warp
the phase is over. The first warp that does anything else (it arrives elsewhere, waits in divergent
code, ends while others wait) ends the lockstep: the omitted state is recorded for all warps
(`separation`), and `round` calls each of them by itself from then on.

The number of the warp, its frame and its local memory are variables. Each phase is a loop over the
warps: it has a block of its own that sets them, so that the place to continue is known statically.
"""

from __future__ import annotations

from typing import Protocol

from weft.device.sim.analyse import phases
from weft.device.sim.analyse.phases import ENDED, START
from weft.device.sim.analyse.waits import (
    is_arrival,
    is_block_barrier,
    is_cluster_barrier,
    spin_heads,
)
from weft.device.sim.emit import separation
from weft.device.sim.emit.frame import FrameLayout, WarpPlace
from weft.device.sim.emit.registers import Registers
from weft.device.sim.layout import SlotFields, WarpStatus
from weft.device.sim.observe import Watcher
from weft.device.sim.protocols import Located
from weft.ir import Builder, Val
from weft.ptx.isa import decode
from weft.ptx.model import Imm, Instruction

MANY_VARIABLES = 4000
"""Registers times phases: beyond, all phases share one block that sets the variables."""
FEW_PHASES = 3
"""Phases that may end at one place and have separate code there."""
_P, _I32 = ("ptr", 0), ("i32", 0)


class Together(Located, Protocol):
    """The warp that the next warp replaces."""

    registers: Registers
    watch: Watcher
    place: WarpPlace


class Lockstep:
    """The phases of a block under emission; `used` if its warps may run together."""

    def __init__(self, e: Together) -> None:
        self.e = e
        blocks = e.program.graph.blocks
        meetings = [i for x in blocks for i in x.code if is_block_barrier(i) or is_arrival(i)]
        self.used = (
            e.program.warps > 1
            and not e.program.scheduled
            # A loop that waits for another thread must let that thread run.
            and not spin_heads(e.program.graph)
            and all(is_plain(i) for i in meetings)
        )
        self.phases = phases.find(e.program)
        self.on = e.b.named("i32", 0, "%together")
        self._state = e.b.named("i32", 0, "%state")
        self._local = e.slot

    @property
    def late(self) -> bool:
        """True if the state of barriers and warps is first needed when the warps are separated."""
        # Lanes that wait in divergent code have noted it there, and an observer looks at it.
        partial = self.e.program.partial
        return self.skips and not any(partial[x] for x, _ in self.phases.sites)

    @property
    def skips(self) -> bool:
        """True if idle warps may be skipped. An observer sees all of them."""
        return self.used and type(self.e.watch) is Watcher

    # ---- entry ------------------------------------------------------------------------------
    def enter(self, local: Val) -> None:
        """The point where each warp starts or resumes; `local` is the block's local memory."""
        e, b = self.e, self.e.b
        self._local = local
        self.phase, self.outcome = b.alloca("i32"), b.alloca("i32")
        b.store(self._state, self.phase)
        b.store(b.integer("i32", self.phases.outcome(START) or 0), self.outcome)
        if self.used:
            first = e.warp
            e.place = WarpPlace(b.alloca("i32"), b.alloca("ptr"), b.alloca("ptr"), varies=True)
            b.store(first, e.place.warp)
            b.jump("enter")
            b.place("enter")
        self._entry = len(b.fn.lines)
        b.emit("")  # the variables are set here: the size of a frame is known at the end
        if not self.used:
            frame, own = b.named("ptr", 0, "%frame"), b.named("ptr", 0, "%local")
            e.place = WarpPlace(e.warp, frame, own)

    def complete(self, frames: FrameLayout, resumes: dict[int, str]) -> None:
        """Emit the parts known at the end: the size of a frame, registers that start as 0."""
        e, b = self.e, self.e.b
        if self.used:
            self._emit_phases(frames.nbytes, resumes)
            separation.emit(e, self._table, frames, late=self.late)
        entry, b.fn.lines = b.fn.lines, []
        self._set_variables(frames.nbytes)
        entry[self._entry] = "\n".join(b.fn.lines)
        b.fn.lines = entry

    def _emit_phases(self, frame_bytes: int, resumes: dict[int, str]) -> None:
        """A block for each phase: sets the variables, and goes to the code after the barrier."""
        b = self.e.b
        last = len(self.phases.sites)
        labels = {START: "start", **{p: x for p, x in resumes.items() if p <= last}}
        apart = len(labels) * len(self.e.registers.at_start) <= MANY_VARIABLES
        for place, label in labels.items():
            b.place(f"phase{place}")
            if apart:
                self._set_variables(frame_bytes)
            b.jump(label if apart else "enter")

    def _set_variables(self, frame_bytes: int) -> None:
        """Set the variables of the warp that starts or resumes; registers have no value yet."""
        e, b = self.e, self.e.b
        b.begin()
        at = e.warp.zext("i64")
        frame = b.at(e.frames, at * frame_bytes)
        step = 32 * e.program.local_bytes
        local = b.at(self._local, at * step) if step else self._local
        if self.used:
            b.store(frame, e.place.frame)
            b.store(local, e.place.local)
        else:
            b.emit(f"%frame = getelementptr i8, {frame.typed}, i64 0")
            b.emit(f"%local = getelementptr i8, {local.typed}, i64 0")
        b.fn.lines += e.registers.at_start

    # ---- leaving ----------------------------------------------------------------------------
    def is_apart(self) -> Val:
        """True at run time if this call runs one warp alone."""
        return self.on.eq(0)

    def meet(self, place: int) -> None:
        """Wait at a barrier and resume at `place`; the following code is for a single warp."""
        b = self.e.b
        with b.when(self.on.ne(0)):
            resume = b.integer("i32", place)
            if not self.phases.is_certain(place):
                with b.when(self._agrees(resume) ^ 1, rare=True):
                    self._separate(WarpStatus.WAITING, resume)
                    b.ret(b.integer("i32", WarpStatus.SEPARATED))
            with b.when(self._is_last()):
                self.pass_barrier(place)
            self._next_warp(place)

    def pass_barrier(self, place: int) -> None:
        """Start the phase after a barrier at which all warps have arrived."""
        e, b = self.e, self.e.b
        if type(e.watch).released is not Watcher.released:
            self._passed(place)
        b.store(b.integer("i32", 0), e.place.warp)
        b.store(b.integer("i32", place), self.phase)
        outcome = self.phases.outcome(place)
        if outcome is not None:
            b.store(b.integer("i32", outcome), self.outcome)
        b.jump(f"phase{place}")

    def _next_warp(self, end: int) -> None:
        """Run the phase that ends here for the next warp."""
        e, b = self.e, self.e.b
        b.store(e.warp + 1, e.place.warp)
        before = self.phases.before(end)
        if not 0 < len(before) <= FEW_PHASES:
            b.jump("enter")
            return
        for p in before[1:]:
            b.jump_if(b.load("i32", 0, self.phase).eq(p), f"phase{p}")
        b.jump(f"phase{before[0]}")

    def end(self) -> None:
        """End the warp: continue with the next one, or return."""
        b = self.e.b
        with b.when(self.on.ne(0)):
            if not self.phases.is_certain(ENDED):
                with b.when(self._agrees(b.integer("i32", ENDED)) ^ 1, rare=True):
                    self._separate(WarpStatus.DONE)
                    b.ret(b.integer("i32", WarpStatus.SEPARATED))
            with b.when(self._is_last()):
                self.all_end()
            self._next_warp(ENDED)

    def all_end(self) -> None:
        """Return after all warps have ended."""
        b = self.e.b
        b.store(b.integer("i32", 0), b.at(self.e.slot, SlotFields.LIVE_WARPS))
        b.ret(b.integer("i32", WarpStatus.DONE))

    def suspend(self, status: int) -> None:
        """Suspend a warp that waits or yields by itself: then warps are called one by one."""
        b = self.e.b
        with b.when(self.on.ne(0), rare=True):
            self._separate(status)

    def result(self, status: int) -> Val:
        """The status that the code of the warp returns when it suspends."""
        b = self.e.b
        alone = b.integer("i32", status)
        if not self.used:
            return alone
        return b.select(self.is_apart(), alone, b.integer("i32", WarpStatus.SEPARATED))

    def _agrees(self, outcome: Val) -> Val:
        """True at run time if the earlier warps have the same outcome. The first warp decides."""
        b = self.e.b
        agreed = b.select(self.e.warp.eq(0), outcome, b.load("i32", 0, self.outcome))
        b.store(agreed, self.outcome)
        return agreed.eq(outcome)

    def _is_last(self) -> Val:
        return self.e.warp.eq(self.e.program.warps - 1)

    def _passed(self, place: int) -> None:
        """Notify the observer, as `release` does."""
        b, watch = self.e.b, self.e.watch
        number = barrier_number(self.phases.sites[place - 1][1])

        def body(x: Builder, args: list[Val]) -> None:
            watch.released(x, args[0], args[1])

        b.helper("passed", [_P, _I32], None, body)(self.e.slot, b.integer("i32", number))

    def _separate(self, status: int, resume: Val | None = None) -> None:
        """Separate the warps: from here on each is called by itself.

        A warp that waits at a barrier of all its lanes gives the place where it will resume; any
        other records its state itself.
        """
        e, b = self.e, self.e.b
        words = [b.load("i32", 0, x) for x in (self.phase, self.outcome)]
        words += [b.integer("i32", status), resume or b.integer("i32", 0)]
        separation.call(e, words)

    @property
    def _table(self) -> list[tuple[int, int, int]]:
        """For each place where a warp resumes: its barrier's row in the frame, the instruction,
        the number of the barrier."""
        sites = enumerate(self.phases.sites)
        return [(0, 0, 0), *((i, ins.index, barrier_number(ins)) for i, (_, ins) in sites)]


def is_plain(ins: Instruction) -> bool:
    """Return whether it is a barrier with a constant number, for all threads, that waits."""
    if not is_block_barrier(ins) or ins.guard is not None or decode(ins).row.has_dest:
        return False
    if is_cluster_barrier(ins):  # the warps of other blocks must run before it completes
        return False
    return len(ins.operands) <= 1 and all(isinstance(x, Imm) for x in ins.operands)


def barrier_number(ins: Instruction) -> int:
    """The number of a plain barrier."""
    first = ins.operands[0] if ins.operands else Imm(0)
    assert isinstance(first, Imm)
    return first.value
