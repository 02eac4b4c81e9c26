"""Asynchronous operations of each warp: which of them have been waited for, and when.

Operations are numbered in four streams. A stream has a ring with the last of them: the number, a
key (the group, or the mbarrier that the operation reports to, with the tag of its phase then), the
warp's clock at its issue, and the clock at which it was known to be complete, or 0.
"""

from __future__ import annotations

from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import CLUSTER_SHIFT
from weft.device.sim.tools.sanitizer.clocks import Clocks
from weft.device.sim.tools.sanitizer.layout import BlockState, Lock, Ring
from weft.device.sim.tools.sanitizer.order.words import put, word
from weft.ir import Builder, Val

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)


class Stream:
    """The streams. A record of shared memory has its stream in the bits of `Record.BYTES`."""

    PRODUCTS, STORES, LOADS, COPIES = 1, 2, 3, 4
    """Groups of wgmma, groups of bulk copies from shared memory, bulk copies that report to an
    mbarrier, and groups of cp.async."""


class AsyncOperations:
    """Code that keeps the rings of a kernel."""

    def __init__(self, clocks: Clocks, layout: BlockState) -> None:
        self.clocks, self.layout = clocks, layout

    def _ring(self, x: Builder, p: Val, warp: Val, stream: int) -> Val:
        at = warp.zext("i64") * BlockState.RINGS + self.layout.rings
        return x.at(p, at + (stream - 1) * Ring.SIZE)

    def _entry(self, x: Builder, ring: Val, number: Val) -> Val:
        return x.at(x.at(ring, Ring.HEADER), (number & (Ring.ROOM - 1)) * Ring.ENTRY)

    def started(self, b: Builder, p: Val) -> None:
        """Complete what the slot's earlier block has left; numbers go on."""

        def body(x: Builder, args: list[Val]) -> None:
            p = args[0]
            with x.loop(self.clocks.warps) as w:
                for stream in range(1, BlockState.STREAMS + 1):
                    ring = self._ring(x, p, w, stream)
                    put(x, x.integer("i64", 0), ring, Ring.GROUPS)
                    with x.loop(Ring.ROOM) as i:
                        entry = self._entry(x, ring, i.zext("i64"))
                        put(x, x.integer("i64", 0), entry, Ring.KEY)
                        put(x, x.integer("i64", 1), entry, Ring.DONE)

        b.helper("sanitizer_rings", [_P], None, body)(p)

    def group(self, b: Builder, p: Val, warp: Val, stream: int) -> Val:
        """The number of the operation that is the present group of the warp."""

        def body(x: Builder, args: list[Val]) -> Val:
            p, w = args
            ring = self._ring(x, p, w, stream)
            key = word(x, ring, Ring.GROUPS) + 1
            last = self._entry(x, ring, word(x, ring, Ring.LAST))
            with x.when(word(x, last, Ring.KEY).ne(key) | word(x, last, Ring.DONE).ne(0)):
                self._add(x, p, w, ring, key)
            return word(x, ring, Ring.LAST)

        return b.helper(f"sanitizer_group_{stream}", [_P, _I32], _I64, body)(p, warp)

    def _add(self, x: Builder, p: Val, w: Val, ring: Val, key: Val) -> None:
        number = word(x, ring, Ring.LAST) + 1
        put(x, number, ring, Ring.LAST)
        entry = self._entry(x, ring, number)
        fields = {
            Ring.NUMBER: number,
            Ring.KEY: key,
            Ring.ISSUED: self.clocks.clock(x, p, w),
            Ring.DONE: x.integer("i64", 0),
        }
        for at, value in fields.items():
            put(x, value, entry, at)

    def load(self, b: Builder, p: Val, warp: Val, lane: Val, copy: Val) -> Val:
        """The number of a new copy of a lane, whose mbarrier follows.

        copy  0, or the rank of the block that a multicast goes to, plus 1
        """

        def body(x: Builder, args: list[Val]) -> Val:
            p, w, lane, copy = args
            ring = self._ring(x, p, w, Stream.LOADS)
            # No address: keys of copies are negative until their mbarriers are known.
            self._add(x, p, w, ring, 0 - (lane.zext("i64") + (copy << 5) + 1))
            return word(x, ring, Ring.LAST)

        kinds = [_P, _I32, _I32, _I64]
        return b.helper("sanitizer_load", kinds, _I64, body)(p, warp, lane, copy)

    def reports_to(self, b: Builder, p: Val, warp: Val, lane: Val, barrier: Val) -> None:
        """Set the mbarrier of a lane's last copies; later accesses of the warp are after them."""

        def body(x: Builder, args: list[Val]) -> None:
            p, w, lane, barrier = args
            ring = self._ring(x, p, w, Stream.LOADS)
            with x.loop(Ring.ROOM) as i:
                entry = self._entry(x, ring, i.zext("i64"))
                given = -1 - word(x, entry, Ring.KEY)
                with x.when(given.sge(0) & (given & 31).eq(lane.zext("i64"))):
                    self._report(x, p, w, entry, barrier, given >> 5)
            self.clocks.tick(x, p, w)

        kinds = [_P, _I32, _I32, _I64]
        b.helper("sanitizer_reports", kinds, None, body)(p, warp, lane, barrier)

    def _report(self, b: Builder, p: Val, warp: Val, entry: Val, barrier: Val, copy: Val) -> None:
        """Set the mbarrier of one copy: in a multicast, that of the block it goes to."""

        def body(x: Builder, args: list[Val]) -> None:
            p, w, entry, barrier, copy = args
            put(x, x.integer("i64", 0), entry, Ring.KEY)
            own, rank = x.integer("i64", 0), x.integer("i64", 0)
            if self.clocks.clustered:
                own = self.clocks.rank(x, p)
                rank = copy.eq(0).select(own, copy - 1)
            address = barrier + ((rank - own) << CLUSTER_SHIFT)
            home, tag = self.clocks.owner(x, p, address)
            put(x, address | tag, entry, Ring.KEY)
            issuers = x.at(self.clocks.lock(x, home, address), (own << 2) + Lock.ISSUERS)
            x.store(x.load("i32", 0, issuers) | (x.integer("i32", 1) << w), issuers)

        kinds = [_P, _I32, _P, _I64, _I64]
        b.helper("sanitizer_report_to", kinds, None, body)(p, warp, entry, barrier, copy)

    def commit(self, b: Builder, p: Val, warp: Val, stream: int) -> None:
        """Close the present group."""
        ring = self._ring(b, p, warp, stream)
        put(b, word(b, ring, Ring.GROUPS) + 1, ring, Ring.GROUPS)

    def wait(self, b: Builder, p: Val, warp: Val, stream: int, pending: int) -> None:
        """Complete all but the last `pending` groups; with -1 also the one that is not closed."""

        def body(x: Builder, args: list[Val]) -> None:
            p, w, pending = args
            ring, now = self._ring(x, p, w, stream), self.clocks.clock(x, p, w)
            limit = word(x, ring, Ring.GROUPS) - pending
            with x.loop(Ring.ROOM) as i:
                entry = self._entry(x, ring, i.zext("i64"))
                covered = word(x, entry, Ring.KEY).sle(limit)
                with x.when(covered & word(x, entry, Ring.DONE).eq(0)):
                    put(x, now, entry, Ring.DONE)

        fn = b.helper(f"sanitizer_wait_{stream}", [_P, _I32, _I64], None, body)
        fn(p, warp, b.integer("i64", pending))

    def landed(self, x: Builder, p: Val, lock: Val, address: Val, tag: Val) -> None:
        """Complete the copies that report to an mbarrier, of all phases before the one of `tag`."""
        clocks = self.clocks
        with x.loop(clocks.blocks(x, p)) as rank:
            peer = clocks.peer(x, p, rank.zext("i64"))
            issuers = x.at(lock, (rank.zext("i64") << 2) + Lock.ISSUERS)

            def of_warp(w: Val) -> None:
                ring = self._ring(x, peer, w, Stream.LOADS)
                with x.loop(Ring.ROOM) as i:
                    entry = self._entry(x, ring, i.zext("i64"))
                    of = word(x, entry, Ring.KEY) ^ address  # a tag, if it is this mbarrier
                    over = of.ult(8) & of.ne(tag) & word(x, entry, Ring.DONE).eq(0)
                    with x.when(over):
                        issued = word(x, entry, Ring.ISSUED)
                        put(x, issued, entry, Ring.DONE)
                        actor = rank.zext("i64") * clocks.warps + w.zext("i64")
                        clocks.landed(x, p, lock, actor, issued + 1)

            each_lane(x, x.load("i32", 0, issuers), of_warp)

    def completed(self, x: Builder, p: Val, stream: int, warp: Val, number: Val) -> Val:
        """The clock at which an operation was complete; 0: it was not; 1 if it is forgotten."""
        entry = self._entry(x, self._ring(x, p, warp, stream), number)
        held = word(x, entry, Ring.NUMBER)
        done = held.eq(number).select(word(x, entry, Ring.DONE), x.integer("i64", 0))
        return held.ugt(number).select(x.integer("i64", 1), done)
