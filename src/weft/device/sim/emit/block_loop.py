"""`run`: one worker takes blocks until none are left, and runs their warps in turn.

A block that only waits for others is set aside in its slot and another one is started, so that
blocks which wait for each other (locks, grid barriers) all get on.
"""

from __future__ import annotations

from weft.device.sim.emit.stall import FrameLayout, emit_stall, note_change
from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import (
    FINISHED,
    FRESH,
    Context,
    Frame,
    Run,
    Slot,
    Status,
    Worker,
)
from weft.device.sim.observe import Watcher
from weft.ir import Builder, Function, IrModule, Val

WARP_CALL = "preserve_nonecc"
"""How `warp` is called: it keeps no registers for its caller, which has little to lose."""
BATCH, MANY_BLOCKS = 16, 4096
"""Blocks a worker takes at a time from a grid of more than MANY_BLOCKS."""
PATIENCE = 4
"""Rounds over a block's warps that all only yield, before another block is tried."""
TURNS = 256
"""Rounds in which some warp gets on, before another block is tried: a loop may wait for a block
across a barrier of its own, so that its warps never yield."""


def emit_run(
    module: IrModule,
    *,
    frames: FrameLayout,
    threads: int,
    slot_bytes: int,
    barriers: bool,
    waits: bool,
    watch: Watcher,
) -> None:
    """Adds `run(context, worker) -> Run.*` to the module."""
    warps, frame_bytes = frames.warps, frames.nbytes
    _emit_release(module, watch)
    _emit_round(module, warps, frame_bytes, waits)
    # blocks that wait for each other are started one by one, in order
    _emit_start(module, warps, threads, frame_bytes, barriers, 1 if waits else BATCH, watch)
    if waits:
        emit_stall(module, frames, barriers)
    fn = Function("run", [], "i32", "#0")
    b = Builder(module, fn)
    fn.params = [Val(b, "ptr", 0, "%C"), Val(b, "ptr", 0, "%K")]
    context, worker = fn.params
    current = b.alloca("i32")
    idle = b.alloca("i32")
    zero, one = b.integer("i32", 0), b.integer("i32", 1)
    b.store(zero, current)
    b.store(zero, idle)
    b.jump("next")

    b.place("next")
    stop = b.val("i32", 0, f"load volatile i32, {b.at(context, Context.STOP).tref}")
    b.branch(stop.ne(0), "stopped", "look", rare=True)
    b.place("look")
    slots = b.load("ptr", 0, b.at(worker, Worker.SLOTS))
    i = b.load("i32", 0, current)
    slot = b.at(slots, i.zext("i64") * slot_bytes)
    state = b.load("i32", 0, b.at(slot, Slot.STATE))
    b.branch(state.ne(0), "go", "fresh")

    b.place("fresh")
    begun = b.val("i32", 0, f"call i32 @start({context.tref}, {worker.tref}, {slot.tref})")
    b.branch(begun.ne(0), "go", "dry")

    b.place("go")
    result = b.val("i32", 0, f"call i32 @round({context.tref}, {worker.tref}, {slot.tref})")
    b.emit(
        f"switch i32 {result.ref}, label %faulty [ i32 0, label %finished "
        f"i32 1, label %stuck i32 2, label %yielding ]"
    )

    b.place("finished")
    watch.finished(b, context, worker, slot)
    b.store(zero, b.at(slot, Slot.STATE))
    note_change(b, worker)
    progress = b.at(worker, Worker.PROGRESS)
    b.store(b.load("i64", 0, progress) + 1, progress)
    b.store(zero, idle)
    b.jump("next")

    # nothing to start here: any other slot that still holds a block?
    b.place("dry")
    b.store(b.load("i32", 0, idle) + 1, idle)
    b.jump("turn")

    b.place("yielding")
    if waits:
        b.emit(f"call void @stall({context.tref}, {worker.tref}, {slot.tref})")
    b.store(zero, idle)
    b.jump("turn")

    b.place("turn")
    count = b.load("i64", 0, b.at(worker, Worker.SLOT_COUNT)).trunc("i32")
    following = b.load("i32", 0, current) + one
    following = b.select(following.uge(count), zero, following)
    b.store(following, current)
    b.branch(b.load("i32", 0, idle).uge(count), "over", "next")
    b.place("over")
    b.emit(f"ret i32 {Run.FINISHED}")

    b.place("stuck")
    b.store(b.load("i32", 0, current).zext("i64"), b.at(worker, Worker.ERROR_SLOT))
    b.store(one, b.at(context, Context.STOP))  # other blocks may wait for this one
    b.emit(f"ret i32 {Run.DEADLOCK}")
    b.place("faulty")
    b.store(b.load("i32", 0, current).zext("i64"), b.at(worker, Worker.ERROR_SLOT))
    halted = b.val("i32", 0, f"load volatile i32, {b.at(context, Context.STOP).tref}")
    failed = b.load("i64", 0, b.at(worker, Worker.ERROR)).ne(0)
    b.branch(failed | halted.eq(0), "failed", "stopped")
    b.place("failed")
    b.store(one, b.at(context, Context.STOP))
    b.emit(f"ret i32 {Run.FAULT}")
    b.place("stopped")
    b.emit(f"ret i32 {Run.STOPPED}")
    module.functions["run"] = fn.text().replace("define internal", "define")


