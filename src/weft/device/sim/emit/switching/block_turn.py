"""`round` in code that is compiled for schedules: some turns of a block's warps.

A warp that the schedule suspends sleeps: others go on for as long as they can. It wakes when no
block gets on any more, or by chance. So a thread may be overtaken at any place by all others, as in
probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi, Nagarakatte), and not only by
those that happen to run next.

Sets of warps are bits. A bit is the place of a warp in the order of its block (`SlotFields.RANKS`).
"""

from __future__ import annotations

from weft.device.sim.emit.block.round import WARP_CALL, Round
from weft.device.sim.emit.frame import FrameLayout
from weft.device.sim.emit.stall import note_change
from weft.device.sim.emit.switching import allowance, certainty, waking
from weft.device.sim.layout import (
    FrameFields,
    ScheduleFields,
    SlotFields,
    WarpOrder,
    WarpStatus,
    WorkerFields,
)
from weft.device.sim.memory.timing import chance, draw, is_certain, schedule
from weft.ir import Builder, IrFunction, IrModule, Val

PATIENCE = 4
"""Rounds of every block in which nothing gets on, before warps that have found nothing new look
again: the host may have changed memory."""


def emit(
    module: IrModule, frames: FrameLayout, *, waits: bool, parks: bool, clusters: bool
) -> None:
    """Add `round(context, worker, slot)` to the module; its result is a `Round`.

    waits  states of blocks that wait are compared, to find deadlocks
    parks  see `LaunchOrder`
    """
    fn = IrFunction("round", [], "i32", "#0")
    b = Builder(module, fn)
    fn.params = [Val(b, "ptr", 0, f"%{x}") for x in "CKS"]
    _BlockTurn(b, fn.params, frames, parks, clusters).emit(waits)
    module.functions["round"] = fn.text()


