"""The function that computes a product: it reads the record, shared memory and the frame."""

from __future__ import annotations

from weft.device.sim.memory.warpgroups.product import Issued
from weft.device.sim.memory.warpgroups.steps import WarpgroupSteps
from weft.device.sim.memory.warpgroups.tiles import CORE, INSIDE, Gather
from weft.ir import Builder, Val
from weft.ir.tensor_layout import N
from weft.ptx.isa.matrix.warpgroup_form import PIECE, PIECES, REGISTER, ROWS, WarpgroupForm

_OF_B = 1 << 32
"""Added to the offset of a piece of B that is outside of shared memory."""


def multiply(
    b: Builder, form: WarpgroupForm, fast: bool,
    record: Val, frame: Val, table: Val, shared: Val, size: Val,
) -> Val:  # fmt: skip
    """(record, frame, offsets of the accumulators in it, shared memory, its size).

    Return `INSIDE`, or the offset of a piece that is not in shared memory.
    """
    a = _left(b, form, record, shared, size)
    metadata = b.load("i32", 32, b.at(record, Issued.METADATA), 64) if form.sparse else None
    steps = WarpgroupSteps(b, form, a, metadata, fast=fast)
    adds = b.load("i32", 0, b.at(record, Issued.ADDS)).ne(0)
    right = b.load("i64", 0, b.at(record, Issued.RIGHT))
    count, gather = form.tile_registers, Gather(form.turned[1], form.pieces, N * PIECE)
    bt = b.array("i8", N * PIECE * form.pieces)
    c, d = (b.array("i8", REGISTER * count) for _ in range(2))
    with b.loop(form.n // N) as j:
        outside = gather(b, shared, size, right, j, bt)
        with b.when(outside.ne(INSIDE), rare=True):
            b.ret(outside | _OF_B)
        offsets = b.at(table, (j * (4 * count)).zext("i64"))
        places = [
            b.at(frame, b.load("i32", 0, b.at(offsets, 4 * i)).zext("i64")) for i in range(count)
        ]
        for i, place in enumerate(places):
            old = b.load("i32", 32, place, 64)
            b.store(adds.select(old, b.zero("i32", 32)), b.at(c, REGISTER * i), 64)
        steps.tile(bt, c, d)
        for i, place in enumerate(places):
            b.store(b.load("i32", 32, b.at(d, REGISTER * i), 64), place, 64)
    return b.integer("i64", INSIDE)


def _left(b: Builder, form: WarpgroupForm, record: Val, shared: Val, size: Val) -> Val:
    """The warp's rows of A as a tile, with the other sign if the products are subtracted."""
    left = b.at(record, Issued.REGISTERS)
    if form.left:
        left = b.array("i8", PIECES * ROWS * PIECE)
        descriptor = b.load("i64", 0, b.at(record, Issued.LEFT))
        first = b.load("i32", 0, b.at(record, Issued.FIRST))
        gather = Gather(form.turned[0], PIECES, ROWS * PIECE)
        for half in range(ROWS // CORE):
            target = b.at(left, half * CORE * PIECE)
            outside = gather(b, shared, size, descriptor, first + half, target)
            with b.when(outside.ne(INSIDE), rare=True):
                b.ret(outside)
    if form.negated:
        for i in range(0, PIECES * ROWS * PIECE, 64):
            word = b.load("i32", 16, b.at(left, i), 64)
            b.store(word ^ form.sign, b.at(left, i), 64)
    return left
