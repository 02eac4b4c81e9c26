"""Tiles in shared memory that asynchronous operations read and write: products and bulk copies.

Each 16 bytes have two records here, of the last write and of the last read. A record is like those
of `layout`, but an asynchronous operation has its stream and number instead of a clock
(`operations`). Generic accesses are compared with asynchronous ones only; the records of
words do the rest. What a thread writes is visible to the asynchronous proxy after a fence of that
proxy: by the writer, or by a thread that is ordered after the write.
"""

from __future__ import annotations

from weft.device.sim.access import AccessUnit, MemoryAccess
from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import SlotFields, Space
from weft.device.sim.memory.warpgroups.tiles import Gather, each_place
from weft.device.sim.tools.sanitizer.asynchronous.operations import AsyncOperations, Stream
from weft.device.sim.tools.sanitizer.checking import Checking
from weft.device.sim.tools.sanitizer.clocks import put, word
from weft.device.sim.tools.sanitizer.layout import Apart, FindingKind, Record
from weft.device.sim.tools.sanitizer.report import report
from weft.ir import Builder, Val
from weft.ir.tensor_operand import N
from weft.ptx.isa import decode
from weft.ptx.isa.columns import Async, AsyncStep, Completion
from weft.ptx.isa.matrix.warpgroup import ISSUE, form_of
from weft.ptx.isa.matrix.warpgroup_form import PIECE, PIECES, ROWS
from weft.ptx.model import Imm, Instruction

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)
_STREAMS = {
    Completion.PRODUCTS: Stream.PRODUCTS, Completion.BULK_GROUP: Stream.STORES,
    Completion.GROUP: Stream.COPIES,
}  # fmt: skip
_WITH_COPIES = Async(AsyncStep.ARRIVE, Completion.MBARRIER)
_WARPGROUP = 4


def is_used(code: list[Instruction]) -> bool:
    """Return whether a kernel has products or bulk copies."""
    return any(decode(i).is_bulk or decode(i).row.async_ == ISSUE for i in code)