class _BlockTurn:
    """The body of `round`."""

    def __init__(
        self, b: Builder, params: list[Val], frames: FrameLayout, parks: bool, clusters: bool
    ) -> None:
        self.b, self.frames, self.parks, self.clusters = b, frames, parks, clusters
        self.context, self.worker, self.slot = params
        self.at = schedule(b, self.context)
        self.got_on = b.alloca("i32")
        """1 when a warp has got on in this round."""

    def emit(self, waits: bool) -> None:
        b = self.b
        b.store(b.integer("i32", 0), self.got_on)
        if waits:
            certainty.note_round(b, self.at, self.slot, self._changes())
        self._look_again()
        with b.when(self._get(SlotFields.ASLEEP).ne(0)):
            waking.wake(b, self.at, self.slot, self.frames.warps)
        left = b.alloca("i64")
        b.store(self._turns(), left)
        with b.forever():
            over = b.load("i64", 0, left).eq(0)
            with b.when(self._get(SlotFields.READY).eq(0)):
                if waits:
                    with b.when(over):  # a loop of barriers may never end otherwise
                        self._compare()
                self._release()
                with b.when(self._get(SlotFields.READY).eq(0)):
                    self._none_ready(waits)
            with b.when(over):
                self._note_quiet()
                b.ret(b.integer("i32", Round.YIELDED))
            b.store(b.load("i64", 0, left) - 1, left)
            self._run(self._choose())

    # ---- words of the block -----------------------------------------------------------------
    def _get(self, field: int) -> Val:
        return self.b.load("i32", 0, self.b.at(self.slot, field))

    def _put(self, field: int, value: Val) -> None:
        self.b.store(value, self.b.at(self.slot, field))

    def _add(self, field: int, bits: Val) -> None:
        self._put(field, self._get(field) | bits)

    def _schedule(self, field: int) -> Val:
        return self.b.load("i64", 0, self.b.at(self.at, field))

    def _changes(self) -> Val:
        return self.b.load("i64", 0, self.b.at(self.worker, WorkerFields.CHANGES))

    def _call(self, name: str) -> None:
        args = ", ".join(v.typed for v in (self.context, self.worker, self.slot))
        self.b.emit(f"call void @{name}({args})")

    # ---- warps that become ready --------------------------------------------------------------
    def _look_again(self) -> None:
        """Let warps that have found nothing new look again, once others have had their turn."""
        b = self.b
        spun = self._get(SlotFields.SPUN)
        with b.when(spun.ne(0)):
            wanted = self._get(SlotFields.READY).eq(0)
            if self.parks:
                new = self._changes().ne(b.load("i64", 0, b.at(self.slot, SlotFields.SPUN_AT)))
                long = self._schedule(ScheduleFields.BUSY) * PATIENCE
                wanted = wanted & (new | self._schedule(ScheduleFields.QUIET).uge(long))
            with b.when(wanted):
                self._put(SlotFields.READY, spun)
                self._put(SlotFields.SPUN, b.integer("i32", 0))

    def _release(self) -> None:
        """Complete barriers; the warps that have waited there are ready, or sleep."""
        b = self.b
        with b.when(self._get(SlotFields.ARRIVED_IDS).ne(0)):
            b.emit(f"call void @release({self.slot.typed})")
        if self.clusters:
            self._call("cluster_release")
        now = self._get(SlotFields.RELEASES)
        with b.when(now.ne(self._get(SlotFields.RELEASED))):
            self._put(SlotFields.RELEASED, now)
            waiting = self._get(SlotFields.WAITING)
            late = waking.late_warps(b, self.at, waiting)
            self._add(SlotFields.ASLEEP, late)
            self._add(SlotFields.READY, waiting & ~late)
            self._put(SlotFields.WAITING, b.integer("i32", 0))

    # ---- the choice of a warp -----------------------------------------------------------------
    def _turns(self) -> Val:
        """Turns of warps in this round."""
        b = self.b
        span = self._schedule(ScheduleFields.SPAN)
        more = b.binary("urem", draw(b, self.at).zext("i64"), span)
        return self._schedule(ScheduleFields.TURNS) + more

    def _choose(self) -> Val:
        """The place of a warp that can run: the first, or by chance any."""
        b = self.b
        ready = self._get(SlotFields.READY)
        place = b.alloca("i32")
        b.store(b.intrinsic("cttz", [ready], extra="false"), place)
        some = self._schedule(ScheduleFields.REORDER).ne(0)
        with b.when(some), b.when(chance(b, self.at, ScheduleFields.REORDER)):
            # Barriers also complete while other warps can run.
            self._release()
            ready = self._get(SlotFields.READY)
            b.store(waking.any_of(b, self.at, ready, self.frames.warps), place)
        return b.load("i32", 0, place)

    def _warp(self, place: Val) -> Val:
        """The number of the warp that has this place."""
        b, count = self.b, self.frames.warps
        ranks = self._get(SlotFields.RANKS)
        start = ranks & (WarpOrder.BACKWARD - 1)
        number = b.select(ranks.uge(WarpOrder.BACKWARD), start + (count - 1) - place, start + place)
        return b.select(number.uge(count), number - count, number)

    def _run(self, place: Val) -> None:
        """A turn of a warp."""
        b = self.b
        bit = b.integer("i32", 1) << place
        for field in (SlotFields.READY, SlotFields.UNSEEN):
            self._put(field, self._get(field) & ~bit)
        warp = self._warp(place)
        frames = b.at(self.slot, SlotFields.FRAMES)
        frame = b.at(frames, warp.zext("i64") * self.frames.nbytes)
        state = b.load("i32", 0, frame)
        values = (self.context, self.worker, self.slot, frames, warp, state, b.integer("i32", 0))
        args = ", ".join(x.typed for x in values)
        result = b.val("i32", 0, f"call {WARP_CALL} i32 @warp({args})")
        b.store(result, b.at(frame, FrameFields.STATUS))
        with b.when(result.eq(WarpStatus.FAULT), rare=True):
            b.ret(b.integer("i32", Round.FAULT))
        with b.when(result.eq(WarpStatus.DONE)):
            at = b.at(self.slot, SlotFields.LIVE_WARPS)
            b.store(b.load("i32", 0, at) - 1, at)
            # Barriers no longer expect the threads of this warp.
            b.store(b.integer("i64", 1), b.at(self.worker, WorkerFields.CHANGED))
        self._count_changes()
        allowance.count_turn(b, self.at, result.eq(WarpStatus.YIELDED))
        b.either(
            result.eq(WarpStatus.YIELDED),
            lambda: self._spun(bit),
            lambda: self._got_on(result, bit),
        )

    def _spun(self, bit: Val) -> None:
        """A warp has found nothing new."""
        b = self.b
        # The first of them decides: it has not seen what the others have.
        with b.when(self._get(SlotFields.SPUN).eq(0)):
            b.store(self._changes(), b.at(self.slot, SlotFields.SPUN_AT))
        self._add(SlotFields.SPUN, bit)

    def _got_on(self, result: Val, bit: Val) -> None:
        b = self.b
        b.store(b.integer("i32", 1), self.got_on)
        with b.when(result.eq(WarpStatus.WAITING)):
            self._add(SlotFields.WAITING, bit)
        with b.when(result.uge(WarpStatus.ASLEEP)):
            self._add(SlotFields.ASLEEP, bit)
        with b.when(result.eq(WarpStatus.DEEP_ASLEEP)):
            self._add(SlotFields.DEEP_ASLEEP, bit)

    def _count_changes(self) -> None:
        """Count a change of memory by this turn: warps that wait for one look again."""
        b = self.b
        flag = b.at(self.worker, WorkerFields.CHANGED)
        with b.when(b.load("i64", 0, flag).ne(0)):
            b.store(b.integer("i64", 0), flag)
            note_change(b, self.worker)

    # ---- the end of the round -----------------------------------------------------------------
    def _note_quiet(self) -> None:
        b = self.b
        quiet = b.at(self.at, ScheduleFields.QUIET)
        more = b.load("i64", 0, quiet) + 1
        none = b.load("i32", 0, self.got_on).eq(0)
        b.store(b.select(none, more, b.integer("i64", 0)), quiet)

    def _none_ready(self, waits: bool) -> None:
        """No warp can run: all have ended, or wait, or sleep."""
        b = self.b
        with b.when(self._get(SlotFields.LIVE_WARPS).eq(0)):
            busy = b.at(self.at, ScheduleFields.BUSY)
            b.store(b.load("i64", 0, busy) - 1, busy)
            b.store(b.integer("i64", 0), b.at(self.at, ScheduleFields.QUIET))
            b.ret(b.integer("i32", Round.DONE))
        self._note_quiet()
        if waits:
            self._compare()
        stuck = (self._get(SlotFields.ASLEEP) | self._get(SlotFields.SPUN)).eq(0)
        results = (b.integer("i32", x) for x in (Round.STUCK, Round.YIELDED))
        b.ret(b.select(stuck, *results))

    def _compare(self) -> None:
        """Compare the state of the block with an earlier one, where each warp has had a turn.

        A state in which no warp has looked again is the same one, and shows nothing.
        """
        awake = (self._get(SlotFields.ASLEEP) | self._get(SlotFields.UNSEEN)).eq(0)
        with self.b.when(awake & is_certain(self.b, self.at)):
            self._put(SlotFields.UNSEEN, self._get(SlotFields.SPUN))
            self._call("stall")
