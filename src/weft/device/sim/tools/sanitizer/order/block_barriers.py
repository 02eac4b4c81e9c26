"""Barriers of a block: the warps that meet are after all that any of them was after."""

from __future__ import annotations

from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import SlotFields
from weft.device.sim.tools.sanitizer.layout import BlockState, Record
from weft.device.sim.tools.sanitizer.order.publications import Publications
from weft.device.sim.tools.sanitizer.order.vectors import I32, P
from weft.device.sim.tools.sanitizer.order.words import larger, put, word
from weft.ir import Builder, Val


class BlockBarriers(Publications):
    """Arrivals and meetings at the numbered barriers."""

    def arrive(self, b: Builder, p: Val, warp: Val, number: Val) -> None:
        """Record an arrival at a barrier without a wait: the warp's later accesses come after
        it.
        """

        def body(x: Builder, args: list[Val]) -> None:
            p, w, number = args
            self.advance(x, p, w)
            early = self._early(x, p, number, self.slot.early)
            self.join(x, p, early, self.vector(x, p, w, self.slot.clocks))
            if self.proxies:
                visible = self.vector(x, p, w, self.slot.proxy)
                self.join(x, p, self._early(x, p, number, self.slot.proxy_early), visible)

        b.helper("sanitizer_arrive", [P, I32, I32], None, body)(p, warp, number)

    def _early(self, x: Builder, p: Val, number: Val, start: int) -> Val:
        return x.at(p, number.zext("i64") * self.slot.vector + start)

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
            self._meet(x, p, warps, number, clock)

        b.helper("sanitizer_meet", [P, I32], None, body)(slot, number)

    def _meet(self, x: Builder, p: Val, warps: Val, number: Val, clock: Val) -> None:
        joined = x.array("i64", len(self._tables) * self.slot.vector // 8)
        self._join_tables(x, p, warps, joined)
        early = [(self.slot.early, 0)]
        early += [(self.slot.proxy_early, len(self._tables) - 1)] if self.proxies else []
        for start, table in early:
            arrived = self._early(x, p, number, start)
            self.join(x, p, x.at(joined, self.slot.vector * table), arrived)
            self.each(x, p, arrived, arrived, lambda old, new: x.integer("i64", 0))
        seen = x.alloca("i64")
        x.store(x.integer("i64", 0), seen)

        def acquired(w: Val) -> None:
            mine = self.seen(x, p, w)
            x.store(x.intrinsic("umax", [x.load("i64", 0, seen), mine]), seen)
            put(x, clock, x.at(joined, self.actor(x, p, w) << 3))

        each_lane(x, warps, acquired)

        def share(w: Val) -> None:
            for i, start in enumerate(self._tables):
                mine = self.vector(x, p, w, start)
                theirs = x.at(joined, self.slot.vector * i)
                self.each(x, p, mine, theirs, lambda old, new: new)
            row = self.row(x, p, w)
            put(x, x.load("i64", 0, seen), row, BlockState.ACQUIRED)
            put(x, clock << Record.CLOCK, row, BlockState.SHARED_TAG)
            self.refresh(x, p, w)

        each_lane(x, warps, share)

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

    def _join_tables(self, x: Builder, p: Val, warps: Val, out: Val) -> None:
        """Compute the maximum clocks of the warps in each table."""
        with x.loop(len(self._tables) * self.slot.vector // 8) as i:
            put(x, x.integer("i64", 0), x.at(out, i.zext("i64") << 3))

        def one(w: Val) -> None:
            for i, start in enumerate(self._tables):
                mine = self.vector(x, p, w, start)
                self.each(x, p, x.at(out, self.slot.vector * i), mine, larger)

        each_lane(x, warps, one)