def _next_block(b: Builder, context: Val, worker: Val, batch: int) -> Val:
    """A block's number: from the worker's own batch, or a new batch off the shared counter."""
    mine, end = b.at(worker, Worker.BATCH_NEXT), b.at(worker, Worker.BATCH_END)
    shared = b.at(context, Context.NEXT)
    total = b.load("i64", 0, b.at(context, Context.TOTAL))
    held = b.load("i64", 0, mine)
    b.branch(held.ult(b.load("i64", 0, end)), "some", "look")
    b.place("look")
    seen = b.load("i64", 0, shared)  # a look first, so that the counter cannot run away
    b.branch(seen.uge(total), "none", "take")
    b.place("take")
    many = b.select(total.ugt(MANY_BLOCKS), b.integer("i64", batch), b.integer("i64", 1))
    taken = b.val("i64", 0, f"atomicrmw add {shared.tref}, {many.tref} monotonic")
    b.branch(taken.uge(total), "none", "have")
    b.place("none")
    b.emit("ret i32 0")
    b.place("have")
    b.store(b.umin(taken + many, total), end)
    b.jump("some")
    b.place("some")
    index = b.phi("i64", 0, [(held, "entry"), (taken, "have")])
    b.store(index + 1, mine)
    return index


def _emit_start(
    module: IrModule,
    warps: int,
    threads: int,
    frame_bytes: int,
    barriers: bool,
    batch: int,
    watch: Watcher,
) -> None:
    """start(context, worker, slot): takes the next block into a slot; 0 when there is none."""
    fn = Function("start", [], "i32", "#0")
    b = Builder(module, fn)
    fn.params = [Val(b, "ptr", 0, f"%{x}") for x in "CKS"]
    context, worker, slot = fn.params
    index = _next_block(b, context, worker, batch)
    gx, gy = (b.load("i64", 0, b.at(context, x)) for x in (Context.GRID_X, Context.GRID_Y))
    flat = b.load("i64", 0, b.at(context, Context.TOTAL)).eq(gx)  # no division for a line
    zero = b.integer("i64", 0)
    rows = b.either(flat, lambda: zero, lambda: b.binary("udiv", index, gx))
    depth = b.either(flat, lambda: zero, lambda: b.binary("udiv", rows, gy))
    places = (
        (Slot.BLOCK_X, index - rows * gx),
        (Slot.BLOCK_Y, rows - depth * gy),
        (Slot.BLOCK_Z, depth),
    )
    for field, v in places:
        b.store(v.trunc("i32"), b.at(slot, field))
    b.store(b.integer("i32", 1), b.at(slot, Slot.STATE))
    b.store(b.integer("i32", threads), b.at(slot, Slot.LIVE_THREADS))
    b.store(b.integer("i32", warps), b.at(slot, Slot.LIVE_WARPS))
    b.store(b.integer("i64", 0), b.at(slot, Slot.RELEASES))
    b.store(b.integer("i64", 0), b.at(slot, Slot.EPOCH))
    for k in range(16 if barriers else 0):
        row = b.at(slot, Slot.BARRIERS + k * Slot.BARRIER_BYTES)
        b.store(b.zero("i32", 8), row, 8)
    with b.loop(warps) as w:
        frame = b.at(slot, (w.zext("i64") * frame_bytes) + Slot.FRAMES)
        b.store(b.integer("i64", FRESH), frame)
        b.store(b.integer("i32", -1), b.at(frame, Frame.SEEN))
        b.store(b.integer("i32", -1), b.at(frame, Frame.ROTATE))
    watch.started(b, context, worker, slot)
    b.emit("ret i32 1")
    module.functions["start"] = fn.text()


