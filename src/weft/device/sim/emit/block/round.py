"""`round`: runs the warps of a block in turn, and `release`: completes its barriers.

Code for schedules has a `round` of its own: `switching/block_turn.py`.
"""

from __future__ import annotations

from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import (
    FINISHED,
    FRESH,
    FrameFields,
    SlotFields,
    WarpStatus,
    WorkerFields,
)
from weft.device.sim.observe import Watcher
from weft.ir import Builder, IrFunction, IrModule, Val

WARP_CALL = "preserve_nonecc"
"""The calling convention of `warp`: the callee saves no registers, since the caller uses few."""
PATIENCE = 4
"""Rounds in which every warp of a block only yields, before another block is tried."""
TURNS = 256
"""Rounds in which some warp makes progress, before another block is tried: a loop that waits for
another block may contain a barrier, and its warps then wait at the barrier but never yield."""


class Round:
    """Results of `round`."""

    DONE, STUCK, YIELDED, FAULT = range(4)


def emit_round(
    module: IrModule, warps: int, frame_bytes: int, waits: bool, together: bool, clusters: bool
) -> None:
    """round(context, worker, slot): runs a block until it is done, stuck or yields: `Round`."""
    fn = IrFunction("round", [], "i32", "#0")
    b = Builder(module, fn)
    fn.params = [Val(b, "ptr", 0, f"%{x}") for x in "CKS"]
    context, worker, slot = fn.params
    zero = b.integer("i32", 0)
    frames = b.at(slot, SlotFields.FRAMES)

    def call(*rest: Val) -> Val:
        args = ", ".join(x.typed for x in (context, worker, slot, frames, *rest))
        return b.val("i32", 0, f"call {WARP_CALL} i32 @warp({args})")

    if together:
        flag = b.at(slot, SlotFields.TOGETHER)
        with b.when(b.load("i32", 0, flag).ne(0)):
            b.store(zero, flag)
            result = call(zero, b.integer("i32", FRESH), b.integer("i32", 1))
            with b.when(result.eq(WarpStatus.FAULT), rare=True):
                b.ret(b.integer("i32", Round.FAULT))
            with b.when(result.eq(WarpStatus.DONE)):
                b.ret(b.integer("i32", Round.DONE))
    ran, yielded, tries, turns = (b.alloca("i32") for _ in range(4))
    b.store(b.integer("i32", PATIENCE), tries)
    b.store(b.integer("i32", TURNS), turns)
    with b.forever():
        b.store(zero, ran)
        b.store(zero, yielded)
        with b.loop(warps) as w:
            frame = b.at(frames, w.zext("i64") * frame_bytes)
            state = b.load("i32", 0, frame)
            done = state.eq(FINISHED)
            seen = b.load("i32", 0, b.at(frame, FrameFields.SEEN))
            held = b.load("i32", 0, b.at(frame, FrameFields.STATUS)).eq(WarpStatus.WAITING)
            # A warp at a barrier need not be called before some barrier of the block has completed.
            same = seen.eq(b.load("i32", 0, b.at(slot, SlotFields.RELEASES)))
            idle = done | (held & same)
            with b.when(idle ^ 1):
                result = call(w, state, zero)
                b.store(result, b.at(frame, FrameFields.STATUS))
                with b.when(result.eq(WarpStatus.FAULT), rare=True):
                    b.ret(b.integer("i32", Round.FAULT))
                with b.when(result.eq(WarpStatus.DONE)):
                    at = b.at(slot, SlotFields.LIVE_WARPS)
                    b.store(b.load("i32", 0, at) - 1, at)
                    # Barriers no longer expect the threads of this warp.
                    b.store(b.integer("i64", 1), b.at(worker, WorkerFields.CHANGED))
                with b.when(result.eq(WarpStatus.WAITING)):
                    now = b.load("i32", 0, b.at(slot, SlotFields.RELEASES))
                    b.store(now, b.at(frame, FrameFields.SEEN))
                away = result.eq(WarpStatus.YIELDED).zext("i32")
                b.store(b.load("i32", 0, yielded) + away, yielded)
                b.store(b.load("i32", 0, ran) + (b.integer("i32", 1) - away), ran)
        ids = b.load("i32", 0, b.at(slot, SlotFields.ARRIVED_IDS))
        with b.when(ids.ne(0)):
            b.emit(f"call void @release({slot.typed})")
        if clusters:
            b.emit(f"call void @cluster_release({context.typed}, {worker.typed}, {slot.typed})")
        with b.when(b.load("i32", 0, b.at(slot, SlotFields.LIVE_WARPS)).eq(0)):
            b.ret(b.integer("i32", Round.DONE))

        def count_down(rounds: Val) -> None:
            left = b.load("i32", 0, rounds) - 1
            b.store(left, rounds)
            with b.when(left.eq(0)):
                b.ret(b.integer("i32", Round.YIELDED))

        def got_on() -> None:
            if waits:
                count_down(turns)

        def got_nowhere() -> None:
            with b.when(b.load("i32", 0, yielded).eq(0)):
                b.ret(b.integer("i32", Round.STUCK))
            count_down(tries)

        b.either(b.load("i32", 0, ran).ne(0), got_on, got_nowhere)
    module.functions["round"] = fn.text()


def emit_release(module: IrModule, watch: Watcher) -> None:
    """release(slot): completes every barrier at which all that are expected have arrived."""
    fn = IrFunction("release", [], "void", "#0")
    b = Builder(module, fn)
    fn.params = [Val(b, "ptr", 0, "%S")]
    slot = fn.params[0]
    zero = b.integer("i32", 0)
    live = b.load("i32", 0, b.at(slot, SlotFields.LIVE_THREADS))

    def one(i: Val) -> None:
        row = b.at(slot, i.zext("i64") * SlotFields.BARRIER_BYTES + SlotFields.BARRIERS)
        arrived = b.load("i32", 0, b.at(row, SlotFields.ARRIVED))
        weight = b.load("i32", 0, b.at(row, SlotFields.WEIGHT))
        expected = b.load("i32", 0, b.at(row, SlotFields.EXPECTED))
        whole = b.select(expected.eq(0), arrived.uge(live), weight.uge(expected))
        with b.when(arrived.ne(0) & whole):
            generation = b.load("i32", 0, b.at(row, SlotFields.GENERATION))
            # Two results are kept: a warp that resumes late still finds its own after the next
            # phase.
            pair = b.at(row, ((generation & 1) * 8 + SlotFields.RESULT).zext("i64"))
            b.store(b.load("i32", 0, b.at(row, SlotFields.POPC)), pair)
            b.store(arrived, b.at(pair, 4))
            for field in (
                SlotFields.ARRIVED,
                SlotFields.WEIGHT,
                SlotFields.EXPECTED,
                SlotFields.POPC,
            ):
                b.store(zero, b.at(row, field))
            b.store(generation + 1, b.at(row, SlotFields.GENERATION))
            watch.released(b, slot, i)
            releases = b.at(slot, SlotFields.RELEASES)
            b.store(b.load("i32", 0, releases) + 1, releases)
            ids = b.at(slot, SlotFields.ARRIVED_IDS)
            bit = b.integer("i32", 1) << i
            b.store(b.load("i32", 0, ids) & ~bit, ids)

    each_lane(b, b.load("i32", 0, b.at(slot, SlotFields.ARRIVED_IDS)), one)
    b.ret()
    module.functions["release"] = fn.text()
