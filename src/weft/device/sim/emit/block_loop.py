"""`run`: one worker takes blocks until none are left, and runs their warps in turn.

A block that only waits keeps its slot while another block is started, so that blocks that wait for
each other (locks, grid barriers) all make progress.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from weft.device.sim.emit.block import round as block_round
from weft.device.sim.emit.block.round import Round
from weft.device.sim.emit.frame import FrameLayout
from weft.device.sim.emit.separation import clear
from weft.device.sim.emit.stall import emit_stall, note_change
from weft.device.sim.layout import BUSY, ContextFields, Run, SlotFields, WorkerFields
from weft.device.sim.observe import Watcher
from weft.ir import Builder, IrFunction, IrModule, Val

if TYPE_CHECKING:
    from weft.device.sim.emit.clusters.loop import Occupy
    from weft.device.sim.emit.switching.launch_order import LaunchOrder

BATCH, MANY_BLOCKS = 16, 4096
"""Blocks a worker takes at a time from a grid of more than MANY_BLOCKS."""


def emit_run(
    module: IrModule,
    *,
    frames: FrameLayout,
    threads: int,
    slot_bytes: int,
    waits: bool,
    together: bool,
    late: bool,
    clusters: bool,
    watch: Watcher,
    order: LaunchOrder | None = None,
) -> None:
    """Add `run(context, worker) -> Run.*` to the module.

    late      the state of barriers and warps is cleared where warps are separated
    clusters  blocks of a cluster run together
    order     the order of blocks and warps under a schedule
    """
    block_round.emit_release(module, watch)
    if order is None:
        block_round.emit_round(module, frames.warps, frames.nbytes, waits, together, clusters)
    else:
        order.emit_turn(module, frames, waits=waits, clusters=clusters)
    occupy = partial(
        _occupy, frames=frames, threads=threads, together=together, late=late, order=order
    )
    if clusters:
        from weft.device.sim.emit.clusters import loop

        loop.emit_release(module, slot_bytes, watch)
        loop.emit_start(module, threads, slot_bytes, occupy, watch)
    else:
        # blocks that wait for each other are started one by one, in order
        _emit_start(module, 1 if waits else BATCH, occupy, watch, order)
    if waits:
        emit_stall(module, frames)
    compares = waits and order is None  # `switching.block_turn` compares by itself
    fn = IrFunction("run", [], "i32", "#0")
    b = Builder(module, fn)
    fn.params = [Val(b, "ptr", 0, "%C"), Val(b, "ptr", 0, "%K")]
    context, worker = fn.params
    if clusters:
        _ClusterWorker(b, context, worker, watch, compares).emit_clusters(slot_bytes)
    else:
        _WorkerLoop(b, context, worker, watch, compares).emit(slot_bytes)
    module.functions["run"] = fn.text().replace("define internal", "define")


class _WorkerLoop:
    """The body of `run`: the worker's slots in turn, until no block is left."""

    def __init__(
        self, b: Builder, context: Val, worker: Val, watch: Watcher, compares: bool
    ) -> None:
        """`compares`: the states of a block that waits are compared, to find deadlocks."""
        self.b, self.context, self.worker = b, context, worker
        self.watch, self.compares = watch, compares
        self.zero, self.one = b.integer("i32", 0), b.integer("i32", 1)
        self.current = b.at(worker, WorkerFields.CURRENT)
        self.idle = b.at(worker, WorkerFields.IDLE)

    def emit(self, slot_bytes: int) -> None:
        b, worker = self.b, self.worker
        with b.forever() as again:
            self._leave_if_asked()
            slots = b.load("ptr", 0, b.at(worker, WorkerFields.SLOTS))
            slot = b.at(slots, b.load("i32", 0, self.current).zext("i64") * slot_bytes)
            occupied = b.load("i32", 0, b.at(slot, SlotFields.STATE)).ne(0)
            ready = b.either(occupied, lambda: b.integer("i1", 1), partial(self._start, slot))
            b.either(ready, partial(self._run, slot, again), self._nothing_to_run)
            count = b.load("i64", 0, b.at(worker, WorkerFields.SLOT_COUNT)).trunc("i32")
            following = b.load("i32", 0, self.current) + self.one
            b.store(b.select(following.uge(count), self.zero, following), self.current)
            with b.when(b.load("i32", 0, self.idle).uge(count)):
                b.ret(b.integer("i32", Run.FINISHED))
        self._emit_ends()

    def _leave_if_asked(self) -> None:
        b, worker = self.b, self.worker
        b.jump_if(_stopped(b, self.context), "stopped", rare=True)
        replaced = b.val("i32", 0, f"load volatile i32, {b.at(worker, WorkerFields.REPLACE).typed}")
        b.jump_if(replaced.ne(0), "replaced", rare=True)

    def _emit_ends(self) -> None:
        b, worker = self.b, self.worker
        b.place("stopped")
        b.ret(b.integer("i32", Run.STOPPED))
        b.place("replaced")
        b.store(self.zero, b.at(worker, WorkerFields.REPLACE))
        b.ret(b.integer("i32", Run.REPLACED))

    def _call(self, kind: str, name: str, slot: Val) -> str:
        args = ", ".join(v.typed for v in (self.context, self.worker, slot))
        return f"call {kind} @{name}({args})"

    def _start(self, slot: Val) -> Val:
        """Put the next block into an empty slot; false when there is none."""
        return self.b.val("i32", 0, self._call("i32", "start", slot)).ne(0)

    def _run(self, slot: Val, again: str) -> None:
        """Run the slot's block until it ends, waits or yields."""
        b = self.b
        result = b.val("i32", 0, self._call("i32", "round", slot))
        arms: dict[int, Callable[[], None]] = {
            Round.DONE: partial(self._finished, slot, again),
            Round.STUCK: self._stuck,
            Round.YIELDED: partial(self._yielded, slot),
        }
        b.switch(result, arms, self._failed)

    def _finished(self, slot: Val, again: str) -> None:
        b = self.b
        self.watch.finished(b, self.context, self.worker, slot)
        b.store(self.zero, b.at(slot, SlotFields.STATE))
        note_change(b, self.worker)
        progress = b.at(self.worker, WorkerFields.PROGRESS)
        b.store(b.load("i64", 0, progress) + 1, progress)
        b.store(self.zero, self.idle)
        b.jump(again)  # the same slot takes the next block

    def _yielded(self, slot: Val) -> None:
        if self.compares:
            self.b.emit(self._call("void", "stall", slot))
        self.b.store(self.zero, self.idle)

    def _nothing_to_run(self) -> None:
        self.b.store(self.b.load("i32", 0, self.idle) + 1, self.idle)

    def _stuck(self) -> None:
        b = self.b
        self._note_slot()
        b.store(
            self.one, b.at(self.context, ContextFields.STOP)
        )  # other blocks may wait for this one
        b.ret(b.integer("i32", Run.DEADLOCK))

    def _failed(self) -> None:
        """Handle a fault, or a warp that stopped because the launch must end."""
        b = self.b
        self._note_slot()
        # A warp that was asked to stop leaves the same way as one that failed, without an error.
        error = b.load("i64", 0, b.at(self.worker, WorkerFields.ERROR)).ne(0)
        b.jump_unless(error | (_stopped(b, self.context) ^ 1), "stopped")
        b.store(self.one, b.at(self.context, ContextFields.STOP))
        b.ret(b.integer("i32", Run.FAULT))

    def _note_slot(self) -> None:
        b = self.b
        b.store(
            b.load("i32", 0, self.current).zext("i64"), b.at(self.worker, WorkerFields.ERROR_SLOT)
        )


