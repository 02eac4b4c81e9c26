"""Vector clocks, one per warp of a block; joined at every synchronisation.

Warp w keeps, for every warp u of its block, the clock up to which u's accesses are ordered before
what w does now. A barrier of the block joins the clocks of the warps that meet there; a
synchronisation of all lanes advances the warp's own clock. Where only some lanes of a warp
synchronise, these lanes are ordered, and the vector's entry for the warp itself stays behind its
clock. Between blocks an edge is a fence, then an atomic or volatile write by the releasing warp,
and an atomic or volatile read by the acquiring one; all places of memory count as one, so some
races between blocks that synchronise are not seen.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.device.sim.lane_sets import each_lane, lanes_of
from weft.device.sim.layout import ContextFields, SlotFields, WorkerFields
from weft.device.sim.tools.sanitizer.layout import BlockState, LaunchState, Record
from weft.ir import Builder, Val

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)
Rule = Callable[[Val, Val], Val]


def word(b: Builder, p: Val, at: int = 0) -> Val:
    return b.load("i64", 0, b.at(p, at), 8)


def _larger(old: Val, new: Val) -> Val:
    return old.builder.umax(old, new)


def put(b: Builder, v: Val, p: Val, at: int = 0) -> None:
    b.store(v, b.at(p, at), 8)


class Clocks:
    """Code that keeps the clocks of a kernel with so many warps a block."""

    def __init__(
        self, warps: int, slot: BlockState, *, publishes: bool, masks: bool, arrivals: bool,
        proxies: bool = False,
    ) -> None:  # fmt: skip
        self.warps, self.slot, self.publishes, self.masks = warps, slot, publishes, masks
        self.arrivals, self.proxies = arrivals, proxies
        """True if warps arrive at barriers without waiting."""

    def row(self, b: Builder, p: Val, warp: Val) -> Val:
        """The row of a warp."""
        return b.at(p, warp.zext("i64") * BlockState.WARP + BlockState.WARPS)

    def vector(self, b: Builder, p: Val, warp: Val, start: int) -> Val:
        """The vector of a warp in the table that begins at `start`."""
        return b.at(p, warp.zext("i64") * (8 * self.warps) + start)

    def begin(self, b: Builder, context: Val, worker: Val, slot: Val) -> None:
        """Start a block: later than all that its slot has seen."""
        b.helper("sanitizer_begin", [_P, _P, _P], None, self._begin)(context, worker, slot)

    def _begin(self, b: Builder, args: list[Val]) -> None:
        context, worker, slot = args
        p = b.load("ptr", 0, b.at(slot, SlotFields.OBSERVER))
        put(b, word(b, context, ContextFields.OBSERVER), p, BlockState.LAUNCH)
        put(b, word(b, worker, WorkerFields.OBSERVER), p, BlockState.WORKER)
        shared = word(b, slot, SlotFields.SHARED_BYTES) >> 2
        first = b.val("i64", 0, f"ptrtoint {b.at(p, self.slot.writers).typed} to i64")
        put(b, first + (shared << 3), p, BlockState.READERS)
        put(b, first + (shared << 4), p, BlockState.FILLED)
        # Records that the slot's earlier blocks left in shared memory are before this clock, so
        # they need not be cleared.
        start = word(b, p, BlockState.LATEST) + 1
        put(b, start, p, BlockState.START)
        put(b, start, p, BlockState.LATEST)
        gx, gy = (word(b, context, x) for x in (ContextFields.GRID_X, ContextFields.GRID_Y))
        x, y, z = (
            b.load("i32", 0, b.at(slot, at)).zext("i64")
            for at in (SlotFields.BLOCK_X, SlotFields.BLOCK_Y, SlotFields.BLOCK_Z)
        )
        number = (z * gy + y) * gx + x
        put(b, number, p, BlockState.BLOCK)
        put(b, ((number + 1) & Record.BLOCKS) << Record.BLOCK, p, BlockState.BASE)
        b.store(b.zero("i64", 16), b.at(p, BlockState.ARRIVED), 8)
        table = self.warps * self.warps
        # Clocks, then nothing fenced or released, where anything ever is.
        more = 2 * table + 17 * self.warps if self.publishes or self.arrivals else 0
        with b.loop(table + more) as i:
            value = b.select(i.ult(table), start, b.integer("i64", 0))
            put(b, value, b.at(p, (i.zext("i64") << 3) + self.slot.clocks))
        with b.loop(table + 17 * self.warps if self.proxies else 0) as i:
            value = b.select(i.ult(table), start, b.integer("i64", 0))
            put(b, value, b.at(p, (i.zext("i64") << 3) + self.slot.proxy))
        with b.loop(self.warps) as w:
            row = self.row(b, p, w)
            put(b, b.integer("i64", 0), row, BlockState.ACQUIRED)
            put(b, start << Record.CLOCK, row, BlockState.SHARED_TAG)
            self._refresh(b, p, w)

    def _refresh(self, b: Builder, p: Val, warp: Val) -> None:
        """Update a warp's record bits and limits after its clocks have changed."""

        def body(x: Builder, args: list[Val]) -> None:
            p, w = args
            mine = self.vector(x, p, w, self.slot.clocks)
            least = x.alloca("i64")
            x.store(x.integer("i64", -1), least)
            with x.loop(self.warps) as u:
                known = word(x, x.at(mine, u.zext("i64") << 3))
                x.store(x.umin(x.load("i64", 0, least), known), least)
            row = self.row(x, p, w)
            clock = word(x, row, BlockState.SHARED_TAG) >> Record.CLOCK
            start, base = word(x, p, BlockState.START), word(x, p, BlockState.BASE)
            who = w.zext("i64") << Record.WARP
            limit = x.load("i64", 0, least)
            put(x, limit << Record.CLOCK, row, BlockState.SHARED_LIMIT)
            put(x, (clock << Record.CLOCK) | who, row, BlockState.SHARED_TAG)
            late = (clock - start).uge(Record.CLOCKS - 1)  # Too many accesses to order.
            near = x.umin(clock - start + 1, x.integer("i64", Record.CLOCKS))
            limit = (limit - start + 1) << Record.CLOCK
            put(x, x.select(late, x.integer("i64", -1), limit), row, BlockState.LIMIT)
            put(x, (near << Record.CLOCK) | who | base, row, BlockState.TAG)
            latest = x.intrinsic("umax", [word(x, p, BlockState.LATEST), clock])
            put(x, latest, p, BlockState.LATEST)

        b.helper("sanitizer_refresh", [_P, _I32], None, body)(p, warp)

    def advance(self, b: Builder, p: Val, warp: Val) -> None:
        """Order all lanes of a warp, which have met: each is after all accesses of the others."""

        def body(x: Builder, args: list[Val]) -> None:
            p, w = args
            row = self.row(x, p, w)
            clock = self._tick(x, p, row)
            put(x, clock, x.at(self.vector(x, p, w, self.slot.clocks), w.zext("i64") << 3))
            if self.warps == 1:
                self._refresh(x, p, w)
                return
            late = (clock - word(x, p, BlockState.START)).uge(Record.CLOCKS - 1)
            with x.when(late | word(x, row, BlockState.APART).ne(0), rare=True):
                put(x, x.integer("i64", 0), row, BlockState.APART)
                self._refresh(x, p, w)

        b.helper("sanitizer_advance", [_P, _I32], None, body)(p, warp)

    def _tick(self, x: Builder, p: Val, row: Val) -> Val:
        """Advance a warp's clock by itself: this does not order its lanes' accesses."""
        for tag in (BlockState.SHARED_TAG, BlockState.TAG):
            put(x, word(x, row, tag) + (1 << Record.CLOCK), row, tag)
        clock = word(x, row, BlockState.SHARED_TAG) >> Record.CLOCK
        put(x, x.intrinsic("umax", [word(x, p, BlockState.LATEST), clock]), p, BlockState.LATEST)
        return clock

    def _part(self, x: Builder, p: Val, w: Val) -> Val:
        """Advance the clock of a warp whose lanes are not all ordered."""
        row = self.row(x, p, w)
        clock = self._tick(x, p, row)
        put(x, x.integer("i64", 1), row, BlockState.APART)
        with x.when((clock - word(x, p, BlockState.START)).uge(Record.CLOCKS - 1), rare=True):
            self._refresh(x, p, w)
        return clock

    def meet_lanes(self, b: Builder, p: Val, warp: Val, lanes: Val) -> None:
        """Order some lanes of a warp, which have met: each is after all that any was after."""

        def body(x: Builder, args: list[Val]) -> None:
            p, w, lanes = args
            clock = self._part(x, p, w)
            table = x.at(p, w.zext("i64") * BlockState.LANES + self.slot.lanes)
            joined = x.alloca("i64", 32)
            x.store(x.zero("i64", 32), joined)

            def row(lane: Val) -> Val:
                return x.at(table, lane.zext("i64") << 8)

            def join(lane: Val) -> None:
                known = x.load("i64", 32, row(lane), 8)
                x.store(_larger(x.load("i64", 32, joined), known), joined)

            each_lane(x, lanes, join)
            known = lanes_of(x, lanes).select(x.splat(clock, 32), x.load("i64", 32, joined))
            each_lane(x, lanes, lambda lane: x.store(known, row(lane), 8))

        b.helper("sanitizer_meet_lanes", [_P, _I32, _I32], None, body)(p, warp, lanes)

    def arrive(self, b: Builder, p: Val, warp: Val, number: Val) -> None:
        """Record an arrival at a barrier without a wait: the warp's later accesses come after
        it.
        """

        def body(x: Builder, args: list[Val]) -> None:
            p, w, number = args
            self.advance(x, p, w)
            early = self._early(x, p, number)
            self._each(x, early, self.vector(x, p, w, self.slot.clocks), _larger)
            if self.proxies:
                visible = self.vector(x, p, w, self.slot.proxy)
                self._each(x, self._early(x, p, number, self.slot.proxy_early), visible, _larger)

        b.helper("sanitizer_arrive", [_P, _I32, _I32], None, body)(p, warp, number)

    def _early(self, x: Builder, p: Val, number: Val, start: int | None = None) -> Val:
        start = self.slot.early if start is None else start
        return x.at(p, number.zext("i64") * (8 * self.warps) + start)

    def meet(self, b: Builder, slot: Val, number: Val) -> None:
        """Order the warps at a barrier that opens: each is after all that any of them was after."""

        def body(x: Builder, args: list[Val]) -> None:
            slot, number = args
            p = x.load("ptr", 0, x.at(slot, SlotFields.OBSERVER))
            at = x.at(p, (number.zext("i64") << 2) + BlockState.ARRIVED)
            warps = x.load("i32", 0, at)
            x.store(x.integer("i32", 0), at)
            x.store(x.integer("i32", 0), x.at(at, BlockState.FIRST - BlockState.ARRIVED))
            clock = word(x, p, BlockState.LATEST) + 1
            if not self.publishes and not self.arrivals and not self.proxies:
                with x.when(warps.eq((1 << self.warps) - 1)):
                    self._know_all(x, p, clock)
                    x.ret()
            joined = x.array("i64", len(self._tables) * self.warps)
            self._join(x, p, warps, joined)
            early = self._early(x, p, number)
            self._each(x, joined, early, _larger)
            self._each(x, early, early, lambda old, new: x.integer("i64", 0))
            if self.proxies:
                early = self._early(x, p, number, self.slot.proxy_early)
                visible = x.at(joined, 8 * self.warps * (len(self._tables) - 1))
                self._each(x, visible, early, _larger)
                self._each(x, early, early, lambda old, new: x.integer("i64", 0))
            seen = x.alloca("i64")
            x.store(x.integer("i64", 0), seen)

            def acquired(w: Val) -> None:
                mine = self._seen(x, p, w)
                x.store(x.intrinsic("umax", [x.load("i64", 0, seen), mine]), seen)
                put(x, clock, x.at(joined, w.zext("i64") << 3))

            each_lane(x, warps, acquired)

            def share(w: Val) -> None:
                for i, start in enumerate(self._tables):
                    mine = self.vector(x, p, w, start)
                    self._each(x, mine, x.at(joined, 8 * self.warps * i), lambda old, new: new)
                row = self.row(x, p, w)
                put(x, x.load("i64", 0, seen), row, BlockState.ACQUIRED)
                put(x, clock << Record.CLOCK, row, BlockState.SHARED_TAG)
                self._refresh(x, p, w)

            each_lane(x, warps, share)

        b.helper("sanitizer_meet", [_P, _I32], None, body)(slot, number)

    def _know_all(self, x: Builder, p: Val, clock: Val) -> None:
        """Order all warps, which have met: each is after all accesses before this clock."""
        put(x, clock, p, BlockState.LATEST)
        start, base = word(x, p, BlockState.START), word(x, p, BlockState.BASE)
        late = (clock - start).uge(Record.CLOCKS - 1)
        near = x.umin(clock - start + 1, x.integer("i64", Record.CLOCKS)) << Record.CLOCK
        limit = x.select(late, x.integer("i64", -1), (clock - start + 1) << Record.CLOCK)
        shared = clock << Record.CLOCK
        with x.loop(self.warps) as w:
            row, who = self.row(x, p, w), w.zext("i64") << Record.WARP
            for field, value in (
                (BlockState.SHARED_LIMIT, shared),
                (BlockState.SHARED_TAG, shared | who),
                (BlockState.LIMIT, limit),
                (BlockState.TAG, near | who | base),
            ):
                put(x, value, row, field)
            x.store(x.splat(clock, self.warps), self.vector(x, p, w, self.slot.clocks), 8)

    @property
    def _tables(self) -> tuple[int, ...]:
        tables = [self.slot.clocks]
        tables += [self.slot.fences, self.slot.far] if self.publishes else []
        tables += [self.slot.proxy] if self.proxies else []
        return tuple(tables)

    def _each(self, x: Builder, target: Val, source: Val, rule: Rule) -> None:
        """target[u] = rule(target[u], source[u]) for each warp u."""
        with x.loop(self.warps) as u:
            k = u.zext("i64") << 3
            at = x.at(target, k)
            put(x, rule(word(x, at), word(x, x.at(source, k))), at)

    def _join(self, x: Builder, p: Val, warps: Val, out: Val) -> None:
        """Compute the maximum clocks of the warps in each table."""
        with x.loop(len(self._tables) * self.warps) as i:
            put(x, x.integer("i64", 0), x.at(out, i.zext("i64") << 3))

        def one(w: Val) -> None:
            for i, start in enumerate(self._tables):
                target = x.at(out, 8 * self.warps * i)
                self._each(x, target, self.vector(x, p, w, start), _larger)

        each_lane(x, warps, one)

    # ---- between blocks ---------------------------------------------------------------------
    def fence(self, b: Builder, p: Val, warp: Val, far: bool) -> None:
        """Record a fence: the warp's next atomic or volatile write releases its current clocks."""

        def body(x: Builder, args: list[Val]) -> None:
            p, w = args
            clock = self._part(x, p, w)
            mine = self.vector(x, p, w, self.slot.clocks)
            for start in (self.slot.fences, self.slot.far)[: 1 + far]:
                fenced = self.vector(x, p, w, start)
                self._each(x, fenced, mine, lambda old, new: new)
                put(x, clock, x.at(fenced, w.zext("i64") << 3))

        b.helper(f"sanitizer_fence_{int(far)}", [_P, _I32], None, body)(p, warp)

    def tick(self, b: Builder, p: Val, warp: Val) -> None:
        """Set the warp's later accesses apart from those before."""

        def body(x: Builder, args: list[Val]) -> None:
            self._part(x, *args)

        b.helper("sanitizer_tick", [_P, _I32], None, body)(p, warp)

    def clock(self, b: Builder, p: Val, warp: Val) -> Val:
        """The clock of a warp."""
        return word(b, self.row(b, p, warp), BlockState.SHARED_TAG) >> Record.CLOCK

    def proxy_fence(self, b: Builder, p: Val, warp: Val) -> None:
        """Record a fence of the asynchronous proxy: it sees all writes that the warp is after."""

        def body(x: Builder, args: list[Val]) -> None:
            p, w = args
            clock = self._part(x, p, w)
            visible = self.vector(x, p, w, self.slot.proxy)
            self._each(x, visible, self.vector(x, p, w, self.slot.clocks), _larger)
            put(x, clock, x.at(visible, w.zext("i64") << 3))

        b.helper("sanitizer_proxy_fence", [_P, _I32], None, body)(p, warp)

    def release(self, b: Builder, p: Val, warp: Val, clock: Val) -> None:
        """Release a warp's accesses before a clock to those that acquire next."""
        at = b.at(b.at(p, self.slot.shared), warp.zext("i64") << 3)
        put(b, _larger(word(b, at), clock), at)

    def synchronise(self, b: Builder, p: Val, warp: Val, writes: bool) -> None:
        """Synchronise at an atomic or volatile access: it acquires; a write releases, too."""

        def body(x: Builder, args: list[Val]) -> None:
            p, w = args
            released = x.at(p, self.slot.shared)
            if writes:
                self._publish(x, p, w)
                self._each(x, released, self.vector(x, p, w, self.slot.fences), _larger)
            if self.proxies:
                visible = self.vector(x, p, w, self.slot.proxy)
                seen = x.at(p, self.slot.proxy_shared)
                if writes:
                    self._each(x, seen, visible, _larger)
                self._each(x, visible, seen, _larger)
            put(x, x.integer("i64", -1), self.row(x, p, w), BlockState.ACQUIRED)
            self._each(x, self.vector(x, p, w, self.slot.clocks), released, _larger)
            self._refresh(x, p, w)

        name = f"sanitizer_{'exchange' if writes else 'acquire'}"
        b.helper(name, [_P, _I32], None, body)(p, warp)

    def release_all(self, b: Builder, slot: Val) -> None:
        """Release what the last fence of each warp has ordered: a barrier of the cluster opens."""

        def body(x: Builder, args: list[Val]) -> None:
            p = x.load("ptr", 0, x.at(args[0], SlotFields.OBSERVER))
            with x.loop(self.warps) as w:
                self._publish(x, p, w)
                fences = self.vector(x, p, w, self.slot.fences)
                self._each(x, x.at(p, self.slot.shared), fences, _larger)

        b.helper("sanitizer_release_all", [_P], None, body)(slot)

    def _seen(self, x: Builder, p: Val, w: Val) -> Val:
        """The time up to which the warp has acquired.

        The access itself comes after its own event, so the time is taken on first use.
        """
        at = x.at(self.row(x, p, w), BlockState.ACQUIRED)
        with x.when(word(x, at).eq(-1)):
            time = x.at(x.load("ptr", 0, x.at(p, BlockState.LAUNCH)), LaunchState.TIME)
            now = x.val("i64", 0, f"load atomic i64, {time.typed} seq_cst, align 8")
            put(x, now, at)
        return word(x, at)

    def _publish(self, x: Builder, p: Val, w: Val) -> None:
        launch = x.load("ptr", 0, x.at(p, BlockState.LAUNCH))
        time = x.at(launch, LaunchState.TIME)
        start = word(x, p, BlockState.START)
        table = x.load("ptr", 0, x.at(launch, LaunchState.PUBLISHED))
        block = word(x, p, BlockState.BLOCK) & Record.BLOCKS
        rows = x.at(table, block * (LaunchState.PUBLICATION * self.warps))
        fences = self.vector(x, p, w, self.slot.far)
        with x.loop(self.warps) as u:
            fenced = word(x, x.at(fences, u.zext("i64") << 3))
            with x.when(fenced.ne(0)):
                mine = x.at(rows, u.zext("i64") * LaunchState.PUBLICATION)
                clock = fenced - start + 1
                put(x, x.intrinsic("umax", [word(x, mine), clock]), mine)
                with x.when(word(x, mine, 8).eq(0)):
                    one = x.val("i64", 0, f"atomicrmw add {time.typed}, i64 1 seq_cst")
                    put(x, one + 1, mine, 8)

    def ordered(self, b: Builder, p: Val, warp: Val, record: Val, current: Val, space: str) -> Val:
        """True if the access of a record happened before the current one of the warp's lane."""

        def body(x: Builder, args: list[Val]) -> Val:
            p, w, record, current = args
            u = (record >> Record.WARP) & 31
            known = word(x, x.at(self.vector(x, p, w, self.slot.clocks), u << 3))
            if self.masks:
                me, lane = ((r >> Record.LANE) & 31 for r in (current, record))
                at = (u << 13) + (me << 8) + (lane << 3) + self.slot.lanes
                same = u.eq(w.zext("i64"))
                known = same.select(_larger(known, word(x, x.at(p, at))), known)
            if space == "shared":
                return (record >> Record.CLOCK).ult(known)
            clock = (record >> Record.CLOCK) & Record.CLOCKS
            here = (record >> Record.BLOCK).eq(word(x, p, BlockState.BASE) >> Record.BLOCK)
            near = clock.ult(known - word(x, p, BlockState.START) + 1)
            late = word(x, self.row(x, p, w), BlockState.LIMIT).eq(-1)
            return x.either(
                here, lambda: near | late, lambda: self._published(x, p, w, record, clock, u)
            )

        name = f"sanitizer_ordered_{space}"
        return b.helper(name, [_P, _I32, _I64, _I64], ("i1", 0), body)(p, warp, record, current)

    def _published(self, x: Builder, p: Val, w: Val, record: Val, clock: Val, u: Val) -> Val:
        """True if another block's warp has published it and this warp has acquired since."""
        if not self.publishes:
            return x.integer("i1", 0)
        launch = x.load("ptr", 0, x.at(p, BlockState.LAUNCH))
        table = x.load("ptr", 0, x.at(launch, LaunchState.PUBLISHED))
        block = ((record >> Record.BLOCK) - 1) & Record.BLOCKS
        mine = x.at(table, (block * self.warps + u) * LaunchState.PUBLICATION)
        since = word(x, mine, 8)
        seen = self._seen(x, p, w)
        return clock.ult(word(x, mine)) & since.ne(0) & since.ule(seen)
