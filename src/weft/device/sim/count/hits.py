"""Code beside a load for what mostly happens: its bytes are on one line of a known allocation.

L1 holds them, or has nothing of the line and L2 has seen it in this part of the launch. Then a few
words change, and no function is called: a call costs more than the counting, since the kernel's
vectors have to be put aside for it. All else is left to the functions of `lines`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from weft.device.sim.count.layout import (
    LINE,
    SECTOR,
    WAYS,
    WRITTEN_AT,
    Launch,
    PerWorker,
    Place,
    Row,
)
from weft.device.sim.count.lines import HASH, LOAD, bump
from weft.ir import Builder, Val

LINE_BYTES = 1 << LINE
HOST_LINE = 64
"""Bytes that a prefetch brings, at least."""


@dataclass(frozen=True)
class Beside:
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
        if way != LOAD or self.span > LINE_BYTES:
            otherwise()
            return
        b = self.b
        self._prefetch()
        known, place = self._place()
        inside, line = place & (LINE_BYTES - 1), place >> LINE
        first, last = inside >> SECTOR, (inside + (self.span - 1)) >> SECTOR
        sectors = (b.integer("i64", 2) << last) - (b.integer("i64", 1) << first)
        look, missed, fresh, rest, mine, end = (
            b.label(x) for x in ("look", "missed", "fresh", "rest", "mine", "counted")
        )
        b.branch(~(known & inside.ule(LINE_BYTES - self.span)), rest, look, rare=True)
        b.place(look)
        at, ways, tag = self._ways(line)
        nearest = ways[0] ^ tag  # below 16 if a way has the line: its sectors
        for way_tag in ways[1:]:
            nearest = b.umin(nearest, way_tag ^ tag)
        b.branch(((nearest & ~15) | (sectors & ~nearest)).eq(0), mine, missed)
        b.place(missed)
        b.branch(nearest.ult(16) | self._is_news(line, sectors), rest, fresh, rare=True)
        b.place(fresh)
        for i, way_tag in enumerate([tag | sectors, *ways[:-1]]):  # the oldest goes
            b.store(way_tag, b.at(at, 8 * i))
        bump(b, self.row, Row.MISSES, last - first + 1)
        b.jump(mine)
        b.place(mine)
        held(inside)
        b.jump(end)
        b.place(rest)
        otherwise()
        b.jump(end)
        b.place(end)

    def _prefetch(self) -> None:
        """The kernel is about to load this; counting takes as long as the bytes take to come."""
        for at in range(0, self.span, HOST_LINE):
            there = self.address + at if at else self.address
            self.b.prefetch(self.b.val("ptr", 0, f"inttoptr {there.tref} to ptr"))

    def _place(self) -> tuple[Val, Val]:
        """Whether the address is in the allocation that the row last saw, and its place if so."""
        b, window = self.b, self.b.at(self.row, Row.PLACE)
        low, nbytes, delta = (
            b.load("i64", 0, b.at(window, at)) for at in (Place.LOW, Place.NBYTES, Place.DELTA)
        )
        return self.sure & (self.address - low).ult(nbytes), self.address + delta

    def _ways(self, line: Val) -> tuple[Val, list[Val], Val]:
        """Where the tags are among which a line's would be, these tags, and its own."""
        b, worker = self.b, self.worker
        tags = b.load("ptr", 0, b.at(worker, PerWorker.TAGS))
        group = ((line * HASH) >> 40) & b.load("i64", 0, b.at(worker, PerWorker.TAG_MASK))
        at = b.at(tags, group * (8 * WAYS))
        tag = (line << 28) | b.load("i64", 0, b.at(worker, PerWorker.GENERATION))
        return at, [b.load("i64", 0, b.at(at, 8 * i)) for i in range(WAYS)], tag

    def _is_news(self, line: Val, sectors: Val) -> Val:
        """Whether L2's word of the line would change."""
        b = self.b
        word = b.load("i64", 0, b.at(b.load("ptr", 0, b.at(self.launch, Launch.LINES)), line << 3))
        epoch = b.load("i64", 0, b.at(self.worker, PerWorker.EPOCH))
        return ((epoch | (sectors & ~(word >> WRITTEN_AT))) & ~word).ne(0)
