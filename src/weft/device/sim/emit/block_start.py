"""`start`: puts the next block of a grid into a slot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.device.sim.emit.frame import FrameLayout
from weft.device.sim.emit.separation import clear
from weft.device.sim.layout import BUSY, ContextFields, SlotFields, WorkerFields
from weft.device.sim.observe import Watcher
from weft.ir import Builder, IrFunction, IrModule, Val

if TYPE_CHECKING:
    from weft.device.sim.emit.clusters.loop import Occupy
    from weft.device.sim.emit.switching.launch_order import LaunchOrder

BATCH, MANY_BLOCKS = 16, 4096
"""Blocks a worker takes at a time from a grid of more than MANY_BLOCKS."""


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


def occupy(
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


def emit_start(
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