class _ClusterWorker(_WorkerLoop):
    """The body of `run` for clusters."""

    def emit_clusters(self, slot_bytes: int) -> None:
        from weft.device.sim.emit.clusters import loop

        b = self.b
        ring = loop.ClusterLoop(b, self.context, self.worker, self.watch, self.compares)
        self.current = ring.current
        ends = {Round.DONE: "done", Round.STUCK: "stuck", Round.YIELDED: "yielded"}
        ring.emit(slot_bytes, ends, self._leave_if_asked)
        b.place("deadlocked")
        self._stuck()
        b.place("failed")
        self._failed()
        self._emit_ends()


def _stopped(b: Builder, context: Val) -> Val:
    """True at run time if the launch must end."""
    return b.val("i32", 0, f"load volatile i32, {b.at(context, ContextFields.STOP).typed}").ne(0)


def _next_block(b: Builder, context: Val, worker: Val, batch: int) -> Val:
    """A block's number: from the worker's own batch, or a new batch off the shared counter.

    Jumps to "none" when all blocks have been taken.
    """
    following, end = b.at(worker, WorkerFields.BATCH_NEXT), b.at(worker, WorkerFields.BATCH_END)
    shared = b.at(context, ContextFields.NEXT)
    total = b.load("i64", 0, b.at(context, ContextFields.TOTAL))
    held = b.load("i64", 0, following)

    def take() -> Val:
        seen = b.load("i64", 0, shared)  # without this test the counter would keep growing
        b.jump_if(seen.uge(total), "none")
        many = b.select(total.ugt(MANY_BLOCKS), b.integer("i64", batch), b.integer("i64", 1))
        taken = b.val("i64", 0, f"atomicrmw add {shared.typed}, {many.typed} monotonic")
        b.jump_if(taken.uge(total), "none")
        b.store(b.umin(taken + many, total), end)
        return taken

    index = b.either(held.ult(b.load("i64", 0, end)), lambda: held, take)
    b.store(index + 1, following)
    return index


