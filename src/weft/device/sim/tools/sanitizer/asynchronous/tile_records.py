"""Records of 16 bytes of shared memory: of the last write, and of the last read.

A record is like those of `layout`, but an asynchronous operation has its stream and number instead
of a clock, and all have the rank of the block whose warp made the access. The records lie with the
block whose memory it is.
"""

from __future__ import annotations

from weft.device.sim.tools.sanitizer.asynchronous.operations import AsyncOperations, Stream
from weft.device.sim.tools.sanitizer.checking import Checking
from weft.device.sim.tools.sanitizer.layout import Apart, BlockState, FindingKind, Record
from weft.device.sim.tools.sanitizer.order.words import put, word
from weft.device.sim.tools.sanitizer.report import report
from weft.ir import Builder, Val
from weft.records import dataclass

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)
ASYNC = (Stream.PRODUCTS, Stream.STORES, Stream.LOADS)
"""Streams of the asynchronous proxy; cp.async is not one of them."""
PLANES = 3
"""Words for each 16 bytes: the last write, the last read, and the layout of a tensor's tile."""
WARPGROUP = 4


@dataclass(frozen=True)
class _Made:
    """A record in parts: the warp and the rank that made it, its number or clock, its stream."""

    warp: Val
    rank: Val
    number: Val
    stream: Val