class Tiles:
    """Records of tiles in a kernel; `used` is false for most, and then nothing is emitted."""

    def __init__(self, w: Checking, *, used: bool) -> None:
        self.w, self.used = w, used
        self.operations = AsyncOperations(w.clocks, w.layout)

    def started(self, b: Builder, slot: Val) -> None:
        """A block starts: nothing is in progress."""
        if self.used:
            self.operations.started(b, b.load("ptr", 0, b.at(slot, SlotFields.OBSERVER)))

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

    def barrier(self, access: MemoryAccess, lanes: Val) -> None:
        """An mbarrier is tested, or is given to a copy."""
        if not self.used or access.space != Space.SHARED:
            return
        e, b, w = self.w.e, self.w.e.b, self.w
        if access.writes and access.waits is None:
            return
        table = e.memory.addresses(access.address)

        def one(lane: Val) -> None:
            address = b.load("i64", 0, b.at(table, lane.zext("i64") << 3), 8)
            if access.waits is None:
                self.operations.tested(b, w.p, address)
            else:
                self.operations.reports_to(b, w.p, e.warp, lane, address)

        if access.waits is None:  # lanes test one barrier, mostly
            lanes = lanes & (b.integer("i32", 0) - lanes)
        each_lane(b, lanes, one)
        e.forget_mask()

    def access(self, access: MemoryAccess, lanes: Val) -> None:
        """A generic access, or a bulk copy's."""
        known = access.unit in (
            AccessUnit.LANES, AccessUnit.MATRIX, AccessUnit.COPY, AccessUnit.BULK,
        )  # fmt: skip
        if not self.used or access.space not in (Space.SHARED, Space.GENERIC) or not known:
            return
        e, b, w = self.w.e, self.w.e.b, self.w
        table = e.memory.addresses(access.address)
        bulk = access.unit is AccessUnit.BULK
        sizes = e.memory.offsets()
        if access.sizes is not None and bulk:
            b.store(access.sizes, sizes, 64)
        stream, number = 0, w.clocks.clock(b, w.p, e.warp)
        if access.unit is AccessUnit.COPY:
            stream = Stream.COPIES if access.writes else 0
        elif bulk:
            stream = Stream.LOADS if access.writes else Stream.STORES
        if stream in (Stream.COPIES, Stream.STORES):
            number = self.operations.group(b, w.p, e.warp, stream)

        def one(lane: Val) -> None:
            address = b.load("i64", 0, b.at(table, lane.zext("i64") << 3), 8)
            size = b.integer("i32", access.nbytes)
            if bulk:
                size = b.load("i32", 0, b.at(sizes, lane.zext("i64") << 2))
            given = number
            if stream == Stream.LOADS:
                given = self.operations.load(b, w.p, e.warp, lane)
            self._touch(address, size, self._record(lane, stream, given), access.writes, stream)

        with b.when(lanes.ne(0)):
            each_lane(b, lanes, one)
        e.forget_mask()

    def product(self, ins: Instruction, left: Val, right: Val) -> None:
        """The tiles of A and B that a product reads."""
        if not self.used:
            return
        e, b, form = self.w.e, self.w.e.b, form_of(ins)
        number = self.operations.group(b, self.w.p, e.warp, Stream.PRODUCTS)
        record = self._record(b.integer("i32", 0), Stream.PRODUCTS, number)
        start = b.load("i64", 0, b.at(e.slot, SlotFields.SHARED), 8)
        size = b.integer("i32", PIECE)

        def one(offset: Val) -> None:
            self._touch(start + offset.zext("i64"), size, record, False, Stream.PRODUCTS)

        cores = ROWS // N
        if form.left:
            first = (e.warp & (_WARPGROUP - 1)) * cores
            with b.loop(cores) as i:
                each_place(b, Gather(form.turned[0], PIECES, 0), left, first + i, one)
        with b.loop(form.n // N) as j:
            each_place(b, Gather(form.turned[1], form.pieces, 0), right, j, one)
        e.forget_mask()

    # ---- records ----------------------------------------------------------------------------
    def _record(self, lane: Val, stream: int, number: Val) -> Val:
        who = self.w.site() | (lane.zext("i64") << Record.LANE) | (stream << Record.BYTES)
        return who | (self.w.e.warp.zext("i64") << Record.WARP) | (number << Record.CLOCK)

    def _touch(self, address: Val, size: Val, record: Val, writes: bool, stream: int) -> None:
        e, b = self.w.e, self.w.e.b
        is_async = stream in (Stream.PRODUCTS, Stream.STORES, Stream.LOADS)

        def body(x: Builder, args: list[Val]) -> None:
            slot, w, address, size, record = args
            p = x.load("ptr", 0, x.at(slot, SlotFields.OBSERVER))
            rel = address - word(x, slot, SlotFields.SHARED)
            with x.when(rel.uge(word(x, slot, SlotFields.SHARED_BYTES)) | size.eq(0)):
                x.ret()
            writers, readers = self._planes(x, slot, p)
            end = x.umin(rel + size.zext("i64"), word(x, slot, SlotFields.SHARED_BYTES))
            first, last = rel >> 4, (end - 1) >> 4
            with x.loop((last - first + 1).trunc("i32")) as i:
                at = (first + i.zext("i64")) << 3
                written, read = x.at(writers, at), x.at(readers, at)
                place = address + (i.zext("i64") << 4)
                self._check(x, p, w, word(x, written), word(x, read), record, place, writes,
                            is_async)  # fmt: skip
                put(x, record, written if writes else read)

        name = f"sanitizer_tile_{int(writes)}_{int(is_async)}"
        fn = b.helper(name, [_P, _I32, _I64, _I32, _I64], None, body)
        fn(e.slot, e.warp, address, size, record)

    def _planes(self, x: Builder, slot: Val, p: Val) -> tuple[Val, Val]:
        nbytes = word(x, slot, SlotFields.SHARED_BYTES)
        writers = x.at(p, ((nbytes >> 2) + 1) * 18 + self.w.layout.writers + 128 & ~63)
        return writers, x.at(writers, (nbytes >> 4) + 1 << 3)

    def _check(
        self, x: Builder, p: Val, w: Val, written: Val, read: Val, record: Val, place: Val,
        writes: bool, is_async: bool,
    ) -> None:  # fmt: skip
        """Compare an access with the last write, and a write with the last read."""
        warps = x.integer("i64", Apart.WARPS)

        def found(kind: int, other: Val) -> None:
            report(x, p, kind, record, other, place, warps)

        pending = ~self._ordered(x, p, w, written)
        # Threads and cp.async are compared word by word: here some bytes of 16 may be another's.
        late = _stream(written).ne(0) if is_async else _stream(written).eq(Stream.LOADS)
        before = FindingKind.TILE_WRITTEN_TWICE if writes else FindingKind.TILE_READ_EARLY
        with x.when(pending & late, rare=True):
            found(before, written)
        if is_async:
            race = FindingKind.WRITE_AFTER_WRITE if writes else FindingKind.READ_AFTER_WRITE
            with x.when(pending & ~late, rare=True):
                found(race, written)
            if not writes:
                with x.when(~pending & ~self._fenced(x, p, w, written), rare=True):
                    found(FindingKind.PROXY, written)
        if writes:
            pending = ~self._ordered(x, p, w, read)
            other = pending if is_async else pending & _stream(read).ne(0)
            with x.when(other, rare=True):
                found(FindingKind.TILE_OVERWRITTEN, read)

    def _ordered(self, x: Builder, p: Val, w: Val, record: Val) -> Val:
        """True if the access of a record is complete, and was so before the present one."""

        def body(x: Builder, args: list[Val]) -> Val:
            p, w, record = args
            u, number, stream = (
                (record >> Record.WARP) & 31,
                record >> Record.CLOCK,
                _stream(record),
            )
            with x.when(record.eq(0)):
                x.ret(x.integer("i1", 1))
            known = self.w.clocks.vector(x, p, w, self.w.layout.clocks)

            def after(who: Val, clock: Val) -> Val:
                here = who.eq(w.zext("i64"))
                return here | clock.ult(word(x, x.at(known, who << 3)))

            with x.when(stream.eq(0)):
                x.ret(after(u, number))
            for one in (Stream.STORES, Stream.LOADS, Stream.COPIES):
                with x.when(stream.eq(one)):
                    done = self.operations.completed(x, p, one, u.trunc("i32"), number)
                    x.ret(done.ne(0) & after(u, done))
            # The four warps of a warpgroup make a product together: it ends for all at once.
            any_ = x.integer("i1", 0)
            for i in range(min(_WARPGROUP, self.w.clocks.warps)):
                who = (u & ~(_WARPGROUP - 1)) + i
                done = self.operations.completed(x, p, Stream.PRODUCTS, who.trunc("i32"), number)
                any_ = any_ | (done.ne(0) & after(who, done))
            return any_

        fn = x.helper("sanitizer_tile_ordered", [_P, _I32, _I64], ("i1", 0), body)
        return fn(p, w, record)

    def _fenced(self, x: Builder, p: Val, w: Val, record: Val) -> Val:
        """True if the proxy sees what a record has written."""

        def body(x: Builder, args: list[Val]) -> Val:
            p, w, record = args
            u, number, stream = (
                (record >> Record.WARP) & 31,
                record >> Record.CLOCK,
                _stream(record),
            )
            visible = x.at(self.w.clocks.vector(x, p, w, self.w.layout.proxy), u << 3)
            done = self.operations.completed(x, p, Stream.COPIES, u.trunc("i32"), number)
            clock = stream.eq(Stream.COPIES).select(done, number)
            own = stream.ne(0) & stream.ne(Stream.COPIES)
            return record.eq(0) | own | clock.ult(word(x, visible))

        return x.helper("sanitizer_tile_fenced", [_P, _I32, _I64], ("i1", 0), body)(p, w, record)


def _stream(record: Val) -> Val:
    return (record >> Record.BYTES) & 15
