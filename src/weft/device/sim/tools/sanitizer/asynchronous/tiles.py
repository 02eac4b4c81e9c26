"""Tiles in shared memory that asynchronous operations read and write: products and bulk copies.

Generic accesses are compared with asynchronous ones only; the records of words do the rest. What a
thread writes is visible to the asynchronous proxy after a fence of that proxy: by the writer, or by
a thread that is ordered after the write. `tile_records` has the order of accesses, `tile_shapes`
the layouts.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.device.sim.access import AccessUnit, MemoryAccess
from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import CLUSTER_SHIFT, SlotFields, Space
from weft.device.sim.memory.tensors.job import TensorJob
from weft.device.sim.memory.warpgroups.tiles import MODE_AT, Gather, each_core
from weft.device.sim.tools.sanitizer.asynchronous.operations import AsyncOperations, Stream
from weft.device.sim.tools.sanitizer.asynchronous.tile_records import WARPGROUP, TileRecords
from weft.device.sim.tools.sanitizer.asynchronous.tile_shapes import CorePlace, TileShapes
from weft.device.sim.tools.sanitizer.checking import Checking
from weft.ir import Builder, Val
from weft.ir.tensor_layout import N
from weft.ptx.isa import decode
from weft.ptx.isa.columns import Async, AsyncStep, Completion
from weft.ptx.isa.matrix.warpgroup import ISSUE, form_of
from weft.ptx.isa.matrix.warpgroup_form import PIECE, PIECES, ROWS
from weft.ptx.model import Imm, Instruction

_STREAMS = {
    Completion.PRODUCTS: Stream.PRODUCTS,
    Completion.BULK_GROUP: Stream.STORES,
    Completion.GROUP: Stream.COPIES,
}
_WITH_COPIES = Async(AsyncStep.ARRIVE, Completion.MBARRIER)
_NEAR = (Space.SHARED, Space.GENERIC, Space.CLUSTER)
_UNITS = (AccessUnit.LANES, AccessUnit.MATRIX, AccessUnit.COPY, AccessUnit.BULK)


def is_used(code: list[Instruction]) -> bool:
    """Return whether a kernel has products or bulk copies."""
    return any(decode(i).is_bulk or decode(i).row.async_ == ISSUE for i in code)


class Tiles:
    """Records of tiles in a kernel; `used` is false for most, and then nothing is emitted."""

    def __init__(self, w: Checking, *, used: bool) -> None:
        self.w, self.used = w, used
        self.operations = AsyncOperations(w.clocks, w.layout)
        self.records = TileRecords(w, self.operations)
        code = [i for block in w.e.program.graph.blocks for i in block.code]
        self.shaped = used and any(decode(i).is_tensor for i in code)
        """True if there are tensor copies, whose layouts are known."""
        self.shapes = TileShapes(self.records)

    def started(self, b: Builder, slot: Val) -> None:
        """A block starts: nothing is in progress."""
        if self.used:
            p = b.load("ptr", 0, b.at(slot, SlotFields.OBSERVER))
            self.operations.started(b, p)
            self.records.started(b, p)

    # ---- events -----------------------------------------------------------------------------
    def instruction(self, ins: Instruction) -> None:
        """Fences of the proxy, and the ends of groups."""
        row = decode(ins).row
        if not self.used:
            return
        e, b, w = self.w.e, self.w.e.b, self.w
        step = row.async_
        if decode(ins).fences_async_proxy:
            with b.when(e.executing().ne(0)):
                w.clocks.proxy_fence(b, w.p, e.warp)
        elif step == _WITH_COPIES:  # those that wait for the mbarrier have waited for the copies
            self.operations.wait(b, w.p, e.warp, Stream.COPIES, -1)
        elif step is not None and step.by in _STREAMS:
            stream = _STREAMS[step.by]
            if step.step is AsyncStep.COMMIT:
                with b.when(e.executing().ne(0)):
                    self.operations.commit(b, w.p, e.warp, stream)
            elif step.step is AsyncStep.WAIT:
                pending = ins.operands[0] if ins.operands else Imm(-1)  # wait_all has none
                assert isinstance(pending, Imm), "the row asks for a literal"
                with b.when(e.executing().ne(0)):
                    self.operations.wait(b, w.p, e.warp, stream, pending.value)
        e.forget_mask()

    def reports_to(self, access: MemoryAccess, lanes: Val) -> None:
        """mbarriers are given to the copies of these lanes."""
        e, b, w = self.w.e, self.w.e.b, self.w
        if not self.used:
            return
        table = e.memory.addresses(access.address)

        def one(lane: Val) -> None:
            address = b.load("i64", 0, b.at(table, lane.zext("i64") << 3), 8)
            self.operations.reports_to(b, w.p, e.warp, lane, address)

        each_lane(b, lanes, one)
        e.forget_mask()

    def access(self, access: MemoryAccess, lanes: Val) -> None:
        """A generic access, or a bulk copy's."""
        if not self.used or access.space not in _NEAR or access.unit not in _UNITS:
            return
        e, b, w = self.w.e, self.w.e.b, self.w
        table = e.memory.addresses(access.address)
        sizes, jobs = e.memory.offsets(), access.jobs
        if access.unit is AccessUnit.BULK and access.sizes is not None:
            b.store(access.sizes, sizes, 64)
        stream = _stream(access)
        number = w.clocks.clock(b, w.p, e.warp)
        if stream in (Stream.COPIES, Stream.STORES):
            number = self.operations.group(b, w.p, e.warp, stream)
        masks = None
        if access.masks is not None:
            masks = b.array("i32", 32)
            b.store(access.masks, masks, 64)

        def one(lane: Val) -> None:
            address = b.load("i64", 0, b.at(table, lane.zext("i64") << 3), 8)
            size, job = b.integer("i32", access.nbytes), None
            if jobs is not None:
                job = b.at(jobs, lane.zext("i64") * TensorJob.SIZE)
                size = b.load("i32", 0, b.at(job, TensorJob.FOOTPRINT), 4)
            elif access.unit is AccessUnit.BULK:
                size = b.load("i32", 0, b.at(sizes, lane.zext("i64") << 2))

            def to(address: Val, copy: Val) -> None:
                given = number
                if stream == Stream.LOADS:
                    given = self.operations.load(b, w.p, e.warp, lane, copy)
                record = self.records.of_warp(lane, stream, given)
                self.records.touch(b, address, size, record, access.writes, stream)
                if access.writes and self.shaped and job is None:
                    self.shapes.forget(b, address, size)
                elif access.writes and job is not None:
                    self.shapes.lay(b, address, job, record)

            if masks is None:
                to(address, b.integer("i64", 0))
            else:
                mask = b.load("i32", 0, b.at(masks, lane.zext("i64") << 2))
                self._each_block(mask, address, to)

        with b.when(lanes.ne(0)):
            each_lane(b, lanes, one)
            if access.unit is AccessUnit.MATRIX and not access.writes and self.shaped:
                record = self.records.of_warp(b.integer("i32", 0), 0, number)
                self.shapes.rows(b, record, table, lanes)
        e.forget_mask()

    def _each_block(self, mask: Val, address: Val, to: Callable[[Val, Val], None]) -> None:
        """`to(address, rank + 1)` for each block of a multicast."""
        b, w = self.w.e.b, self.w
        own = w.clocks.rank(b, w.p)

        def one(rank: Val) -> None:
            there = rank.zext("i64")
            to(address + ((there - own) << CLUSTER_SHIFT), there + 1)

        each_lane(b, mask, one)

    def product(self, ins: Instruction, left: Val, right: Val) -> None:
        """The tiles of A and B that a product reads."""
        if not self.used:
            return
        e, b, form = self.w.e, self.w.e.b, form_of(ins)
        number = self.operations.group(b, self.w.p, e.warp, Stream.PRODUCTS)
        record = self.records.of_warp(b.integer("i32", 0), Stream.PRODUCTS, number)
        cores, zero = ROWS // N, b.integer("i32", 0)
        operands = [(Gather(form.turned[1], form.pieces, 0), right, form.n // N, zero)]
        if form.left:
            first = (e.warp & (WARPGROUP - 1)) * cores
            operands.append((Gather(form.turned[0], PIECES, 0), left, cores, first))
        for what, descriptor, blocks, first in operands:
            self._read(what, descriptor, record, blocks, first)
            if self.shaped:  # one warp looks at the whole of A
                count = blocks if first is zero else cores * WARPGROUP
                with b.when((e.warp & (WARPGROUP - 1)).eq(0)):
                    self._compare(what, descriptor, record, count)
        e.forget_mask()

    def _read(self, what: Gather, descriptor: Val, record: Val, blocks: int, first: Val) -> None:
        """Record that a product reads `blocks` of 8 rows, from number `first` on."""
        e, b = self.w.e, self.w.e.b
        start = b.load("i64", 0, b.at(e.slot, SlotFields.SHARED), 8)
        size = b.integer("i32", PIECE)

        def core(c: int, offsets: list[Val]) -> None:
            for offset in offsets:
                at = start + offset.zext("i64")
                self.records.touch(b, at, size, record, False, Stream.PRODUCTS)

        with b.loop(blocks) as i:
            each_core(b, what, descriptor, first + i, core)

    def _compare(self, what: Gather, descriptor: Val, record: Val, blocks: int) -> None:
        """Compare the layout of an operand with that of its tile."""
        b = self.w.e.b
        mode, state = (descriptor >> MODE_AT).trunc("i32"), self.shapes.operand(b)
        places = (
            (CorePlace.FIRST, CorePlace.NEXT) if what.turned else (CorePlace.NEXT, CorePlace.BESIDE)
        )

        def core(c: int, offsets: list[Val]) -> None:
            self.shapes.core(b, state, record, mode, offsets, places[c > 0], begins=c == 0)

        with b.loop(blocks) as i:
            each_core(b, what, descriptor, i, core)
        self.shapes.read(b, state, record, mode)


def _stream(access: MemoryAccess) -> int:
    """The stream of an access; 0 for one of a thread."""
    if access.unit is AccessUnit.COPY:
        return Stream.COPIES if access.writes else 0
    if access.unit is AccessUnit.BULK:
        return Stream.LOADS if access.writes else Stream.STORES
    return 0
