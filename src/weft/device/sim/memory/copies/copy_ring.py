"""A ring of writes that a warp has issued and that have not landed, in the warp's frame.

An entry is one instruction: its lanes, their targets, and the data. A late entry has sources
instead of data, and reads them when it lands. Entries land in the order of issue; a full ring lands
its oldest. The functions here are compiled out of line, once a kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from weft.device.sim.lane_sets import each_lane
from weft.ir import Builder, Val

_P, _I32 = ("ptr", 0), ("i32", 0)
SIZES = (16, 8, 4)
"""Bytes that a lane copies."""


class Ring:
    """The ring's header, and its entries: one per instruction that a warp has issued."""

    HEAD, TAIL, GROUP = 0, 4, 8
    """Oldest and next entry (they only grow), and the group that is being gathered."""
    HEADER = 64
    LANES, OF_GROUP, SIZE, LATE, TARGETS, DATA = 0, 4, 8, 12, 64, 64 + 8 * 32
    """LATE: the lanes whose data have not been read. A negative SIZE: one copy of the warp."""
    ENTRY = DATA + 16 * 32
    SOURCES = ENTRY
    """The addresses that late entries read, where entries can be late."""
    SMALLEST, LARGEST = 16, 64


class RingShape(NamedTuple):
    """The entries of a ring: their number, a power of two; the bytes that a lane may write; and
    whether they may read their sources when they land."""

    entries: int
    sizes: tuple[int, ...] = SIZES
    late: bool = False

    @property
    def entry_bytes(self) -> int:
        return Ring.ENTRY + 8 * 32 * self.late

    @property
    def nbytes(self) -> int:
        return Ring.HEADER + self.entries * self.entry_bytes

    @property
    def name(self) -> str:
        return str(self.entries) + "_small" * (1 in self.sizes) + "_late" * self.late


def begin(b: Builder, shape: RingShape) -> Callable[..., Val]:
    """(ring, lanes, size) -> a new entry, after the oldest has made room if it must."""

    def body(x: Builder, args: list[Val]) -> Val:
        ring, lanes, size = args
        head, tail = _field(x, ring, Ring.HEAD), _field(x, ring, Ring.TAIL)
        with x.when((tail - head).eq(shape.entries), rare=True):
            _land(x, shape, _entry(x, shape, ring, head), x.integer("i32", -1))
            x.store(head + 1, x.at(ring, Ring.HEAD))
        entry = _entry(x, shape, ring, tail)
        x.store(tail + 1, x.at(ring, Ring.TAIL))
        x.store(lanes, x.at(entry, Ring.LANES))
        x.store(_field(x, ring, Ring.GROUP), x.at(entry, Ring.OF_GROUP))
        x.store(size, x.at(entry, Ring.SIZE))
        if shape.late:
            x.store(x.integer("i32", 0), x.at(entry, Ring.LATE))
        return entry

    return b.helper(f"async_begin_{shape.name}", [_P, _I32, _I32], _P, body)


def land(b: Builder, shape: RingShape) -> Callable[..., Val]:
    """(ring, lanes, groups that may stay pending): lands the others and shortens the ring."""

    def body(x: Builder, args: list[Val]) -> None:
        ring, lanes, pending = args
        head, tail = _field(x, ring, Ring.HEAD), _field(x, ring, Ring.TAIL)
        # With -1 pending the limit is past the group that is being gathered: its copies land too.
        limit = _field(x, ring, Ring.GROUP) - pending
        first = x.alloca("i32")
        x.store(head, first)
        with x.loop(tail - head) as i:
            entry = _entry(x, shape, ring, head + i)
            # The sign of the difference decides, since group numbers may wrap.
            with x.when((_field(x, entry, Ring.OF_GROUP) - limit).slt(0)):
                _land(x, shape, entry, lanes)
            # The ring shrinks from its head only: an entry that has landed stays while lanes of an
            # older one still wait.
            oldest = x.load("i32", 0, first).eq(head + i)
            with x.when(oldest & _field(x, entry, Ring.LANES).eq(0)):
                x.store(head + i + 1, first)
        x.store(x.load("i32", 0, first), x.at(ring, Ring.HEAD))

    return b.helper(f"async_wait_{shape.name}", [_P, _I32, _I32], None, body)


def is_empty(b: Builder, ring: Val) -> Val:
    """True at run time if nothing is pending."""
    return _field(b, ring, Ring.HEAD).eq(_field(b, ring, Ring.TAIL))


def overlaps(b: Builder, shape: RingShape) -> Callable[..., Val]:
    """(ring, addresses, lanes, bytes) -> true if a lane accesses what it has not landed itself."""

    def body(x: Builder, args: list[Val]) -> Val:
        ring, table, lanes, nbytes = args
        head, tail = _field(x, ring, Ring.HEAD), _field(x, ring, Ring.TAIL)
        with x.loop(tail - head) as i:
            entry = _entry(x, shape, ring, head + i)
            size = _field(x, entry, Ring.SIZE).zext("i64")

            def one(lane: Val, entry: Val = entry, size: Val = size) -> None:
                at = lane.zext("i64") << 3
                target = x.load("i64", 0, x.at(x.at(entry, Ring.TARGETS), at), 8)
                place = x.load("i64", 0, x.at(table, at), 8)
                with x.when((place - target).ult(size) | (target - place).ult(nbytes)):
                    x.ret(x.integer("i1", 1))

            each_lane(x, lanes & _field(x, entry, Ring.LANES), one)
        return x.integer("i1", 0)

    kinds = [_P, _P, _I32, ("i64", 0)]
    return b.helper(f"async_overlaps_{shape.name}", kinds, ("i1", 0), body)