def _emit_round(module: IrModule, warps: int, frame_bytes: int, waits: bool) -> None:
    """round(context, worker, slot): runs a block until it is done (0), stuck (1), or yields (2)."""
    fn = Function("round", [], "i32", "#0")
    b = Builder(module, fn)
    fn.params = [Val(b, "ptr", 0, f"%{x}") for x in "CKS"]
    context, worker, slot = fn.params
    zero = b.integer("i32", 0)
    ran, yielded, tries, turns = (b.alloca("i32") for _ in range(4))
    b.store(b.integer("i32", PATIENCE), tries)
    b.store(b.integer("i32", TURNS), turns)
    b.jump("again")
    b.place("again")
    b.store(zero, ran)
    b.store(zero, yielded)
    with b.loop(warps) as w:
        frame = b.at(slot, (w.zext("i64") * frame_bytes) + Slot.FRAMES)
        done = b.load("i32", 0, frame).eq(FINISHED)
        seen = b.load("i32", 0, b.at(frame, Frame.SEEN))
        held = b.load("i32", 0, b.at(frame, Frame.STATUS)).eq(Status.WAITING)
        same = seen.eq(b.load("i32", 0, b.at(slot, Slot.RELEASES)))
        with b.when((done | (held & same)) ^ 1):
            given = ", ".join(x.tref for x in (context, worker, slot, frame, w))
            result = b.val("i32", 0, f"call {WARP_CALL} i32 @warp({given})")
            b.store(result, b.at(frame, Frame.STATUS))
            with b.when(result.eq(Status.FAULT), rare=True):
                b.ret(b.integer("i32", 3))
            with b.when(result.eq(Status.DONE)):
                at = b.at(slot, Slot.LIVE_WARPS)
                b.store(b.load("i32", 0, at) - 1, at)
                b.store(b.integer("i64", 1), b.at(worker, Worker.CHANGED))
            with b.when(result.eq(Status.WAITING)):
                now = b.load("i32", 0, b.at(slot, Slot.RELEASES))
                b.store(now, b.at(frame, Frame.SEEN))
            away = result.eq(Status.YIELDED).zext("i32")
            b.store(b.load("i32", 0, yielded) + away, yielded)
            b.store(b.load("i32", 0, ran) + (b.integer("i32", 1) - away), ran)
    ids = b.load("i32", 0, b.at(slot, Slot.ARRIVED_IDS))
    with b.when(ids.ne(0)):
        b.emit(f"call void @release({slot.tref})")
    b.branch(b.load("i32", 0, b.at(slot, Slot.LIVE_WARPS)).eq(0), "done", "left")
    b.place("done")
    b.emit("ret i32 0")
    b.place("left")
    b.branch(b.load("i32", 0, ran).ne(0), "on", "idle")
    b.place("on")
    if waits:
        left = b.load("i32", 0, turns) - 1
        b.store(left, turns)
        b.branch(left.eq(0), "away", "again")
    else:
        b.jump("again")
    b.place("idle")
    b.branch(b.load("i32", 0, yielded).ne(0), "patient", "stuck")
    b.place("stuck")
    b.emit("ret i32 1")
    b.place("patient")
    left = b.load("i32", 0, tries) - 1
    b.store(left, tries)
    b.branch(left.eq(0), "away", "again")
    b.place("away")
    b.emit("ret i32 2")
    module.functions["round"] = fn.text()


def _emit_release(module: IrModule, watch: Watcher) -> None:
    """release(slot): completes every barrier at which all that are expected have arrived."""
    fn = Function("release", [], "void", "#0")
    b = Builder(module, fn)
    fn.params = [Val(b, "ptr", 0, "%S")]
    slot = fn.params[0]
    zero = b.integer("i32", 0)
    live = b.load("i32", 0, b.at(slot, Slot.LIVE_THREADS))

    def one(i: Val) -> None:
        row = b.at(slot, i.zext("i64") * Slot.BARRIER_BYTES + Slot.BARRIERS)
        arrived = b.load("i32", 0, b.at(row, Slot.ARRIVED))
        weight = b.load("i32", 0, b.at(row, Slot.WEIGHT))
        expected = b.load("i32", 0, b.at(row, Slot.EXPECTED))
        whole = b.select(expected.eq(0), arrived.uge(live), weight.uge(expected))
        with b.when(arrived.ne(0) & whole):
            generation = b.load("i32", 0, b.at(row, Slot.GENERATION))
            pair = b.at(row, ((generation & 1) * 8 + Slot.RESULT).zext("i64"))
            b.store(b.load("i32", 0, b.at(row, Slot.POPC)), pair)
            b.store(arrived, b.at(pair, 4))
            for field in (Slot.ARRIVED, Slot.WEIGHT, Slot.EXPECTED, Slot.POPC):
                b.store(zero, b.at(row, field))
            b.store(generation + 1, b.at(row, Slot.GENERATION))
            watch.released(b, slot, i)
            releases = b.at(slot, Slot.RELEASES)
            b.store(b.load("i32", 0, releases) + 1, releases)
            ids = b.at(slot, Slot.ARRIVED_IDS)
            mine = b.integer("i32", 1) << i
            b.store(b.load("i32", 0, ids) & ~mine, ids)

    each_lane(b, b.load("i32", 0, b.at(slot, Slot.ARRIVED_IDS)), one)
    b.emit("ret void")
    module.functions["release"] = fn.text()
