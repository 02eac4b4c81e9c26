"""mbarriers: an arrival releases, a wait that has passed acquires, each mbarrier by itself.

A block has a table of its mbarriers, by their addresses. An entry has two vectors: what arrivals of
the current phase have released, and what those of complete phases have. The tag of an entry is the
phase of the first one, as two bits of the mbarrier have it: when they differ, the phase is over.
The asynchronous proxy has two such vectors, too. A copy that reports to an mbarrier releases to
complete phases when one is over that it belongs to (`asynchronous.operations`).
"""

from __future__ import annotations

from collections.abc import Callable

from weft.device.sim.lane_sets import each_lane, lane_bits
from weft.device.sim.memory.mbarriers import PAIRS_AT, WORD
from weft.device.sim.tools.sanitizer.layout import BlockState, Lock
from weft.device.sim.tools.sanitizer.order.block_barriers import BlockBarriers
from weft.device.sim.tools.sanitizer.order.vectors import I32, I64, P
from weft.device.sim.tools.sanitizer.order.words import put, word
from weft.ir import Builder, Val

Landing = Callable[[Builder, Val, Val, Val, Val], None]
"""(builder, state of the owning block, entry, address, tag of the current phase)."""


class MbarrierClocks(BlockBarriers):
    """Releases and acquisitions by mbarriers."""

    # ---- entries ----------------------------------------------------------------------------
    def _at(self, x: Builder, p: Val, number: Val) -> Val:
        return x.at(p, number.zext("i64") * self.slot.lock + self.slot.locks)

    def _vector(self, x: Builder, entry: Val, number: int) -> Val:
        return x.at(entry, Lock.HEADER + number * self.slot.vector)

    @property
    def _pairs(self) -> tuple[tuple[int, int, int], ...]:
        """(table of the warps, vector of the current phase, vector of complete ones)."""
        pairs = ((self.slot.clocks, Lock.PENDING, Lock.COMPLETE),)
        proxies = ((self.slot.proxy, Lock.PROXY_PENDING, Lock.PROXY_COMPLETE),)
        return pairs + proxies if self.proxies else pairs

    def lock(self, b: Builder, p: Val, address: Val) -> Val:
        """The entry of an mbarrier in the table of its block `p`."""

        def body(x: Builder, args: list[Val]) -> Val:
            p, address = args
            home = (address >> 3).trunc("i32")
            with x.loop(BlockState.LOCKS) as i:
                entry = self._at(x, p, (home + i) & (BlockState.LOCKS - 1))
                with x.when(word(x, entry, Lock.KEY).eq(address)):
                    x.ret(entry)
                with x.when(word(x, entry, Lock.KEY).eq(0), rare=True):
                    put(x, address, entry, Lock.KEY)
                    self._clear(x, entry)
                    x.ret(entry)
            # The table is full: some mbarriers count as one.
            return self._at(x, p, home & (BlockState.LOCKS - 1))

        return b.helper("sanitizer_lock", [P, I64], P, body)(p, address)

    def _clear(self, x: Builder, entry: Val) -> None:
        with x.loop((self.slot.lock - Lock.TAG) // 8) as i:
            put(x, x.integer("i64", 0), x.at(entry, i.zext("i64") << 3), Lock.TAG)

    def _settle(self, x: Builder, p: Val, entry: Val, tag: Val) -> None:
        """Move what was released in a phase that is over."""
        with x.when(word(x, entry, Lock.TAG).ne(tag)):
            put(x, tag, entry, Lock.TAG)
            for _, pending, complete in self._pairs:
                source = self._vector(x, entry, pending)
                self.join(x, p, self._vector(x, entry, complete), source)
                self.each(x, p, source, source, lambda old, new: x.integer("i64", 0))

    def owner(self, x: Builder, p: Val, address: Val) -> tuple[Val, Val]:
        """The state of the block that has an mbarrier, and its phase's tag; else the code returns.

        The access itself reports a wrong address.
        """
        rank, offset = self.rank_of(x, p, address)
        inside = (offset + (WORD - 1)).ult(word(x, p, BlockState.NBYTES)) & (address & 7).eq(0)
        inside = inside & offset.ult(word(x, p, BlockState.NBYTES))
        if self.clustered:
            blocks = word(x, p, BlockState.ACTORS)
            inside = inside & (rank * self.warps).ult(blocks)
        with x.when(inside ^ 1, rare=True):
            x.ret()
        return self.peer(x, p, rank), self.tag(x, address)

    def tag(self, x: Builder, address: Val) -> Val:
        """The tag of the current phase of an mbarrier."""
        return word(x, x.val("ptr", 0, f"inttoptr {address.typed} to ptr")) >> PAIRS_AT

    # ---- events -----------------------------------------------------------------------------
    def release(self, b: Builder, p: Val, warp: Val, table: Val, lanes: Val, far: bool) -> None:
        """Lanes of a warp are about to arrive at the mbarriers of their addresses in `table`."""

        def body(x: Builder, args: list[Val]) -> None:
            p, w, address = args
            home, tag = self.owner(x, p, address)
            entry = self.lock(x, home, address)
            self._settle(x, p, entry, tag)
            mine = x.array("i64", self.slot.vector // 8)
            self.snapshot(x, p, w, mine)
            self.join(x, p, self._vector(x, entry, Lock.PENDING), mine)
            if self.proxies:
                visible = self.vector(x, p, w, self.slot.proxy)
                self.join(x, p, self._vector(x, entry, Lock.PROXY_PENDING), visible)
            if far:
                self.note_far(x, p, w, mine)
                self.publish(x, p, w)

        fn = b.helper(f"sanitizer_lock_release_{int(far)}", [P, I32, I64], None, body)
        self._each_address(b, table, lanes, lambda address: fn(p, warp, address))

    def passed(
        self, b: Builder, p: Val, warp: Val, table: Val, lanes: Val, landing: Landing | None
    ) -> None:
        """Waits of these lanes have passed; `landing` emits what becomes of copies."""

        def body(x: Builder, args: list[Val]) -> None:
            p, w, address = args
            home, tag = self.owner(x, p, address)
            entry = self.lock(x, home, address)
            self._settle(x, p, entry, tag)
            if landing is not None:
                landing(x, p, entry, address, tag)
            if self.proxies:
                visible = self.vector(x, p, w, self.slot.proxy)
                self.join(x, p, visible, self._vector(x, entry, Lock.PROXY_COMPLETE))
            self.acquire(x, p, w, self._vector(x, entry, Lock.COMPLETE))

        fn = b.helper("sanitizer_lock_passed", [P, I32, I64], None, body)
        self._each_address(b, table, lanes, lambda address: fn(p, warp, address))

    def renew(self, b: Builder, p: Val, table: Val, lanes: Val) -> None:
        """mbarriers are about to be initialised or invalidated: nothing was released to them."""

        def body(x: Builder, args: list[Val]) -> None:
            p, address = args
            home, _ = self.owner(x, p, address)
            self._clear(x, self.lock(x, home, address))

        fn = b.helper("sanitizer_lock_renew", [P, I64], None, body)
        self._each_address(b, table, lanes, lambda address: fn(p, address))

    def landed(self, x: Builder, p: Val, entry: Val, actor: Val, clock: Val) -> None:
        """Release a warp's accesses before a clock: a copy of it has completed a phase."""
        at = x.at(self._vector(x, entry, Lock.COMPLETE), actor << 3)
        put(x, x.umax(word(x, at), clock), at)

    def _each_address(
        self, b: Builder, table: Val, lanes: Val, one: Callable[[Val], object]
    ) -> None:
        """Emit `one(address)` once for lanes with the same address, which most have."""
        rest = b.alloca("i32")
        b.store(lanes, rest)

        def look(lane: Val) -> None:
            with b.when(((b.load("i32", 0, rest) >> lane) & 1).ne(0)):
                address = word(b, b.at(table, lane.zext("i64") << 3))
                same = b.load("i64", 32, table, 8).eq(b.splat(address, 32))
                bits = b.helper("mask_bits", [("i1", 32)], I32, lane_bits, attrs="#1")(same)
                b.store(b.load("i32", 0, rest) & ~bits, rest)
                one(address)

        each_lane(b, lanes, look)
