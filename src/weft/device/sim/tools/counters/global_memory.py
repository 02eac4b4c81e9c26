"""Code that counts accesses to global memory: the method by which each of them is counted.

uniform     all lanes are at one place: L1 is looked up once
neighbours  lanes leave no gaps: the first byte's position in its line determines the rest
rows        rows of neighbours, or rows at one place each (`runs`)
any         lane by lane (`lanes`), and atomics
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from weft.device.sim.access import MemoryAccess
from weft.device.sim.address import Address
from weft.device.sim.layout import Space
from weft.device.sim.observe import Watched
from weft.device.sim.tools.counters.atomics import count_at_one_place, count_atomic
from weft.device.sim.tools.counters.fast_path import CountingFastPath, pass_line
from weft.device.sim.tools.counters.lanes import count_lanes
from weft.device.sim.tools.counters.layout import SECTOR_BYTES
from weft.device.sim.tools.counters.lines import (
    LOAD,
    STORE,
    count_one,
    count_place,
    count_range,
    count_request,
    note,
    route_of,
)
from weft.device.sim.tools.counters.load_groups import LoadGroup, groups_of
from weft.device.sim.tools.counters.rows import CounterRows
from weft.device.sim.tools.counters.runs import (
    RunRecord,
    are_kept,
    count_as,
    count_repeat,
    count_runs,
    inside,
    line_keys,
    repeats,
    shifted,
)
from weft.ir import Val
from weft.ptx.cfg import BasicBlock
from weft.ptx.isa import decode


class GlobalMemory:
    """Counts the accesses of a kernel to global memory."""

    def __init__(self, e: Watched, rows: CounterRows) -> None:
        self.e, self.rows = e, rows
        self._groups: dict[int, LoadGroup] = {}

    def block(self, block: BasicBlock) -> None:
        """A basic block is entered."""
        self._groups = groups_of(self.e.program, block)

    def _where(self, access: MemoryAccess) -> tuple[Val, Val, str]:
        """The memory of the launch and of the worker, and the route of the access."""
        route = route_of(self.e.ins, writes=access.writes)
        return self.rows.launch(), self.rows.counters(), route

    def row(self, access: MemoryAccess) -> Val:
        """A row for an access."""
        a, width = access.address, access.nbytes
        span, route = _span(a, width), route_of(self.e.ins, writes=access.writes)
        if span is None or access.changes:
            return self.rows.of(access, route=route, any_lanes=True)
        if a.uniform:
            return self.rows.of(access, route=route, one=True, whole=self.is_whole(access))
        places = 128 // min(width, SECTOR_BYTES)
        return self.rows.of(access, route=route, span=span, places=places, any_lanes=True)

    def is_whole(self, access: MemoryAccess) -> bool:
        """Return whether all lanes that enter the block make the access: the block counts it."""
        return (
            access.ins.guard is None
            and access.sizes is None
            and access.lanes is None
            and access.space == Space.GLOBAL
        )

    def count(self, access: MemoryAccess, row: Val, lanes: Val) -> None:
        """An access of some lanes, into its row."""
        e, b, a = self.e, self.e.b, access.address
        launch, counters, _ = self._where(access)
        if access.changes:
            if a.uniform:
                count_at_one_place(b)(launch, counters, row, a.first, lanes)
                return
            fn = count_atomic(b, access.nbytes, cas=decode(e.ins).operation == "cas")
            fn(launch, counters, row, e.memory.addresses(a), lanes)
            return
        span = _span(a, access.nbytes)
        if span is None:
            self._any_lanes(access, row, lanes)
        elif a.uniform:
            self._uniform(access, row, lanes)
        else:
            self._range(access, row, lanes, span)

    def _uniform(self, access: MemoryAccess, row: Val, lanes: Val) -> None:
        """All lanes at one place."""
        b, a = self.e.b, access.address
        launch, counters, route = self._where(access)
        assert a.first is not None
        whole = self.is_whole(access)
        fast = CountingFastPath(b, launch, counters, row, a.first, 1, b.integer("i1", 1))
        call = count_one(b, route, whole=whole)

        def alone() -> None:
            fast.count(
                route,
                lambda _: None if whole else count_request(b, row, lanes),
                lambda: drop(call(launch, counters, row, a.first, lanes)),
            )

        group = self._group(access)
        if group is not None and group.leader != access.ins.index:
            with b.when(group.stays(b) ^ 1):
                alone()
            return
        alone()
        if group is not None:
            group.look_up([fast])  # afterwards, since it may have brought the bytes in

    def _group(self, access: MemoryAccess) -> LoadGroup | None:
        """The group of loads with which an access is looked up."""
        return self._groups.get(access.ins.index) if self.is_whole(access) else None

    def _any_lanes(self, access: MemoryAccess, row: Val, lanes: Val) -> None:
        """Count lanes that are apart; rows of neighbours and rows at one place are special."""
        e, b, a, width = self.e, self.e.b, access.address, access.nbytes
        launch, counters, route = self._where(access)

        def general() -> None:
            count_lanes(b, route, width)(launch, counters, row, e.memory.addresses(a), lanes)

        apart = a.wide.row_step() if a.wide is not None else None
        if a.wide is None or apart not in (0, width):
            self._maybe_neighbours(access, row, lanes, general)
            return
        ends = a.wide.row_ends()
        reach = width + apart * (32 // len(ends) - 1)
        sure = lanes.eq(-1)
        for first, last in ends if apart else ():
            sure = sure & (last - first).eq(reach - width)  # no index has wrapped
        # A longer run is several, of a line each.
        starts = [first + at if at else first for first, _ in ends for at in range(0, reach, 128)]
        reach = min(reach, 128)

        memory = RunRecord.PLACES if apart else RunRecord.LINES
        memory = memory if apart == 0 or route in (LOAD, STORE) else RunRecord.NONE

        def by_runs() -> None:
            fn = count_runs(b, route, len(starts), width, memory)
            done = b.either(
                sure,
                lambda: fn(launch, counters, row, b.integer("i64", reach), *starts),
                lambda: b.integer("i1", 0),
                likely=True,
            )
            with b.when(done ^ 1, rare=True):
                general()

        match memory:
            case RunRecord.NONE:
                by_runs()
            case RunRecord.LINES:
                self._at_places(access, row, starts, sure, by_runs)
            case RunRecord.PLACES:
                same, lines = shifted(b, row, starts)
                b.either(sure & same, lambda: self._lines(access, row, lines), by_runs, likely=True)

    def _maybe_neighbours(
        self, access: MemoryAccess, row: Val, lanes: Val, general: Callable[[], None]
    ) -> None:
        """Count an unknown index: often the lanes are neighbours nevertheless."""
        b, w, width = self.e.b, access.address.wide, access.nbytes
        if w is None or not w.index.lanes or w.scale != width:
            general()
            return
        launch, counters, route = self._where(access)
        index = b.extract(w.index, 0)
        first, last = (w.extend(b.extract(w.index, i)) + w.base for i in (0, 31))
        in_a_row = b.same(w.index, b.splat(index, 32) + b.lanes("i32", range(32)))
        # No index has wrapped, and all lanes are in the allocation that the row last saw.
        sure = in_a_row & (last - first).eq(31 * width) & inside(b, row, [first, last])
        starts = [first + at if at else first for at in range(0, 32 * width, 128)]
        count = count_runs(b, route, len(starts), width, RunRecord.NONE)
        reach = b.integer("i64", min(32 * width, 128))
        done = b.either(
            lanes.eq(-1) & sure,
            lambda: count(launch, counters, row, reach, *starts),
            lambda: b.integer("i1", 0),
        )
        with b.when(done ^ 1):
            general()

    def _at_places(
        self,
        access: MemoryAccess,
        row: Val,
        starts: Sequence[Val],
        sure: Val,
        by_runs: Callable[[], None],
    ) -> None:
        """Count rows of lanes that are at one place each."""
        b = self.e.b
        launch, counters, route = self._where(access)

        def alone() -> None:
            again = sure & repeats(b, route, counters, row, starts)
            b.either(again, lambda: count_repeat(b, row), by_runs, likely=True)

        group = self._group(access)
        if group is not None and group.leader != access.ins.index:
            assert group.row is not None
            leader, there = group.row, sure & group.stays(b)
            keys = line_keys([s.line for s in group.spans])

            def otherwise() -> None:
                # On the lines of the first load it counts as much as that.
                alike = there & are_kept(b, leader, keys)
                b.either(alike, lambda: drop(count_as(b)(row, leader)), alone)

            again = there & are_kept(b, row, keys)
            b.either(again, lambda: count_repeat(b, row), otherwise, likely=True)
            return
        alone()
        if group is not None:
            group.look_up([CountingFastPath(b, launch, counters, row, x, 1, sure) for x in starts])

    def _lines(self, access: MemoryAccess, row: Val, lines: Sequence[tuple[Val, Val]]) -> None:
        """One more execution with the counters of the last one, on these lines."""
        b = self.e.b
        launch, counters, route = self._where(access)
        for line, sectors in lines:
            if route == STORE:
                note(b, route, launch, counters, line, sectors)
            else:
                count = b.intrinsic("ctpop", [sectors])
                pass_line(b, launch, counters, row, line, sectors, count)
        count_repeat(b, row)

    def _range(self, access: MemoryAccess, row: Val, lanes: Val, span: int) -> None:
        """Count neighbours in global memory."""
        e, b, a, width = self.e, self.e.b, access.address, access.nbytes
        launch, counters, route = self._where(access)
        assert a.first is not None and a.last is not None
        near = b.integer("i1", 1)
        if not e.executes_fully or access.sizes is not None or a.wide is not None:
            near = (a.last - a.first).eq(span - width) & lanes.eq(-1)  # an index may have wrapped

        def otherwise() -> None:
            of_range, general = count_range(b, route, span, width), count_lanes(b, route, width)
            b.either(
                near,
                lambda: drop(of_range(launch, counters, row, a.first)),
                lambda: drop(general(launch, counters, row, e.memory.addresses(a), lanes)),
            )

        fast = CountingFastPath(b, launch, counters, row, a.first, span, near)
        fast.count(route, lambda inside: count_place(b, row, inside, width), otherwise)


def _span(a: Address, width: int) -> int | None:
    """Bytes that all lanes touch together, where they leave no gaps."""
    if a.off is None:
        return None
    places = sorted(set(a.off))
    dense = all(y - x <= width for x, y in itertools.pairwise(places))
    return places[-1] + width if dense else None


def drop(result: Val) -> None:
    """Discard the unused result of a call."""