def _field(b: Builder, p: Val, at: int) -> Val:
    return b.load("i32", 0, b.at(p, at))


def _entry(b: Builder, shape: RingShape, ring: Val, number: Val) -> Val:
    first, i = b.at(ring, Ring.HEADER), number & (shape.entries - 1)
    return b.at(first, i.zext("i64") * shape.entry_bytes)


def _land(b: Builder, shape: RingShape, entry: Val, lanes: Val) -> None:
    """Write the data of some lanes to their targets."""

    def body(x: Builder, inner: list[Val]) -> None:
        entry, lanes = inner
        pending = _field(x, entry, Ring.LANES)
        x.store(pending & ~lanes, x.at(entry, Ring.LANES))
        if shape.late:
            _read_sources(x, shape, entry, pending & lanes)
        with x.when(_field(x, entry, Ring.SIZE).slt(0)):
            with x.when((pending & lanes).eq(-1)):
                _land_row(x, shape, entry)
                x.ret()
            _take_apart(x, shape, entry)
        size = _field(x, entry, Ring.SIZE)
        for nbytes in shape.sizes:
            with x.when(size.eq(nbytes)):
                with x.when((pending & lanes).eq(-1)):
                    with x.loop(32) as lane:
                        one(x, entry, nbytes, lane)
                    x.ret()
                each_lane(x, pending & lanes, partial(one, x, entry, nbytes))

    def one(x: Builder, entry: Val, nbytes: int, lane: Val) -> None:
        i = lane.zext("i64")
        target = x.load("ptr", 0, x.at(x.at(entry, Ring.TARGETS), i << 3), 8)
        data = x.load(f"i{8 * nbytes}", 0, x.at(x.at(entry, Ring.DATA), i << 4), 16)
        x.store(data, target, nbytes)

    kind = shape.name.removeprefix(str(shape.entries))
    b.helper(f"async_land{kind}", [_P, _I32], None, body)(entry, lanes)


def _read_sources(x: Builder, shape: RingShape, entry: Val, lanes: Val) -> None:
    """Read what late lanes have not read; a copy of the whole warp reads at once."""
    late = _field(x, entry, Ring.LATE)
    size = _field(x, entry, Ring.SIZE)
    rows = x.select(size.slt(0), x.integer("i32", -1), lanes)
    x.store(late & ~rows, x.at(entry, Ring.LATE))
    first = x.load("ptr", 0, x.at(entry, Ring.SOURCES), 8)
    with x.when((late & rows).ne(0)):
        for nbytes in shape.sizes:
            with x.when(size.eq(-nbytes)):
                data = x.load("i32", 8 * nbytes, first, nbytes)
                x.store(data, x.at(entry, Ring.DATA), 16)

            def one(lane: Val, nbytes: int = nbytes) -> None:
                i = lane.zext("i64")
                source = x.load("ptr", 0, x.at(x.at(entry, Ring.SOURCES), i << 3), 8)
                at = x.at(x.at(entry, Ring.DATA), i << 4)
                x.store(x.load(f"i{8 * nbytes}", 0, source, nbytes), at, 16)

            with x.when(size.eq(nbytes)):
                each_lane(x, late & lanes, one)


def _land_row(x: Builder, shape: RingShape, entry: Val) -> None:
    """Write the data of a copy that the whole warp made as one."""
    size = _field(x, entry, Ring.SIZE)
    target = x.load("ptr", 0, x.at(entry, Ring.TARGETS), 8)
    for nbytes in shape.sizes:
        with x.when(size.eq(-nbytes)):
            data = x.load("i32", 8 * nbytes, x.at(entry, Ring.DATA), 16)
            x.store(data, target, nbytes)


def _take_apart(x: Builder, shape: RingShape, entry: Val) -> None:
    """Split a copy of the whole warp into one per lane: they do not wait for it together.

    From the last lane down, since a lane's place is at or behind its data in the row.
    """
    size = _field(x, entry, Ring.SIZE)
    first = x.load("i64", 0, x.at(entry, Ring.TARGETS), 8)
    for nbytes in shape.sizes:
        with x.when(size.eq(-nbytes)), x.loop(x.integer("i32", 32)) as i:
            lane = (x.integer("i32", 31) - i).zext("i64")
            row, own = (x.at(x.at(entry, Ring.DATA), lane * n) for n in (nbytes, 16))
            x.store(x.load(f"i{8 * nbytes}", 0, row, nbytes), own, 16)
            x.store(first + lane * nbytes, x.at(x.at(entry, Ring.TARGETS), lane << 3), 8)
    x.store(x.integer("i32", 0) - size, x.at(entry, Ring.SIZE))
