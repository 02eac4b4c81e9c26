"""Fences and atomics: what a thread releases by one, another one acquires.

In a block, or a cluster whose blocks name each other, an edge is a fence, then an atomic or
volatile write by the releasing warp, and an atomic or volatile read by the acquiring one; all
places of memory count as one. Between blocks that share global memory only, such an edge publishes
what a warp has written; a warp that acquires at a later time is after it. So some races between
threads that synchronise by atomics are not seen.
"""

from __future__ import annotations

from weft.device.sim.layout import SlotFields
from weft.device.sim.tools.sanitizer.layout import BlockState, LaunchState, Record
from weft.device.sim.tools.sanitizer.order.vectors import I32, I64, P, Vectors
from weft.device.sim.tools.sanitizer.order.words import larger, put, word
from weft.ir import Builder, Val


class Publications(Vectors):
    """Releases and acquisitions by fences and atomics, and the order of two accesses."""

    def fence(self, b: Builder, p: Val, warp: Val, far: bool) -> None:
        """Record a fence: the warp's next atomic or volatile write releases its current clocks."""

        def body(x: Builder, args: list[Val]) -> None:
            p, w = args
            fenced = self.vector(x, p, w, self.slot.fences)
            self.snapshot(x, p, w, fenced)
            if far:
                self.note_far(x, p, w, fenced)

        b.helper(f"sanitizer_fence_{int(far)}", [P, I32], None, body)(p, warp)

    def note_far(self, x: Builder, p: Val, w: Val, fenced: Val) -> None:
        """Let the next publication of a warp be of this vector."""
        mine = self.vector(x, p, w, self.slot.far)
        self.each(x, p, mine, fenced, lambda old, new: new)

    def proxy_fence(self, b: Builder, p: Val, warp: Val) -> None:
        """Record a fence of the asynchronous proxy: it sees all writes that the warp is after."""

        def body(x: Builder, args: list[Val]) -> None:
            p, w = args
            clock = self.part(x, p, w)
            visible = self.vector(x, p, w, self.slot.proxy)
            self.join(x, p, visible, self.vector(x, p, w, self.slot.clocks))
            put(x, clock, x.at(visible, self.actor(x, p, w) << 3))

        b.helper("sanitizer_proxy_fence", [P, I32], None, body)(p, warp)

    def synchronise(self, b: Builder, p: Val, warp: Val, writes: bool) -> None:
        """Synchronise at an atomic or volatile access: it acquires; a write releases, too."""

        def body(x: Builder, args: list[Val]) -> None:
            p, w = args
            group = self.group(x, p)
            released = x.at(group, self.slot.shared)
            if writes:
                self.publish(x, p, w)
                self.join(x, p, released, self.vector(x, p, w, self.slot.fences))
            if self.proxies:
                visible = self.vector(x, p, w, self.slot.proxy)
                seen = x.at(group, self.slot.proxy_shared)
                if writes:
                    self.join(x, p, seen, visible)
                self.join(x, p, visible, seen)
            self.acquire(x, p, w, released)

        name = f"sanitizer_{'exchange' if writes else 'acquire'}"
        b.helper(name, [P, I32], None, body)(p, warp)

    def acquire(self, x: Builder, p: Val, w: Val, released: Val) -> None:
        """Let a warp be after what was released to this vector, and after all publications."""
        put(x, x.integer("i64", -1), self.row(x, p, w), BlockState.ACQUIRED)
        self.join(x, p, self.vector(x, p, w, self.slot.clocks), released)
        self.refresh(x, p, w)

    def release_all(self, b: Builder, slot: Val) -> None:
        """Release what the last fence of each warp has ordered: a barrier of the cluster opens."""

        def body(x: Builder, args: list[Val]) -> None:
            p = x.load("ptr", 0, x.at(args[0], SlotFields.OBSERVER))
            group = self.group(x, p)
            with x.loop(self.warps) as w:
                self.publish(x, p, w)
                fences = self.vector(x, p, w, self.slot.fences)
                self.join(x, p, x.at(group, self.slot.shared), fences)
                if self.proxies:
                    visible = self.vector(x, p, w, self.slot.proxy)
                    self.join(x, p, x.at(group, self.slot.proxy_shared), visible)

        b.helper("sanitizer_release_all", [P], None, body)(slot)

    # ---- between blocks ---------------------------------------------------------------------
    def seen(self, x: Builder, p: Val, w: Val) -> Val:
        """The time up to which the warp has acquired.

        The access itself comes after its own event, so the time is taken on first use.
        """
        at = x.at(self.row(x, p, w), BlockState.ACQUIRED)
        with x.when(word(x, at).eq(-1)):
            time = x.at(x.load("ptr", 0, x.at(p, BlockState.LAUNCH)), LaunchState.TIME)
            now = x.val("i64", 0, f"load atomic i64, {time.typed} seq_cst, align 8")
            put(x, now, at)
        return word(x, at)

    def publish(self, x: Builder, p: Val, w: Val) -> None:
        """Publish what the last far fence of a warp has ordered, of the warps of its block."""
        launch = x.load("ptr", 0, x.at(p, BlockState.LAUNCH))
        time = x.at(launch, LaunchState.TIME)
        start = word(x, p, BlockState.START)
        table = x.load("ptr", 0, x.at(launch, LaunchState.PUBLISHED))
        block = word(x, p, BlockState.BLOCK) & Record.BLOCKS
        rows = x.at(table, block * (LaunchState.PUBLICATION * self.warps))
        fences = self.vector(x, p, w, self.slot.far)
        with x.loop(self.warps) as u:
            fenced = word(x, x.at(fences, self.actor(x, p, u) << 3))
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
            mine = self.vector(x, p, w, self.slot.clocks)
            known = word(x, x.at(mine, self.actor(x, p, u.trunc("i32")) << 3))
            if self.masks:
                me, lane = ((r >> Record.LANE) & 31 for r in (current, record))
                at = (u << 13) + (me << 8) + (lane << 3) + self.slot.lanes
                same = u.eq(w.zext("i64"))
                known = same.select(larger(known, word(x, x.at(p, at))), known)
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
        return b.helper(name, [P, I32, I64, I64], ("i1", 0), body)(p, warp, record, current)

    def _published(self, x: Builder, p: Val, w: Val, record: Val, clock: Val, u: Val) -> Val:
        """True if another block's warp has published it and this warp has acquired since."""
        if not self.publishes:
            return x.integer("i1", 0)
        launch = x.load("ptr", 0, x.at(p, BlockState.LAUNCH))
        table = x.load("ptr", 0, x.at(launch, LaunchState.PUBLISHED))
        block = ((record >> Record.BLOCK) - 1) & Record.BLOCKS
        mine = x.at(table, (block * self.warps + u) * LaunchState.PUBLICATION)
        since = word(x, mine, 8)
        seen = self.seen(x, p, w)
        return clock.ult(word(x, mine)) & since.ne(0) & since.ule(seen)