class TileRecords:
    """Code that keeps and compares the records of a kernel."""

    def __init__(self, w: Checking, operations: AsyncOperations) -> None:
        self.w, self.operations = w, operations

    def of_warp(self, lane: Val, stream: int, number: Val) -> Val:
        """The record of an operation of the current warp."""
        b = self.w.e.b
        who = self.w.site() | (lane.zext("i64") << Record.LANE) | (stream << Record.BYTES)
        rank = self.w.clocks.rank(b, self.w.p) << Record.RANK
        return who | rank | (self.w.e.warp.zext("i64") << Record.WARP) | (number << Record.CLOCK)

    def _made(self, x: Builder, record: Val) -> _Made:
        number, rank = record >> Record.CLOCK, x.integer("i64", 0)
        if self.w.clocks.clustered:
            rank, number = record >> Record.RANK, number & Record.NUMBERS
        stream = (record >> Record.BYTES) & 15
        return _Made((record >> Record.WARP) & 31, rank, number, stream)

    def plane(self, x: Builder, p: Val, number: int) -> Val:
        """One of the planes of a block."""
        nbytes = word(x, p, BlockState.NBYTES)
        first = x.at(p, ((nbytes >> 2) + 1) * 18 + self.w.layout.writers + 128 & ~63)
        return x.at(first, ((nbytes >> 4) + 1 << 3) * number)

    def started(self, b: Builder, p: Val) -> None:
        """Forget what the earlier blocks of a slot have done."""

        def body(x: Builder, args: list[Val]) -> None:
            first = self.plane(x, args[0], 0)
            units = (word(x, args[0], BlockState.NBYTES) >> 4) + 1
            with x.loop((units * PLANES).trunc("i32")) as i:
                put(x, x.integer("i64", 0), x.at(first, i.zext("i64") << 3))

        b.helper("sanitizer_tiles_started", [_P], None, body)(p)

    def touch(
        self, b: Builder, address: Val, size: Val, record: Val, writes: bool, stream: int
    ) -> None:
        """Compare an access to a range of shared memory with the records, and record it."""
        is_async = stream in ASYNC

        def body(x: Builder, args: list[Val]) -> None:
            p, w, address, size, record = args
            home, offset, end = self.range(x, p, address, size)
            writers, readers = (self.plane(x, home, i) for i in range(2))
            first, last = offset >> 4, (end - 1) >> 4
            start = address - offset
            with x.loop((last - first + 1).trunc("i32")) as i:
                k = first + i.zext("i64")
                written, read = x.at(writers, k << 3), x.at(readers, k << 3)
                place = start + (k << 4)
                self._check(
                    x, p, w, word(x, written), word(x, read), record, place, writes, is_async
                )
                put(x, record, written if writes else read)

        name = f"sanitizer_tile_{int(writes)}_{int(is_async)}"
        fn = b.helper(name, [_P, _I32, _I64, _I32, _I64], None, body)
        fn(self.w.p, self.w.e.warp, address, size, record)

    def range(self, x: Builder, p: Val, address: Val, size: Val) -> tuple[Val, Val, Val]:
        """The block that has a range of shared memory, its offset and its end there.

        The code returns if it is in none, or empty.
        """
        clocks = self.w.clocks
        rank, offset = clocks.rank_of(x, p, address)
        nbytes = word(x, p, BlockState.NBYTES)
        outside = offset.uge(nbytes) | size.eq(0)
        if clocks.clustered:
            outside = outside | (rank * clocks.warps).uge(word(x, p, BlockState.ACTORS))
        with x.when(outside):
            x.ret()
        return clocks.peer(x, p, rank), offset, x.umin(offset + size.zext("i64"), nbytes)

    def _check(
        self, x: Builder, p: Val, w: Val, written: Val, read: Val, record: Val, place: Val,
        writes: bool, is_async: bool,
    ) -> None:  # fmt: skip
        """Compare an access with the last write, and a write with the last read."""

        def found(kind: int, other: Val) -> None:
            report(x, p, kind, record, other, place, self._apart(x, record, other))

        stream = self._made(x, written).stream
        pending = ~self._ordered(x, p, w, written)
        # Threads and cp.async are compared word by word: here some bytes of 16 may be another's.
        late = stream.ne(0) if is_async else stream.eq(Stream.LOADS)
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
            other = pending if is_async else pending & self._made(x, read).stream.ne(0)
            with x.when(other, rare=True):
                found(FindingKind.TILE_OVERWRITTEN, read)

    def _apart(self, x: Builder, record: Val, other: Val) -> Val:
        """The distance of the threads of two records."""
        warps = x.integer("i64", Apart.WARPS)
        if not self.w.clocks.clustered:
            return warps
        blocks = ((record ^ other) >> Record.RANK).ne(0)
        return blocks.select(x.integer("i64", Apart.BLOCKS), warps)

    def _ordered(self, x: Builder, p: Val, w: Val, record: Val) -> Val:
        """True if the access of a record is complete, and was so before the present one."""

        def body(x: Builder, args: list[Val]) -> Val:
            p, w, record = args
            with x.when(record.eq(0)):
                x.ret(x.integer("i1", 1))
            clocks, made = self.w.clocks, self._made(x, record)
            peer = clocks.peer(x, p, made.rank)
            known = clocks.vector(x, p, w, self.w.layout.clocks)

            def after(warp: Val, clock: Val) -> Val:
                who = clocks.actor(x, peer, warp.trunc("i32"))
                here = who.eq(clocks.actor(x, p, w))
                return here | clock.ult(word(x, x.at(known, who << 3)))

            with x.when(made.stream.eq(0)):
                x.ret(after(made.warp, made.number))
            for one in (Stream.STORES, Stream.LOADS, Stream.COPIES):
                with x.when(made.stream.eq(one)):
                    warp = made.warp.trunc("i32")
                    done = self.operations.completed(x, peer, one, warp, made.number)
                    x.ret(done.ne(0) & after(made.warp, done))
            # The four warps of a warpgroup make a product together: it ends for all at once.
            any_ = x.integer("i1", 0)
            for i in range(min(WARPGROUP, clocks.warps)):
                who = (made.warp & ~(WARPGROUP - 1)) + i
                done = self.operations.completed(
                    x, peer, Stream.PRODUCTS, who.trunc("i32"), made.number
                )
                any_ = any_ | (done.ne(0) & after(who, done))
            return any_

        fn = x.helper("sanitizer_tile_ordered", [_P, _I32, _I64], ("i1", 0), body)
        return fn(p, w, record)

    def _fenced(self, x: Builder, p: Val, w: Val, record: Val) -> Val:
        """True if the proxy sees what a record has written."""

        def body(x: Builder, args: list[Val]) -> Val:
            p, w, record = args
            clocks, made = self.w.clocks, self._made(x, record)
            peer, warp = clocks.peer(x, p, made.rank), made.warp.trunc("i32")
            who = clocks.actor(x, peer, warp) << 3
            visible = x.at(clocks.vector(x, p, w, self.w.layout.proxy), who)
            done = self.operations.completed(x, peer, Stream.COPIES, warp, made.number)
            clock = made.stream.eq(Stream.COPIES).select(done, made.number)
            own = made.stream.ne(0) & made.stream.ne(Stream.COPIES)
            return record.eq(0) | own | clock.ult(word(x, visible))

        return x.helper("sanitizer_tile_fenced", [_P, _I32, _I64], ("i1", 0), body)(p, w, record)
