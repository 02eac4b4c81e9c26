"""Bulk copies: their targets count as written from their issue on.

They take no part in races of words: no thread makes them, and they land when they are waited for.
In shared memory, `tiles` compares them with other accesses.
"""

from __future__ import annotations

from functools import partial

from weft.device.sim.access import MemoryAccess
from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import SlotFields as Block
from weft.device.sim.layout import Space
from weft.device.sim.memory.tensors.job import TensorJob
from weft.device.sim.tools.sanitizer.checking import Checking
from weft.device.sim.tools.sanitizer.layout import BlockState, Record
from weft.device.sim.tools.sanitizer.order.words import put, word
from weft.ir import Builder, Val

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)
_FULL = 15
"""All four bytes of a word are written."""


def mark(w: Checking, access: MemoryAccess, lanes: Val) -> None:
    """Mark the targets of a copy as written."""
    if access.writes and access.space == Space.GLOBAL:
        _mark_global(w, access, lanes)
    elif access.writes and access.space == Space.SHARED and not w.clocks.clustered:
        _mark_shared(w, access, lanes)


def _mark_global(w: Checking, access: MemoryAccess, lanes: Val) -> None:
    e, b, sizes = w.e, w.e.b, w.e.memory.offsets()  # an array of 32 words, whatever they are
    assert access.sizes is not None
    b.store(access.sizes, sizes, 64)

    def body(x: Builder, args: list[Val]) -> None:
        slot, who, sizes, targets, lanes = args
        p = x.load("ptr", 0, x.at(slot, Block.OBSERVER))

        def one(lane: Val) -> None:
            nbytes = x.load("i32", 0, x.at(sizes, lane.zext("i64") << 2))
            address = x.load("i64", 0, x.at(targets, lane.zext("i64") << 3), 8)
            with x.breakable() as end:
                leave = partial(x.jump, end)
                filled = w.exact.planes(x, slot, p, who, address, "global", leave).filled
                assert filled is not None
                with x.when(filled.ne(0)), x.loop(nbytes >> 2) as i:
                    at = filled + i.zext("i64")
                    place = x.val("ptr", 0, f"inttoptr {at.typed} to ptr")
                    x.store(x.integer("i8", _FULL), place)

        each_lane(x, lanes, one)

    fn = b.helper("sanitizer_bulk", [_P, _I64, _P, _P, _I32], None, body)
    fn(e.slot, w.site(), sizes, e.memory.addresses(access.address), lanes)


def _mark_shared(w: Checking, access: MemoryAccess, lanes: Val) -> None:
    """Let words be written at the start of the block, and not read since, by no thread."""
    e, b = w.e, w.e.b
    assert access.sizes is not None
    sizes, table = e.memory.offsets(), e.memory.addresses(access.address)
    b.store(access.sizes, sizes, 64)

    def body(x: Builder, args: list[Val]) -> None:
        slot, address, nbytes = args
        p = x.load("ptr", 0, x.at(slot, Block.OBSERVER))
        rel, size = address - word(x, slot, Block.SHARED), word(x, slot, Block.SHARED_BYTES)
        with x.when(rel.uge(size) | (rel + nbytes.zext("i64")).ugt(size)):
            x.ret()
        writers = x.at(p, w.layout.writers)
        readers = x.load("ptr", 0, x.at(p, BlockState.READERS))
        nobody = word(x, p, BlockState.START) << Record.CLOCK
        with x.loop(nbytes >> 2) as i:
            k = (rel >> 2) + i.zext("i64")
            put(x, nobody, x.at(writers, k << 3))
            put(x, x.integer("i64", 0), x.at(readers, k << 3))
            if w.exact.partly:
                filled = x.load("ptr", 0, x.at(p, BlockState.FILLED))
                x.store(x.integer("i8", _FULL), x.at(filled, k))

    fn = b.helper("sanitizer_bulk_near", [_P, _I64, _I32], None, body)

    def one(lane: Val) -> None:
        nbytes = b.load("i32", 0, b.at(sizes, lane.zext("i64") << 2))
        if access.jobs is not None:
            job = b.at(access.jobs, lane.zext("i64") * TensorJob.SIZE)
            nbytes = b.load("i32", 0, b.at(job, TensorJob.FOOTPRINT), 4)
        fn(e.slot, b.load("i64", 0, b.at(table, lane.zext("i64") << 3), 8), nbytes)

    each_lane(b, lanes, one)
    e.forget_mask()
