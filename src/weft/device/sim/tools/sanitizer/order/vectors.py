"""The clocks of a block: a vector for each warp, and what follows from it for records.

A vector has a clock for each *actor*: each warp of the block, or of all blocks of its cluster where
a kernel names them. What a vector has for a warp of another block is 0 until the two synchronise.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.device.sim.lane_sets import each_lane, lanes_of
from weft.device.sim.layout import CLUSTER_SHIFT, ContextFields, SlotFields, WorkerFields
from weft.device.sim.memory.checks import cluster_size
from weft.device.sim.tools.sanitizer.layout import BlockState, Record
from weft.device.sim.tools.sanitizer.order.words import larger, put, word
from weft.ir import Builder, Val

P, I32, I64 = ("ptr", 0), ("i32", 0), ("i64", 0)
Rule = Callable[[Val, Val], Val]


class Vectors:
    """Code that keeps the vectors of a kernel with so many warps a block."""

    def __init__(
        self, warps: int, slot: BlockState, *, publishes: bool, masks: bool, arrivals: bool,
        proxies: bool = False,
    ) -> None:  # fmt: skip
        self.warps, self.slot, self.publishes, self.masks = warps, slot, publishes, masks
        self.arrivals, self.proxies = arrivals, proxies
        """True if warps arrive at barriers without waiting."""
        self.clustered = slot.ranks > 1

    # ---- places -----------------------------------------------------------------------------
    def row(self, b: Builder, p: Val, warp: Val) -> Val:
        """The row of a warp."""
        return b.at(p, warp.zext("i64") * BlockState.WARP + BlockState.WARPS)

    def vector(self, b: Builder, p: Val, warp: Val, start: int) -> Val:
        """The vector of a warp in the table that begins at `start`."""
        return b.at(p, warp.zext("i64") * self.slot.vector + start)

    def actor(self, b: Builder, p: Val, warp: Val) -> Val:
        """The index of a warp of this block in vectors."""
        index = warp.zext("i64")
        return index + word(b, p, BlockState.FIRST_ACTOR) if self.clustered else index

    def actors(self, b: Builder, p: Val) -> Val:
        """The number of clocks in a vector."""
        if not self.clustered:
            return b.integer("i32", self.warps)
        return word(b, p, BlockState.ACTORS).trunc("i32")

    def blocks(self, b: Builder, p: Val) -> Val:
        """The number of blocks of the cluster."""
        return b.binary("udiv", self.actors(b, p), b.integer("i32", self.warps))

    def rank(self, b: Builder, p: Val) -> Val:
        """The rank of the block in its cluster."""
        if not self.clustered:
            return b.integer("i64", 0)
        first = word(b, p, BlockState.FIRST_ACTOR)
        return b.binary("udiv", first, b.integer("i64", self.warps))

    def group(self, b: Builder, p: Val) -> Val:
        """The state of the block that has what a cluster shares: its first."""
        return b.load("ptr", 0, b.at(p, BlockState.CLUSTER)) if self.clustered else p

    def peer(self, b: Builder, p: Val, rank: Val) -> Val:
        """The state of a block of the cluster."""
        if not self.clustered:
            return p
        return b.load("ptr", 0, b.at(b.at(self.group(b, p), rank << 3), BlockState.PEERS))

    def rank_of(self, b: Builder, p: Val, address: Val) -> tuple[Val, Val]:
        """The block whose shared memory has an address, and the offset there; any for others."""
        rel = address - word(b, self.group(b, p), BlockState.SHARED)
        if not self.clustered:
            return b.integer("i64", 0), rel
        return rel >> CLUSTER_SHIFT, rel & ((1 << CLUSTER_SHIFT) - 1)

    def each(self, x: Builder, p: Val, target: Val, source: Val, rule: Rule) -> None:
        """target[u] = rule(target[u], source[u]) for each actor u."""
        with x.loop(self.actors(x, p)) as u:
            k = u.zext("i64") << 3
            at = x.at(target, k)
            put(x, rule(word(x, at), word(x, x.at(source, k))), at)

    def join(self, x: Builder, p: Val, target: Val, source: Val) -> None:
        """Add to a vector what another one is after."""
        self.each(x, p, target, source, larger)

    # ---- blocks -----------------------------------------------------------------------------
    def begin(self, b: Builder, context: Val, worker: Val, slot: Val) -> None:
        """Start a block: later than all that its slot has seen."""
        b.helper("sanitizer_begin", [P, P, P], None, self._begin)(context, worker, slot)

    def _begin(self, b: Builder, args: list[Val]) -> None:
        context, worker, slot = args
        p = b.load("ptr", 0, b.at(slot, SlotFields.OBSERVER))
        put(b, word(b, context, ContextFields.OBSERVER), p, BlockState.LAUNCH)
        put(b, word(b, worker, WorkerFields.OBSERVER), p, BlockState.WORKER)
        put(b, word(b, slot, SlotFields.SHARED), p, BlockState.SHARED)
        put(b, word(b, slot, SlotFields.SHARED_BYTES), p, BlockState.NBYTES)
        if self.clustered:
            self._begin_peer(b, context, slot, p)
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
        self._begin_vectors(b, p, start)
        with b.loop(self.warps) as w:
            row = self.row(b, p, w)
            put(b, b.integer("i64", 0), row, BlockState.ACQUIRED)
            put(b, start << Record.CLOCK, row, BlockState.SHARED_TAG)
            self.refresh(b, p, w)

    def _begin_vectors(self, b: Builder, p: Val, start: Val) -> None:
        """Let all warps of the block be after its start; nothing is fenced or released."""
        words, nothing = self.slot.vector // 8, b.integer("i64", 0)
        table = words * self.warps
        known = nothing if self.clustered else start
        tables = [(self.slot.clocks, table, known)]
        if self.publishes or self.arrivals:
            tables.append((self.slot.fences, 2 * table + 17 * words, nothing))
        if self.proxies:
            tables.append((self.slot.proxy, table, known))
            tables.append((self.slot.proxy_shared, 17 * words, nothing))
        for at, count, value in tables:
            with b.loop(count) as i:
                put(b, value, b.at(p, (i.zext("i64") << 3) + at))
        if self.slot.has_locks:
            with b.loop(BlockState.LOCKS) as i:
                put(b, nothing, b.at(p, i.zext("i64") * self.slot.lock + self.slot.locks))
        if self.clustered:
            for at in (self.slot.clocks, self.slot.proxy)[: 1 + self.proxies]:
                with b.loop(self.warps) as w, b.loop(self.warps) as u:
                    mine = self.vector(b, p, w, at)
                    put(b, start, b.at(mine, self.actor(b, p, u) << 3))

    def _begin_peer(self, b: Builder, context: Val, slot: Val, p: Val) -> None:
        """Make the state of a block known to its cluster; all of them start before any runs."""
        first = b.load("ptr", 0, b.at(slot, SlotFields.GROUP))
        group = word(b, first, SlotFields.OBSERVER)
        put(b, group, p, BlockState.CLUSTER)
        rank = b.load("i32", 0, b.at(slot, SlotFields.RANK)).zext("i64")
        own = b.val("i64", 0, f"ptrtoint {p.typed} to i64")
        shared = b.val("ptr", 0, f"inttoptr {group.typed} to ptr")
        put(b, own, b.at(shared, rank << 3), BlockState.PEERS)
        put(b, rank * self.warps, p, BlockState.FIRST_ACTOR)
        blocks = cluster_size(b, context).zext("i64")
        put(b, blocks * self.warps, p, BlockState.ACTORS)

    def refresh(self, b: Builder, p: Val, warp: Val) -> None:
        """Update a warp's record bits and limits after its clocks have changed."""

        def body(x: Builder, args: list[Val]) -> None:
            p, w = args
            mine = self.vector(x, p, w, self.slot.clocks)
            least = x.alloca("i64")
            x.store(x.integer("i64", -1), least)
            with x.loop(self.warps) as u:
                known = word(x, x.at(mine, self.actor(x, p, u) << 3))
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

        b.helper("sanitizer_refresh", [P, I32], None, body)(p, warp)

    # ---- a warp by itself -------------------------------------------------------------------
    def clock(self, b: Builder, p: Val, warp: Val) -> Val:
        """The clock of a warp."""
        return word(b, self.row(b, p, warp), BlockState.SHARED_TAG) >> Record.CLOCK

    def advance(self, b: Builder, p: Val, warp: Val) -> None:
        """Order all lanes of a warp, which have met: each is after all accesses of the others."""

        def body(x: Builder, args: list[Val]) -> None:
            p, w = args
            row = self.row(x, p, w)
            clock = self._tick(x, p, row)
            mine = self.vector(x, p, w, self.slot.clocks)
            put(x, clock, x.at(mine, self.actor(x, p, w) << 3))
            if self.warps == 1:
                self.refresh(x, p, w)
                return
            late = (clock - word(x, p, BlockState.START)).uge(Record.CLOCKS - 1)
            with x.when(late | word(x, row, BlockState.APART).ne(0), rare=True):
                put(x, x.integer("i64", 0), row, BlockState.APART)
                self.refresh(x, p, w)

        b.helper("sanitizer_advance", [P, I32], None, body)(p, warp)

    def _tick(self, x: Builder, p: Val, row: Val) -> Val:
        """Advance a warp's clock by itself: this does not order its lanes' accesses."""
        for tag in (BlockState.SHARED_TAG, BlockState.TAG):
            put(x, word(x, row, tag) + (1 << Record.CLOCK), row, tag)
        clock = word(x, row, BlockState.SHARED_TAG) >> Record.CLOCK
        put(x, x.intrinsic("umax", [word(x, p, BlockState.LATEST), clock]), p, BlockState.LATEST)
        return clock

    def part(self, x: Builder, p: Val, w: Val) -> Val:
        """Advance the clock of a warp whose lanes are not all ordered."""
        row = self.row(x, p, w)
        clock = self._tick(x, p, row)
        put(x, x.integer("i64", 1), row, BlockState.APART)
        with x.when((clock - word(x, p, BlockState.START)).uge(Record.CLOCKS - 1), rare=True):
            self.refresh(x, p, w)
        return clock

    def tick(self, b: Builder, p: Val, warp: Val) -> None:
        """Set the warp's later accesses apart from those before."""

        def body(x: Builder, args: list[Val]) -> None:
            self.part(x, *args)

        b.helper("sanitizer_tick", [P, I32], None, body)(p, warp)

    def snapshot(self, x: Builder, p: Val, w: Val, into: Val) -> None:
        """Copy what a warp is after, with all it has done so far; what it does next is later."""
        clock = self.part(x, p, w)
        self.each(x, p, into, self.vector(x, p, w, self.slot.clocks), lambda old, new: new)
        put(x, clock, x.at(into, self.actor(x, p, w) << 3))

    def meet_lanes(self, b: Builder, p: Val, warp: Val, lanes: Val) -> None:
        """Order some lanes of a warp, which have met: each is after all that any was after."""

        def body(x: Builder, args: list[Val]) -> None:
            p, w, lanes = args
            clock = self.part(x, p, w)
            table = x.at(p, w.zext("i64") * BlockState.LANES + self.slot.lanes)
            joined = x.alloca("i64", 32)
            x.store(x.zero("i64", 32), joined)

            def row(lane: Val) -> Val:
                return x.at(table, lane.zext("i64") << 8)

            def join(lane: Val) -> None:
                known = x.load("i64", 32, row(lane), 8)
                x.store(larger(x.load("i64", 32, joined), known), joined)

            each_lane(x, lanes, join)
            known = lanes_of(x, lanes).select(x.splat(clock, 32), x.load("i64", 32, joined))
            each_lane(x, lanes, lambda lane: x.store(known, row(lane), 8))

        b.helper("sanitizer_meet_lanes", [P, I32, I32], None, body)(p, warp, lanes)
