"""Bulk copies: their targets count as written from their issue on.

They take no part in races of words: no thread makes them, and they land when they are waited for.
In shared memory, `tiles` compares them with other accesses.
"""

from __future__ import annotations

from functools import partial

from weft.device.sim.access import MemoryAccess
from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import CLUSTER_SHIFT, Space
from weft.device.sim.layout import SlotFields as Block
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
    if not access.writes:
        return
    if access.space == Space.GLOBAL:
        _mark_global(w, access, lanes)
    elif w.clocks.clustered:
        _mark_cluster(w, access, lanes)
    elif access.space == Space.SHARED:
        _mark_shared(w, access, lanes)


def _mark_global(w: Checking, access: MemoryAccess, lanes: Val) -> None:
    e, b, sizes = w.e, w.e.b, _sizes(w, access)

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


def _mark_cluster(w: Checking, access: MemoryAccess, lanes: Val) -> None:
    """Let words be written by no thread, and not read since, in each block that the copy goes to.

    Shared memory of a cluster has records like global memory (`clusters`).
    """
    e, b = w.e, w.e.b
    sizes, table = _sizes(w, access), e.memory.addresses(access.address)

    def body(x: Builder, args: list[Val]) -> None:
        slot, who, address, nbytes = args
        p = x.load("ptr", 0, x.at(slot, Block.OBSERVER))
        with x.breakable() as end:
            leave = partial(x.jump, end)
            planes = w.exact.planes(x, slot, p, who, address, "global", leave)
            assert planes.filled is not None
            with x.when(planes.room.ult(nbytes.zext("i64"))):
                leave()
            with x.loop(nbytes >> 2) as i:
                k = i.zext("i64")
                for plane in (planes.writers, planes.readers):
                    put(x, x.integer("i64", 0), x.at(plane, k << 3))
                at = planes.filled + k
                x.store(x.integer("i8", _FULL), x.val("ptr", 0, f"inttoptr {at.typed} to ptr"))

    fn = b.helper("sanitizer_bulk_cluster", [_P, _I64, _I64, _I32], None, body)

    def one(lane: Val) -> None:
        address = b.load("i64", 0, b.at(table, lane.zext("i64") << 3), 8)
        nbytes = _bytes_of(b, access, sizes, lane)
        if access.masks is None:
            fn(e.slot, w.site(), address, nbytes)
            return
        ranks = b.load("i32", 0, b.at(masks, lane.zext("i64") << 2))
        own = w.clocks.rank(b, w.p)
        with b.loop(b.integer("i32", w.layout.ranks)) as rank, b.when(((ranks >> rank) & 1).ne(0)):
            fn(e.slot, w.site(), address + ((rank.zext("i64") - own) << CLUSTER_SHIFT), nbytes)

    masks = b.array("i32", 32)
    if access.masks is not None:
        b.store(access.masks, masks, 64)
    each_lane(b, lanes, one)
    e.forget_mask()


def _sizes(w: Checking, access: MemoryAccess) -> Val:
    """An array of the bytes of each lane."""
    sizes = w.e.memory.offsets()  # an array of 32 words, whatever they are
    assert access.sizes is not None
    w.e.b.store(access.sizes, sizes, 64)
    return sizes


def _bytes_of(b: Builder, access: MemoryAccess, sizes: Val, lane: Val) -> Val:
    """Bytes of shared memory that the copy of a lane writes."""
    if access.jobs is None:
        return b.load("i32", 0, b.at(sizes, lane.zext("i64") << 2))
    job = b.at(access.jobs, lane.zext("i64") * TensorJob.SIZE)
    return b.load("i32", 0, b.at(job, TensorJob.FOOTPRINT), 4)


def _mark_shared(w: Checking, access: MemoryAccess, lanes: Val) -> None:
    """Let words be written at the start of the block, and not read since, by no thread."""
    e, b = w.e, w.e.b
    sizes, table = _sizes(w, access), e.memory.addresses(access.address)

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
        address = b.load("i64", 0, b.at(table, lane.zext("i64") << 3), 8)
        fn(e.slot, address, _bytes_of(b, access, sizes, lane))

    each_lane(b, lanes, one)
    e.forget_mask()
