"""The course of a warp under emission: its start, the lanes that run next, and its end."""

from __future__ import annotations

from collections.abc import Callable

from weft.device.sim.analyse import active_lanes, idle_warps
from weft.device.sim.analyse.waits import is_arrival
from weft.device.sim.emit.branches import Branches, Branching
from weft.device.sim.emit.frame import FrameLayout
from weft.device.sim.emit.separation import retire
from weft.device.sim.layout import FINISHED, NOTHING_PENDING, FrameFields, WarpStatus, WorkerFields
from weft.ir import Val


class WarpSchedule(Branches):
    """Branches, pending lanes and exits of a warp under emission."""

    def __init__(self, e: Branching) -> None:
        super().__init__(e)
        graph = e.program.graph
        self.arrives = any(is_arrival(i) for b in graph.blocks for i in b.code)
        self.header = (self.block_barriers.end + 63) // 64 * 64
        recomputed = self.suspension.recomputed
        self.active_lanes = active_lanes.find(e.program, recomputed.values, recomputed.comparisons)
        self._starts: list[Callable[[], None]] = []

    # ---- start and end ----------------------------------------------------------------------
    def prologue(self) -> None:
        """Entry: a fresh warp starts at block 0, a suspended one where it stopped."""
        e, b = self.e, self.e.b
        known = self.suspension.recomputed.outside_of_frame()
        self.idle = idle_warps.find(e.program, self.lockstep.phases, *known)
        self.suspension.prologue()
        self.preemption.prologue()
        self.start_state = b.load("i32", 0, self.lockstep.phase)
        self.entry_switch = len(b.fn.lines)
        b.emit("")  # the switch: its cases are known at the end
        b.place("start")
        n = e.program.threads
        if e.program.full_warps:
            first = b.integer("i32", -1)
        else:
            last = e.warp.eq(e.program.warps - 1)
            first = b.select(last, b.integer("i32", (1 << (n % 32)) - 1), b.integer("i32", -1))
        b.store(first, e.mask_slot)
        self.words.store(FrameFields.LIVE, first)
        self.pending.start()
        for start in self._starts:
            start()
        e.registers.clear_unwritten()
        b.jump("B0")

    def epilogue(self) -> None:
        """The shared ends: dispatch, exit, abort, and the way back into each suspension."""
        e, b = self.e, self.e.b
        self._emit_exit()
        if self.pending.points:
            self._emit_queues()
            self._emit_dispatch()
        b.place("abort")
        b.store(e.warp.zext("i64"), b.at(e.worker, WorkerFields.ERROR_WARP))
        b.ret(b.integer("i32", WarpStatus.FAULT))
        resumes = self.suspension.resumes
        cases = " ".join(f"i32 {i}, label %{label}" for i, label in resumes.items())
        state = self.start_state
        b.fn.lines[self.entry_switch] = f"  switch {state.typed}, label %start [ {cases} ]"
        e.registers.frame_bytes = max(e.registers.frame_bytes, 64)
        self.lockstep.complete(self.frames, resumes)

    def reserve(
        self, nbytes: int, start: Callable[[], None], finish: Callable[[], None] | None = None
    ) -> int:
        """Bytes of the frame for a part's own use, 64-byte aligned; their offset."""
        at = self.header
        self._starts.append(start)
        if finish is not None:
            self._finishes.append(finish)
        self.header += -(-nbytes // 64) * 64
        return at

    @property
    def frame_bytes(self) -> int:
        return (self.header + self.e.registers.frame_bytes + 63) // 64 * 64

    @property
    def frames(self) -> FrameLayout:
        """The frames of a block."""
        e, sites = self.e, len(self.barriers)
        met = sites > 0 or self.arrives
        return FrameLayout(e.program.warps, self.frame_bytes, self.waits_at, sites, met)

    @property
    def points(self) -> list[int]:
        """Blocks at which registers of lanes that wait are joined with those of others."""
        program = self.e.program
        awaits = program.blocks_from(program.awaits)
        return sorted({*self.pending.points, *self.preemption.blocks, *awaits})

    def live(self) -> Val:
        """The lanes that have not returned, as bits."""
        return self.words.load(FrameFields.LIVE)

    def waiting(self, barrier: int) -> Val:
        """The lanes that wait at a barrier, as bits."""
        return self.words.load(self.waits_at + 16 * barrier)

    # ---- pending lanes ----------------------------------------------------------------------
    def _emit_queues(self) -> None:
        """For each target of an edge, queue the running lanes there when others are due first.

        Many edges share a target, and few of them come here: one copy makes the code shorter.
        """
        e, b = self.e, self.e.b
        for target in sorted(self._queued):
            b.place(f"queue{target}")
            self.pending.add(target, b.load("i32", 0, e.mask_slot))
            b.jump("dispatch")

    def _emit_dispatch(self) -> None:
        """Run the lowest pending block; with none, the warp waits or is done."""
        b = self.e.b
        b.place("dispatch")
        self.preemption.dispatch()
        i = self.words.load(FrameFields.LOWEST)
        with b.when(i.eq(NOTHING_PENDING)):
            self._none_pending()
        if self.suspension.rotates:
            due = b.block
            b.jump("run")
            b.place("rotate")
            self.preemption.rotate()
            chosen, rotated = self.pending.next_turn(), b.block
            b.jump("run")
            b.place("run")
            i = b.phi("i32", 0, [(i, due), (chosen, rotated)])
        self.pending.take(i)

    def _none_pending(self) -> None:
        """No lane can run: some wait at a barrier, or all have returned."""
        b = self.e.b
        live = self.words.load(FrameFields.LIVE)
        with b.when(live.eq(0)):
            self._finish()
        if self.barriers:
            self.block_barriers.suspend_all(self.send)
        else:
            b.jump("abort")

    # ---- leaving the kernel -----------------------------------------------------------------
    def _emit_exit(self) -> None:
        """Emit the exit of some lanes, or of all that are live."""
        e, b = self.e, self.e.b
        if self.pending.points:
            b.place("exit")
            self._retire(b.load("i32", 0, e.mask_slot))
            b.jump("dispatch")
        b.place("end")
        e.watch.leave(self.live() if self.barriers else None)
        self._finish()

    def _finish(self) -> None:
        """End the warp; lanes that are still live return with it."""
        e, b = self.e, self.e.b
        for finish in self._finishes:
            finish()
        if self.lockstep.used:
            self.lockstep.end()
        if self.barriers:
            retire(b, e.slot, e.frame)
        self.words.store(FrameFields.STATE, b.integer("i32", FINISHED))
        b.ret(b.integer("i32", WarpStatus.DONE))
