"""The fast path of counting an access: its bytes are on one line of an allocation seen before.

Then a few words change and no function is called. A call costs more than the counting, since the
kernel's vectors must be saved around it. Everything else takes the slow path, the functions of
`lines`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from weft.device.sim.tools.counters.layout import (
    LINE,
    SECTOR,
    CachedLineBits,
    CounterRow,
    LaunchFields,
    PerWorker,
    PlacedAllocation,
)
from weft.device.sim.tools.counters.lines import LOAD, STORE, CachedLine, bump, note
from weft.ir import Builder, Val

LINE_BYTES = 1 << LINE


def pass_line(
    b: Builder, launch: Val, worker: Val, row: Val, line: Val, sectors: Val, count: Val, *,
    one: bool = False,
) -> None:  # fmt: skip
    """Load a number of sectors of a line, or `one`, through L1; a row counts its misses."""
    entry = CachedLine(b, worker, line)

    def missed() -> None:
        gone = entry.is_noted(sectors) & (entry.stays ^ 1)
        b.either(gone, returned, brought_in)

    def returned() -> None:
        entry.bring_back(sectors)
        bump(b, row, CounterRow.MISSES, count)

    def brought_in() -> None:
        missing = sectors & ~entry.sectors
        entry.add(sectors)
        bump(b, row, CounterRow.MISSES, count if one else b.intrinsic("ctpop", [missing]))
        note(b, LOAD, launch, worker, line, missing)

    with b.when(entry.has(sectors) ^ 1):
        missed()


@dataclass(frozen=True)
class Span:
    """A range of bytes: whether all are in L1, on one line.

    line      that line
    count_at  the counter of lines that enter its set; `stamp` is its value when this one did
    """

    cached: Val
    line: Val
    count_at: Val
    stamp: Val


@dataclass(frozen=True)
class CountingFastPath:
    """`span` bytes from `address` that an access touches if `sure`; `row` counts them."""

    b: Builder
    launch: Val
    worker: Val
    row: Val
    address: Val
    span: int
    sure: Val

    def count(
        self, route: str, cached: Callable[[Val], None], otherwise: Callable[[], None]
    ) -> None:
        """Emit the fast path, which calls `cached(position in its line)`, and else `otherwise`."""
        # A longer span is never on one line.
        if route not in (LOAD, STORE) or self.span > LINE_BYTES:
            otherwise()
            return
        b = self.b
        seen, place = self._place()
        inside, line = place & (LINE_BYTES - 1), place >> LINE
        sectors = self._sectors(inside)
        yes, no = b.integer("i1", 1), b.integer("i1", 0)
        # Stores do not look into L1.
        table = (
            b.at(self.worker, PerWorker.CACHED)
            if route == LOAD
            else b.at(self.launch, LaunchFields.LINES)
        )
        if self.span > 1:
            self._prefetch(place, table)

        def stored() -> Val:
            note(b, STORE, self.launch, self.worker, line, sectors)
            return yes

        def in_one_line() -> Val:
            one = self.span == 1
            count = self._count(inside)
            pass_line(b, self.launch, self.worker, self.row, line, sectors, count, one=one)
            return yes

        simple = seen & inside.ule(LINE_BYTES - self.span)
        way_through = in_one_line if route == LOAD else stored
        counted = b.either(simple, way_through, lambda: no, likely=True)
        b.either(counted, lambda: cached(inside), otherwise)

    def whole_range(self, low: int, high: int) -> Span:
        """The bytes from `low` to `high`, relative to the address."""
        b, start = self.b, self.address + low
        seen, place = CountingFastPath(
            b, self.launch, self.worker, self.row, start, high - low, self.sure
        )._place()
        end = CountingFastPath(
            b, self.launch, self.worker, self.row, start + (high - low - 1), 1, seen
        )
        inside = place & (LINE_BYTES - 1)
        span = CountingFastPath(
            b, self.launch, self.worker, self.row, start, max(2, high - low), seen
        )

        line = place >> LINE

        def looked_up() -> list[Val]:
            entry = CachedLine(b, self.worker, line)
            return [entry.has(span._sectors(inside)), entry.lines, entry.stamp]

        def unknown() -> list[Val]:
            return [b.integer("i1", 0), self.worker, b.integer("i32", 0)]

        simple = end._place()[0] & inside.ule(LINE_BYTES - (high - low))
        cached, count_at, stamp = b.either(simple, looked_up, unknown, likely=True)
        return Span(cached, line, count_at, stamp)

    def _prefetch(self, place: Val, table: Val) -> None:
        """Prefetch the state of the next line, if the access advances as it did last time."""
        b, last = self.b, self.b.at(self.row, CounterRow.LAST)
        step = place - b.load("i64", 0, last)
        b.store(place, last)
        b.prefetch(b.at(b.load("ptr", 0, table), ((place + step) >> LINE) << 3))

    def _place(self) -> tuple[Val, Val]:
        """(true if the address is in the row's last allocation, its virtual address if so)."""
        b, window = self.b, self.b.at(self.row, CounterRow.PLACE)
        low, nbytes, delta = (
            b.load("i64", 0, b.at(window, at))
            for at in (PlacedAllocation.LOW, PlacedAllocation.NBYTES, PlacedAllocation.DELTA)
        )
        return self.sure & (self.address - low).ult(nbytes), self.address + delta

    def _count(self, inside: Val) -> Val:
        """The number of these sectors."""
        if self.span in (1, LINE_BYTES):
            return self.b.integer("i64", -(-self.span >> SECTOR))
        return ((inside + (self.span - 1)) >> SECTOR) - (inside >> SECTOR) + 1

    def _sectors(self, inside: Val) -> Val:
        """The sectors of the bytes, if they are on one line."""
        b = self.b
        if self.span == LINE_BYTES:
            return b.integer("i32", CachedLineBits.SECTORS)
        first = (inside >> SECTOR).trunc("i32")
        if self.span == 1:
            return b.integer("i32", 1) << first
        last = ((inside + (self.span - 1)) >> SECTOR).trunc("i32")
        return (b.integer("i32", 2) << last) - (b.integer("i32", 1) << first)
