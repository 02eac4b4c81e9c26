"""The slow path of the shadow records: lane by lane, for irregular and unexpected accesses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import SlotFields
from weft.device.sim.tools.sanitizer.layout import Apart, BlockState, FindingKind, Record
from weft.device.sim.tools.sanitizer.order.words import put, word
from weft.device.sim.tools.sanitizer.report import report
from weft.device.sim.tools.sanitizer.shadow.records import (
    NEWEST,
    AccessPattern,
    Planes,
    Shadow,
    bytes_of,
    check_written,
    with_reader,
    words_written,
)
from weft.ir import Builder, Val

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)


class ExactShadow(Shadow):
    """The code for any access of one kernel; it alone reports."""

    def lanes(self, b: Builder, space: str, way: AccessPattern, element: int) -> Callable[..., Val]:
        """(slot, warp, site, addresses, lanes, values or null, true if values are known).

        Values are [element][lane] as the access writes them; a write of an equal value is no
        hazard.
        """

        nbytes = way.nbytes

        def body(x: Builder, args: list[Val]) -> None:
            slot, warp, site, table, lanes, values = args
            p = x.load("ptr", 0, x.at(slot, SlotFields.OBSERVER))
            tag = self.tag(x, p, warp, site, space)
            if way.writes:
                self.wrote(x, p, space, tag | NEWEST)

            def one(lane: Val) -> None:
                address = word(x, x.at(table, lane.zext("i64") << 3))
                who = site | (lane.zext("i64") << Record.LANE) | (warp.zext("i64") << Record.WARP)
                current = tag | (lane.zext("i64") << Record.LANE) | bytes_of(x, address, nbytes)

                def same(other: Val, i: int) -> Val:
                    return self._same(x, values, lane, current, other, address, i, nbytes, element)

                with x.breakable() as skip:
                    leave = partial(x.jump, skip)
                    planes = self.planes(x, slot, p, who, address, space, leave)
                    # The access itself reports addresses outside its allocation.
                    with x.when(planes.room.uge(nbytes)):
                        self._lane(x, p, warp, slot, space, way, planes, address, current, same)

            each_lane(x, lanes, one)

        name = f"sanitizer_lanes_{space}_{way.name}_{element}"
        return b.helper(name, [_P, _I32, _I64, _P, _I32, _P], None, body)

    def _lane(
        self,
        x: Builder,
        p: Val,
        warp: Val,
        slot: Val,
        space: str,
        way: AccessPattern,
        planes: Planes,
        address: Val,
        current: Val,
        same: Callable[[Val, int], Val],
    ) -> None:
        count = max(1, way.nbytes // 4)

        def granules() -> None:
            for i in range(count):
                self._granule(
                    x, p, warp, slot, space, way, planes, address + 4 * i, current, i, same
                )

        if planes.filled is not None:
            self._fill_lane(x, p, planes, way, current, address)
            with x.when(x.val("i64", 0, f"ptrtoint {planes.writers.typed} to i64").ne(0)):
                granules()
            return
        if way.reads:
            if self.summed:
                first = (address - word(x, slot, SlotFields.SHARED)) >> 2
                written = [words_written(x, p, first + i, 1) for i in range(count)]
            else:
                start = word(x, p, BlockState.START) << Record.CLOCK
                written = [word(x, planes.writers, 8 * i).uge(start) for i in range(count)]
            check_written(x, p, way, [w.sext("i32") for w in written], current, address)
        granules()

    def _granule(
        self,
        x: Builder,
        p: Val,
        warp: Val,
        slot: Val,
        space: str,
        way: AccessPattern,
        planes: Planes,
        address: Val,
        current: Val,
        i: int,
        same: Callable[[Val, int], Val],
    ) -> None:
        writes = way.writes
        w, r = word(x, planes.writers, 8 * i), word(x, planes.readers, 8 * i)
        kept = x.alloca("i1")
        x.store(x.integer("i1", 0), kept)

        def compare(record: Val, kind: int) -> None:
            with x.when(self._hazard(x, p, warp, space, record, current), rare=True):
                if writes:
                    harmless = same(record, i)
                    x.store(harmless | x.load("i1", 0, kept), kept)
                    with x.when(harmless ^ 1):
                        report(
                            x, p, kind, current, record, address, _apart(x, space, current, record)
                        )
                else:
                    report(x, p, kind, current, record, address, _apart(x, space, current, record))

        compare(w, FindingKind.WRITE_AFTER_WRITE if writes else FindingKind.READ_AFTER_WRITE)
        if way.cached:
            # In any order: even the thread's own writes may not be seen.
            with x.when((w & current & Record.ALL_BYTES).ne(0), rare=True):
                report(x, p, FindingKind.STALE, current, w, address, _apart(x, space, current, w))
        if writes:
            compare(r, FindingKind.WRITE_AFTER_READ)
            with x.when(x.load("i1", 0, kept) ^ 1):
                if way.strong:
                    self._displace(x, p, warp, space, w, r, planes, current, i)
                put(x, self._merged(w, current), planes.writers, 8 * i)
                self.mark_written(x, p, slot, space, address, 1)
            return
        earlier = self._earlier(x, p, warp, space, r)
        self.reads(x, p, planes, current | NEWEST)
        put(x, with_reader(r, current, earlier, space), planes.readers, 8 * i)

    def _earlier(self, x: Builder, p: Val, warp: Val, space: str, r: Val) -> Val:
        base, limit = self.limits(x, p, warp, space)
        return (r - base).ult(limit) | r.eq(0)

    def _displace(
        self, x: Builder, p: Val, warp: Val, space: str, w: Val, r: Val, planes: Planes,
        current: Val, i: int,
    ) -> None:  # fmt: skip
        """Move a plain write that an atomic one replaces to the readers, if these are earlier.

        It still races with other threads' atomics, with which the new record does not.
        """
        own = ((r ^ current) & (Record.LANES | Record.WARPS)).eq(0)
        free = self._earlier(x, p, warp, space, r) | own
        plain = w.ne(0) & (w & Record.STRONG).eq(0)
        with x.when(plain & free):
            self.reads(x, p, planes, w | NEWEST)
            put(x, w, planes.readers, 8 * i)

    def _merged(self, w: Val, current: Val) -> Val:
        """The new record; lanes of one instruction that write parts of four bytes share it."""
        together = _together(w, current) & (w ^ current).ne(0)
        both = current | (w & Record.ALL_BYTES) | (1 << Record.MANY)
        return together.select(both, current)

    def _hazard(self, x: Builder, p: Val, warp: Val, space: str, record: Val, current: Val) -> Val:
        """True if it is another thread's unordered access to these bytes, unless both are strong.

        Where lanes share a record, the bytes of each lane are not known: a part of a word counts as
        the lane's own then.
        """
        own = ((record ^ current) & (Record.WARPS | Record.LANES)).eq(0)
        partly = (current & Record.ALL_BYTES).ne(Record.ALL_BYTES)
        crew = ((record ^ current) & Record.WARPS).eq(0) & (record & 1 << Record.MANY).ne(0)
        own = own | (partly & crew)
        touch = (record & current & Record.ALL_BYTES).ne(0)
        strong = (record & current & Record.STRONG).ne(0)
        if space == "global":
            mine_too = own & ((record ^ current) >> Record.BLOCK).eq(0)
        else:
            # A copy that was not waited for is unordered with its own thread, too.
            mine_too = own & (record >> Record.CLOCK).ne(Record.PENDING)
        may = record.ne(0) & touch & (strong ^ 1) & (mine_too ^ 1)
        return x.either(
            may,
            lambda: self.clocks.ordered(x, p, warp, record, current, space) ^ 1,
            lambda: x.integer("i1", 0),
        )

    def _fill_lane(
        self, x: Builder, p: Val, planes: Planes, way: AccessPattern, current: Val, address: Val
    ) -> None:
        """Mark the bytes of a write as written; check those of a read."""
        assert planes.filled is not None
        with x.when(planes.filled.ne(0)):
            start = x.val("ptr", 0, f"inttoptr {planes.filled.typed} to ptr")
            places = [x.at(start, i) for i in range(max(1, way.nbytes // 4))]
            written = [x.load("i8", 0, at).zext("i32") for at in places]
            if way.reads:
                check_written(x, p, way, written, current, address)
            if way.writes:
                bits = ((current >> Record.BYTES) & 15).trunc("i32")
                for at, old in zip(places, written, strict=True):
                    x.store((old | bits).trunc("i8"), at)

    def _same(
        self, x: Builder, values: Val, lane: Val, current: Val, record: Val, address: Val, i: int,
        nbytes: int, element: int,
    ) -> Val:  # fmt: skip
        """True at run time if the access writes the present value, or that of its other lane."""
        together = _together(record, current)
        size = min(4, nbytes)
        ty = f"i{8 * size}"
        step = (4 * i) // element * 32 * element + (4 * i) % element

        def of(lane: Val) -> Val:
            return x.load(ty, 0, x.at(x.at(values, step), lane.zext("i64") * element), 1)

        known = x.val("i64", 0, f"ptrtoint {values.typed} to i64").ne(0)

        def compared() -> Val:
            there = x.val("ptr", 0, f"inttoptr {(address + 4 * i).typed} to ptr")
            other = of(((record >> Record.LANE) & 31).trunc("i32"))
            return of(lane).eq(together.select(other, x.load(ty, 0, there, 1)))

        return x.either(known, compared, lambda: x.integer("i1", 0))


def _apart(x: Builder, space: str, current: Val, record: Val) -> Val:
    warps = ((current ^ record) & Record.WARPS).ne(0).zext("i64")
    if space == "shared":
        return warps
    blocks = ((current ^ record) >> Record.BLOCK).ne(0)
    return blocks.select(x.integer("i64", Apart.BLOCKS), warps)


def _together(a: Val, c: Val) -> Val:
    """True at run time if two records are of one execution of an instruction by one warp."""
    lanes = ((1 << Record.WARP) - (1 << Record.LANE)) | Record.ALL_BYTES
    return ((a ^ c) & ~lanes).eq(0)
