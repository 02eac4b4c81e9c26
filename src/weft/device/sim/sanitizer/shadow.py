"""Shadow records of memory: checked and renewed for a whole warp at once where it is regular.

    row    lanes touch memory in a pattern that is known: records are compared as vectors
    one    all lanes touch one element
    lanes  anything else, lane by lane and exactly; also wherever the first two see something odd

The first two answer "done" or leave everything as it was for `lanes` to look at.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import Slot as Block
from weft.device.sim.sanitizer.clocks import Clocks, put, word
from weft.device.sim.sanitizer.layout import Kind, Launch, Record, Slot, Worker
from weft.device.sim.sanitizer.report import report
from weft.ir import Builder, Val

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)
WIDE = 8
"""Records that are compared at a time."""


Pattern = tuple[int, ...]
"""For each word from the lowest on, the bits of the lanes that touch it; -1 for none."""
SPAN = 128
"""Words, at most, that are compared at once."""


def pattern_of(off: tuple[int, ...], nbytes: int, writes: bool) -> Pattern | None:
    """The pattern of 32 lanes at these distances; None when it must go lane by lane."""
    words: dict[int, int] = {}
    partly = nbytes < 4
    if any(x % min(nbytes, 4) for x in off) or max(off) + nbytes > 4 * SPAN:
        return None
    if partly and off != tuple(range(0, 32 * nbytes, nbytes)):
        return None
    for lane, x in enumerate(off):
        for i in range(x // 4, max(x // 4 + 1, (x + nbytes) // 4)):
            if i in words and writes and not partly:
                return None
            many = 1 << Record.MANY
            words[i] = words[i] | many if i in words else lane << Record.LANE
    count = -(-(max(words) + 1) // WIDE) * WIDE
    return tuple(words.get(i, -1) for i in range(count))


@dataclass(frozen=True)
class Planes:
    """Where the records of an access begin; `filled` is 0 unless the memory was fresh."""

    writers: Val
    readers: Val
    filled: Val | None
    room: Val


@dataclass(frozen=True)
class Shadow:
    """The code for accesses of one kernel."""

    clocks: Clocks
    slot: Slot

    # ---- where records are ------------------------------------------------------------------
    def _planes(
        self, b: Builder, slot: Val, p: Val, site: Val, address: Val, space: str, none: str
    ) -> Planes:
        """The records of an address; jumps to `none` when there are none."""
        granule = address & ~3
        if space == "shared":
            rel = granule - word(b, slot, Block.SHARED)
            size = word(b, slot, Block.SHARED_BYTES)
            here = b.label("here")
            b.branch((address - word(b, slot, Block.SHARED)).ult(size), here, none)
            b.place(here)
            readers = b.load("ptr", 0, b.at(p, Slot.READERS))
            at = rel << 1
            return Planes(b.at(b.at(p, self.slot.writers), at), b.at(readers, at), None, size - rel)
        row = self._region(b, p, site, address, none)
        rel = granule - word(b, row, Launch.LOW)
        at = rel << 1
        writers = b.load("ptr", 0, b.at(row, Launch.WRITERS))
        readers = b.load("ptr", 0, b.at(row, Launch.READERS))
        filled = word(b, row, Launch.FILLED)
        filled = filled.ne(0).select(filled + (rel >> 2), 0)
        room = word(b, row, Launch.BYTES) - rel
        known = b.val("i64", 0, f"ptrtoint {writers.tref} to i64").ne(0)
        there = known.select(b.at(writers, at), b.val("ptr", 0, "inttoptr i64 0 to ptr"))
        return Planes(there, b.at(readers, at), filled, room)

    def _region(self, b: Builder, p: Val, site: Val, address: Val, none: str) -> Val:
        worker = b.load("ptr", 0, b.at(p, Slot.WORKER))
        cache = b.at(worker, ((site & Record.SITES) << 3) + Worker.CACHE)
        held = word(b, cache)
        look, search, found = b.label("look"), b.label("search"), b.label("found")
        b.branch(held.ne(0), look, search)
        b.place(look)
        row = b.val("ptr", 0, f"inttoptr {held.tref} to ptr")
        inside = (address - word(b, row, Launch.LOW)).ult(word(b, row, Launch.BYTES))
        looked = b.block
        b.emit(f"br {inside.tref}, label %{found}, label %{search}, !prof !2")
        b.place(search)
        fn = b.helper("sanitizer_region", [_P, _P, _I64], _P, _search, attrs="#2")
        other = fn(p, cache, address)
        missing = b.val("i64", 0, f"ptrtoint {other.tref} to i64").eq(0)
        searched = b.block
        b.branch(missing, none, found)
        b.place(found)
        return b.phi("ptr", 0, [(row, looked), (other, searched)])

    # ---- known patterns ---------------------------------------------------------------------
    def row(self, b: Builder, space: str, writes: bool, pattern: Pattern) -> Callable[..., Val]:
        """(slot, warp, site, lowest address) -> done?  All lanes run."""

        def body(x: Builder, args: list[Val]) -> Val:
            slot, warp, site, first = args
            p = x.load("ptr", 0, x.at(slot, Block.OBSERVER))
            planes = self._planes(x, slot, p, site, first, space, "none")
            fits = planes.room.uge(4 * len(pattern)) & (first & 3).eq(0)
            x.branch(fits, "fits", "odd")
            x.place("fits")
            if planes.filled is not None:
                self._row_filled(x, planes, writes, pattern)
            mine = self._tag(x, p, warp, site, space)
            self._row_records(x, p, warp, space, writes, pattern, planes, mine)
            x.emit("ret i1 true")
            x.place("none")
            x.emit("ret i1 true")
            x.place("odd")
            return x.integer("i1", 0)

        digest = hashlib.sha256(repr(pattern).encode()).hexdigest()[:10]
        name = f"sanitizer_row_{space}_{'w' if writes else 'r'}_{digest}"
        return b.helper(name, [_P, _I32, _I64, _I64], ("i1", 0), body)

    def _tag(self, x: Builder, p: Val, warp: Val, site: Val, space: str) -> Val:
        at = Slot.SHARED_TAG if space == "shared" else Slot.TAG
        return word(x, self.clocks.row(x, p, warp), at) | site

    def _limits(self, x: Builder, p: Val, warp: Val, space: str) -> tuple[Val, Val]:
        """(base, limit): a record r with r - base < limit is ordered before the warp."""
        row = self.clocks.row(x, p, warp)
        if space == "shared":
            return x.integer("i64", 0), word(x, row, Slot.SHARED_LIMIT)
        return word(x, p, Slot.BASE), word(x, row, Slot.LIMIT)

    def _row_filled(self, x: Builder, planes: Planes, writes: bool, pattern: Pattern) -> None:
        assert planes.filled is not None
        with x.when(planes.filled.ne(0)):
            start = x.val("ptr", 0, f"inttoptr {planes.filled.tref} to ptr")
            empty = x.zero("i8", WIDE)
            for i in range(0, len(pattern), WIDE):
                at = x.at(start, i)
                there = x.load("i8", WIDE, at, 1)
                touched = [int(r >= 0) for r in pattern[i : i + WIDE]]
                if writes:
                    x.store(there | x.lanes("i8", touched), at, 1)
                else:
                    empty = empty | (there.eq(0).sext("i8") & x.lanes("i8", touched))
            if not writes:
                go = x.label("go")
                x.branch(_or(x, empty).ne(0), "odd", go)
                x.place(go)

    def _row_records(
        self, x: Builder, p: Val, warp: Val, space: str, writes: bool, pattern: Pattern,
        planes: Planes, tag: Val,
    ) -> None:  # fmt: skip
        """All records of the span are compared, also those between; only those touched change."""
        if space == "global":
            known = x.val("i64", 0, f"ptrtoint {planes.writers.tref} to i64").ne(0)
            x.branch(known, "tracked", "none")
            x.place("tracked")
        base, limit = self._limits(x, p, warp, space)
        tag = tag | Record.ALL_BYTES
        chunks = range(0, len(pattern), WIDE)
        start = word(x, p, Slot.START) << Record.CLOCK

        def mine(i: int) -> Val:
            bits = [max(r, 0) for r in pattern[i : i + WIDE]]
            return x.splat(tag, WIDE) | x.lanes("i64", bits)

        def others(plane: Val, i: int) -> Val:
            """Records that are not known to be earlier, nor these lanes' own."""
            r = x.load("i64", WIDE, x.at(plane, 8 * i), 8)
            odd = (r - base).uge(limit) & (r ^ mine(i)).uge(1 << Record.LANE)
            if space == "global":
                odd = odd & r.ne(0)
            return odd.sext("i64")

        def renew(plane: Val, i: int, when: Callable[[Val], Val] | None) -> None:
            at = x.at(plane, 8 * i)
            touched = [r >= 0 for r in pattern[i : i + WIDE]]
            new = mine(i)
            if when is not None or not all(touched):
                r = x.load("i64", WIDE, at, 8)
                change = x.lanes("i1", touched)
                if when is not None:
                    change = when(r) & change if not all(touched) else when(r)
                new = change.select(new, r)
            x.store(new, at, 8)

        quick = x.zero("i64", WIDE)
        for i in chunks:  # what is most likely, first
            w = x.load("i64", WIDE, x.at(planes.writers, 8 * i), 8)
            if space == "global":
                quick = quick | w
            elif writes:
                quick = quick | w.uge(limit).sext("i64")
            else:
                quick = quick | (w - start).uge(limit - start).sext("i64")
        x.branch(_or(x, quick).ne(0), "look", "settled")
        x.place("look")
        close = x.zero("i64", WIDE)
        for i in chunks:
            close = close | others(planes.writers, i)
            if space == "shared" and not writes:
                w = x.load("i64", WIDE, x.at(planes.writers, 8 * i), 8)
                close = close | w.ult(start).sext("i64")
        x.branch(_or(x, close).ne(0), "odd", "settled")
        x.place("settled")
        if writes:
            close = x.zero("i64", WIDE)
            for i in chunks:
                close = close | others(planes.readers, i)
            x.branch(_or(x, close).ne(0), "odd", "renew")
            x.place("renew")
            for i in chunks:
                renew(planes.writers, i, None)
            return
        touched = [i for i, r in enumerate(pattern) if r >= 0]
        ends = [word(x, planes.readers, 8 * i) for i in (touched[0], touched[-1])]
        stay = [(r - base).uge(limit) & r.ne(0) for r in ends]
        x.branch(stay[0] & stay[1], "none", "renew")  # somebody else's, in this interval: kept
        x.place("renew")
        for i in chunks:
            renew(planes.readers, i, lambda r: (r - base).ult(limit) | r.eq(0))

    # ---- one element ------------------------------------------------------------------------
    def one(self, b: Builder, space: str, writes: bool, nbytes: int) -> Callable[..., Val]:
        """(slot, warp, site, address, lanes) -> done?  Some lane runs."""

        def body(x: Builder, args: list[Val]) -> Val:
            slot, warp, site, address, lanes = args
            p = x.load("ptr", 0, x.at(slot, Block.OBSERVER))
            planes = self._planes(x, slot, p, site, address, space, "none")
            x.branch(planes.room.uge(nbytes), "fits", "odd")
            x.place("fits")
            if planes.filled is not None:
                x.branch(planes.filled.ne(0), "odd", "plain")
                x.place("plain")
                known = x.val("i64", 0, f"ptrtoint {planes.writers.tref} to i64").ne(0)
                x.branch(known, "tracked", "none")
                x.place("tracked")
            lane = x.intrinsic("cttz", [lanes], extra="false").zext("i64") & 31
            many = (lanes & (lanes - 1)).ne(0).zext("i64") << Record.MANY
            mine = self._tag(x, p, warp, site, space) | (lane << Record.LANE) | many
            mine = mine | _bytes(x, address, nbytes)
            base, limit = self._limits(x, p, warp, space)
            start = word(x, p, Slot.START) << Record.CLOCK
            odd = x.integer("i1", 0)
            readers = []
            for i in range(max(1, nbytes // 4)):
                w, r = word(x, planes.writers, 8 * i), word(x, planes.readers, 8 * i)
                readers.append(r)
                for record in (w, r) if writes else (w,):
                    near = (record - base).uge(limit) & (record ^ mine).uge(1 << Record.LANE)
                    odd = odd | (near & record.ne(0))
                if space == "shared" and not writes:
                    odd = odd | w.ult(start)
            x.branch(odd, "odd", "renew", rare=True)
            x.place("renew")
            for i, r in enumerate(readers):
                if writes:
                    put(x, mine, planes.writers, 8 * i)
                else:
                    earlier = (r - base).ult(limit) | r.eq(0)
                    put(x, earlier.select(mine, r), planes.readers, 8 * i)
            x.jump("none")
            x.place("none")
            x.emit("ret i1 true")
            x.place("odd")
            return x.integer("i1", 0)

        name = f"sanitizer_one_{space}_{'w' if writes else 'r'}{nbytes}"
        return b.helper(name, [_P, _I32, _I64, _I64, _I32], ("i1", 0), body)

    # ---- anything ---------------------------------------------------------------------------
    def lanes(
        self, b: Builder, space: str, writes: bool, nbytes: int, element: int
    ) -> Callable[..., Val]:
        """(slot, warp, site, addresses, lanes, values or null, are values known?).

        Values are [element][lane] as the access writes them; a write of what is there already is
        no hazard.
        """

        def body(x: Builder, args: list[Val]) -> None:
            slot, warp, site, table, lanes, values = args
            p = x.load("ptr", 0, x.at(slot, Block.OBSERVER))
            tag = self._tag(x, p, warp, site, space)

            def one(lane: Val) -> None:
                address = word(x, x.at(table, lane.zext("i64") << 3))
                skip = x.label("skip")
                planes = self._planes(x, slot, p, site, address, space, skip)
                fits = x.label("fits")
                x.branch(planes.room.uge(nbytes), fits, skip)
                x.place(fits)
                mine = tag | (lane.zext("i64") << Record.LANE) | _bytes(x, address, nbytes)

                def same(other: Val, i: int) -> Val:
                    return self._same(x, values, lane, mine, other, address, i, nbytes, element)

                self._lane(x, p, warp, space, writes, nbytes, planes, address, mine, same)
                x.jump(skip)
                x.place(skip)

            each_lane(x, lanes, one)

        name = f"sanitizer_lanes_{space}_{'w' if writes else 'r'}{nbytes}_{element}"
        return b.helper(name, [_P, _I32, _I64, _P, _I32, _P], None, body)

    def _lane(
        self, x: Builder, p: Val, warp: Val, space: str, writes: bool, nbytes: int,
        planes: Planes, address: Val, mine: Val, same: Callable[[Val, int], Val],
    ) -> None:  # fmt: skip
        count = max(1, nbytes // 4)
        if planes.filled is not None:
            self._fill_lane(x, p, planes, writes, count, mine, address)
            known = x.val("i64", 0, f"ptrtoint {planes.writers.tref} to i64").ne(0)
            go, end = x.label("tracked"), x.label("untracked")
            x.branch(known, go, end)
            x.place(go)
        start = word(x, p, Slot.START) << Record.CLOCK
        if space == "shared" and not writes:
            fresh = x.integer("i1", 1)
            for i in range(count):
                fresh = fresh & word(x, planes.writers, 8 * i).ult(start)
            with x.when(fresh, rare=True):
                report(x, p, Kind.UNINITIALISED, mine, x.integer("i64", 0), address)
        for i in range(count):
            self._granule(x, p, warp, space, writes, planes, address + 4 * i, mine, i, same)
        if planes.filled is not None:
            x.jump(end)
            x.place(end)

    def _granule(
        self, x: Builder, p: Val, warp: Val, space: str, writes: bool, planes: Planes,
        address: Val, mine: Val, i: int, same: Callable[[Val, int], Val],
    ) -> None:  # fmt: skip
        w, r = word(x, planes.writers, 8 * i), word(x, planes.readers, 8 * i)
        kept = x.alloca("i1")
        x.store(x.integer("i1", 0), kept)

        def compare(record: Val, kind: int) -> None:
            with x.when(self._hazard(x, p, warp, space, record, mine), rare=True):
                if writes:
                    harmless = same(record, i)
                    x.store(harmless | x.load("i1", 0, kept), kept)
                    with x.when(harmless ^ 1):
                        report(x, p, kind, mine, record, address)
                else:
                    report(x, p, kind, mine, record, address)

        compare(w, Kind.WRITE_AFTER_WRITE if writes else Kind.READ_AFTER_WRITE)
        if writes:
            compare(r, Kind.WRITE_AFTER_READ)
            with x.when(x.load("i1", 0, kept) ^ 1):
                put(x, self._merged(x, w, mine), planes.writers, 8 * i)
            return
        base, limit = self._limits(x, p, warp, space)
        earlier = (r - base).ult(limit) | r.eq(0)
        put(x, earlier.select(mine, r), planes.readers, 8 * i)

    def _merged(self, x: Builder, w: Val, mine: Val) -> Val:
        """The new record; lanes of one instruction that write parts of four bytes share it."""
        together = _together(w, mine) & (w ^ mine).ne(0)
        both = mine | (w & Record.ALL_BYTES) | (1 << Record.MANY)
        return together.select(both, mine)

    def _hazard(self, x: Builder, p: Val, warp: Val, space: str, record: Val, mine: Val) -> Val:
        """Is it somebody else's access to these bytes, not ordered, and not both are strong?"""
        warps_lanes = (1 << Record.BYTES) - (1 << Record.LANE)
        own = ((record ^ mine) & warps_lanes).eq(0)
        touch = (record & mine & Record.ALL_BYTES).ne(0)
        strong = (record & mine & Record.STRONG).ne(0)
        if space == "global":
            mine_too = own & ((record ^ mine) >> Record.BLOCK).eq(0)
        else:
            mine_too = own & (record >> Record.CLOCK).ne(Record.PENDING)
        may = record.ne(0) & touch & (strong ^ 1) & (mine_too ^ 1)
        return x.choose(
            may,
            lambda: self.clocks.ordered(x, p, warp, record, space) ^ 1,
            lambda: x.integer("i1", 0),
        )

    def _fill_lane(
        self, x: Builder, p: Val, planes: Planes, writes: bool, count: int, mine: Val, address: Val
    ) -> None:
        assert planes.filled is not None
        with x.when(planes.filled.ne(0)):
            start = x.val("ptr", 0, f"inttoptr {planes.filled.tref} to ptr")
            fresh = x.integer("i1", 1)
            for i in range(count):
                if writes:
                    x.store(x.integer("i8", 1), x.at(start, i))
                else:
                    fresh = fresh & x.load("i8", 0, x.at(start, i)).eq(0)
            if not writes:
                with x.when(fresh, rare=True):
                    report(x, p, Kind.UNINITIALISED, mine, x.integer("i64", 0), address)

    def _same(
        self, x: Builder, values: Val, lane: Val, mine: Val, record: Val, address: Val, i: int,
        nbytes: int, element: int,
    ) -> Val:  # fmt: skip
        """Does the access write what is there, or what the other lane of it writes?"""
        together = _together(record, mine)
        size = min(4, nbytes)
        ty = f"i{8 * size}"
        step = (4 * i) // element * 32 * element + (4 * i) % element

        def of(lane: Val) -> Val:
            return x.load(ty, 0, x.at(x.at(values, step), lane.zext("i64") * element), 1)

        known = x.val("i64", 0, f"ptrtoint {values.tref} to i64").ne(0)

        def compared() -> Val:
            there = x.val("ptr", 0, f"inttoptr {(address + 4 * i).tref} to ptr")
            other = of(((record >> Record.LANE) & 31).trunc("i32"))
            return of(lane).eq(together.select(other, x.load(ty, 0, there, 1)))

        return x.choose(known, compared, lambda: x.integer("i1", 0))


def _search(b: Builder, args: list[Val]) -> Val:
    """(slot's, site's cache, address) -> the region's row, or null."""
    p, cache, address = args
    launch = b.load("ptr", 0, b.at(p, Slot.LAUNCH))
    rows = b.load("ptr", 0, b.at(launch, Launch.REGIONS))
    with b.loop(word(b, launch, Launch.COUNT).trunc("i32")) as i:
        row = b.at(rows, i.zext("i64") * Launch.ROW)
        hit = (address - word(b, row, Launch.LOW)).ult(word(b, row, Launch.BYTES))
        with b.when(hit):
            put(b, b.val("i64", 0, f"ptrtoint {row.tref} to i64"), cache)
            b.emit(f"ret {row.tref}")
            b.place(b.label("never"))
    return b.val("ptr", 0, "inttoptr i64 0 to ptr")


def _together(a: Val, c: Val) -> Val:
    """Are two records of one instruction, as one warp has executed it once?"""
    lanes = ((1 << Record.WARP) - (1 << Record.LANE)) | Record.ALL_BYTES
    return ((a ^ c) & ~lanes).eq(0)


def _bytes(x: Builder, address: Val, nbytes: int) -> Val:
    """Which of the four bytes an access covers."""
    if nbytes >= 4:
        return x.integer("i64", Record.ALL_BYTES)
    return x.integer("i64", ((1 << nbytes) - 1) << Record.BYTES) << (address & 3)


def _or(x: Builder, v: Val) -> Val:
    fn = f"@llvm.vector.reduce.or.v{v.n}{v.ty}"
    x.module.declarations[fn] = f"declare {v.ty} {fn}({v.t})"
    return x.val(v.ty, 0, f"call {v.ty} {fn}({v.tref})")
