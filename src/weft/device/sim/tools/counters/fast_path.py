"""The fast path of counting a load: its bytes are on one line of an allocation seen before.

It covers two cases: L1 holds the bytes, or L1 has nothing of the line and L2 has seen the line in
this part of the launch. Then a few words change and no function is called. A call costs more than
the counting, since the kernel's vectors must be saved around it. Everything else takes the slow
path, the functions of `lines`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from weft.device.sim.tools.counters.layout import (
    LINE,
    SECTOR,
    WRITTEN_AT,
    Launch,
    PerWorker,
    Place,
    Row,
)
from weft.device.sim.tools.counters.lines import LOAD, Tags, bump
from weft.ir import Builder, Val

LINE_BYTES = 1 << LINE
HOST_LINE = 64
"""Bytes that a prefetch brings, at least."""


@dataclass(frozen=True)
class FastPath:
    """`span` bytes from `address` that an access touches if `sure`; `row` counts them."""

    b: Builder
    launch: Val
    worker: Val
    row: Val
    address: Val
    span: int
    sure: Val

    def count(self, way: str, held: Callable[[Val], None], otherwise: Callable[[], None]) -> None:
        """Either all but `held(place in its line)` is done here, or nothing but `otherwise`."""
        # Only loads look into L1, and a longer span is never on one line.
        if way != LOAD or self.span > LINE_BYTES:
            otherwise()
            return
        b = self.b
        self._prefetch()
        seen, place = self._place()
        inside, line = place & (LINE_BYTES - 1), place >> LINE
        first, last = inside >> SECTOR, (inside + (self.span - 1)) >> SECTOR
        sectors = (b.integer("i64", 2) << last) - (b.integer("i64", 1) << first)
        yes, no = b.integer("i1", 1), b.integer("i1", 0)

        def in_one_line() -> Val:
            tags = Tags(b, self.worker, line)
            # The line is there, and none of these sectors is missing.
            present = ((tags.nearest & ~15) | (sectors & ~tags.nearest)).eq(0)
            return b.either(present, lambda: yes, partial(missed, tags))

        def missed(tags: Tags) -> Val:
            # A line that L1 has in part must be widened, and L2's word is changed by an atomic.
            partly = tags.nearest.ult(16) | self._is_news(line, sectors)
            return b.either(partly, lambda: no, partial(brought_in, tags), rare=True)

        def brought_in(tags: Tags) -> Val:
            tags.push(sectors)
            bump(b, self.row, Row.MISSES, last - first + 1)
            return yes

        simple = seen & inside.ule(LINE_BYTES - self.span)
        counted = b.either(simple, in_one_line, lambda: no, likely=True)
        b.either(counted, lambda: held(inside), otherwise)

    def _prefetch(self) -> None:
        """The kernel is about to load this; counting takes as long as the bytes take to come."""
        for at in range(0, self.span, HOST_LINE):
            there = self.address + at if at else self.address
            self.b.prefetch(self.b.val("ptr", 0, f"inttoptr {there.typed} to ptr"))

    def _place(self) -> tuple[Val, Val]:
        """Whether the address is in the allocation that the row last saw, and its place if so."""
        b, window = self.b, self.b.at(self.row, Row.PLACE)
        low, nbytes, delta = (
            b.load("i64", 0, b.at(window, at)) for at in (Place.LOW, Place.NBYTES, Place.DELTA)
        )
        return self.sure & (self.address - low).ult(nbytes), self.address + delta

    def _is_news(self, line: Val, sectors: Val) -> Val:
        """Whether L2's word of the line would change."""
        b = self.b
        word = b.load("i64", 0, b.at(b.load("ptr", 0, b.at(self.launch, Launch.LINES)), line << 3))
        epoch = b.load("i64", 0, b.at(self.worker, PerWorker.EPOCH))
        return ((epoch | (sectors & ~(word >> WRITTEN_AT))) & ~word).ne(0)
