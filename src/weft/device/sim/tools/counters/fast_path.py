"""The fast path of counting a load: its bytes are on one line of an allocation seen before.

It covers two cases: L1 holds the bytes, or L2 has seen them in this part of the launch. Then a few words change and no function is called. A call costs more than
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
    HeldBits,
    Launch,
    PerWorker,
    Place,
    Row,
)
from weft.device.sim.tools.counters.lines import LOAD, Held, bump
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
        sectors = self._sectors(inside)
        if self.span > 1:
            b = self.b
            lastp = b.at(self.row, Row.PLACE + 24)
            old = b.load("i64", 0, lastp)
            b.store(place, lastp)
            ahead = (place + (place - old)) >> LINE
            from weft.device.sim.tools.counters.layout import PerWorker as PW
            b.prefetch(b.at(b.load("ptr", 0, b.at(self.worker, PW.HELD)), ahead << 3))
        yes, no = b.integer("i1", 1), b.integer("i1", 0)

        def in_one_line() -> Val:
            entry = Held(b, self.worker, line)
            return b.either(entry.has(sectors), lambda: yes, partial(missed, entry))

        def missed(entry: Held) -> Val:
            known = b.either(
                entry.is_noted(sectors), lambda: yes, lambda: self._is_known(line, sectors)
            )
            return b.either(known, partial(brought_in, entry), lambda: no, likely=True)

        def brought_in(entry: Held) -> Val:
            entry.add(sectors)
            one = b.integer("i64", 1)
            missing = one if self.span == 1 else b.intrinsic("ctpop", [sectors & ~entry.sectors])
            bump(b, self.row, Row.MISSES, missing)
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

    def _sectors(self, inside: Val) -> Val:
        """Those of the bytes, if they are on one line."""
        b = self.b
        if self.span == LINE_BYTES:
            return b.integer("i32", HeldBits.SECTORS)
        first = (inside >> SECTOR).trunc("i32")
        if self.span == 1:
            return b.integer("i32", 1) << first
        last = ((inside + (self.span - 1)) >> SECTOR).trunc("i32")
        return (b.integer("i32", 2) << last) - (b.integer("i32", 1) << first)

    def _is_known(self, line: Val, sectors: Val) -> Val:
        """Would L2's word of the line stay as it is?"""
        b = self.b
        word = b.load("i64", 0, b.at(b.load("ptr", 0, b.at(self.launch, Launch.LINES)), line << 3))
        epoch = b.load("i64", 0, b.at(self.worker, PerWorker.EPOCH))
        read = sectors.zext("i64") & ~(word >> WRITTEN_AT)
        return ((epoch | read) & ~word).eq(0)