def _occupy(
    b: Builder,
    context: Val,
    slot: Val,
    *,
    frames: FrameLayout,
    threads: int,
    together: bool,
    late: bool,
    order: LaunchOrder | None,
) -> None:
    """Initialise the state of a block that starts."""
    b.store(b.integer("i32", BUSY), b.at(slot, SlotFields.STATE))
    b.store(b.integer("i32", threads), b.at(slot, SlotFields.LIVE_THREADS))
    b.store(b.integer("i32", frames.warps), b.at(slot, SlotFields.LIVE_WARPS))
    b.store(b.integer("i64", 0), b.at(slot, SlotFields.RELEASES))
    b.store(b.integer("i32", int(together)), b.at(slot, SlotFields.TOGETHER))
    b.store(b.integer("i64", 0), b.at(slot, SlotFields.EPOCH))
    if not late:
        clear(b, slot, frames)
    if order is not None:
        order.start(b, context, slot)


def _emit_start(
    module: IrModule, batch: int, occupy: Occupy, watch: Watcher, order: LaunchOrder | None
) -> None:
    """start(context, worker, slot): puts the next block into a slot; returns 0 if there is none."""
    fn = IrFunction("start", [], "i32", "#0")
    b = Builder(module, fn)
    fn.params = [Val(b, "ptr", 0, f"%{x}") for x in "CKS"]
    context, worker, slot = fn.params
    index = _next_block(b, context, worker, batch)
    if order is not None:
        index = order.block(b, context, index)
    gx, gy = (
        b.load("i64", 0, b.at(context, x)) for x in (ContextFields.GRID_X, ContextFields.GRID_Y)
    )
    flat = b.load("i64", 0, b.at(context, ContextFields.TOTAL)).eq(
        gx
    )  # a one-dimensional grid needs no division
    zero = b.integer("i64", 0)
    rows = b.either(flat, lambda: zero, lambda: b.binary("udiv", index, gx))
    depth = b.either(flat, lambda: zero, lambda: b.binary("udiv", rows, gy))
    places = (
        (SlotFields.BLOCK_X, index - rows * gx),
        (SlotFields.BLOCK_Y, rows - depth * gy),
        (SlotFields.BLOCK_Z, depth),
    )
    for field, v in places:
        b.store(v.trunc("i32"), b.at(slot, field))
    occupy(b, context, slot)
    watch.started(b, context, worker, slot)
    b.ret(b.integer("i32", 1))
    b.place("none")
    b.ret(b.integer("i32", 0))
    module.functions["start"] = fn.text()
