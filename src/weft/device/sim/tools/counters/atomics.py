"""Code that counts the cost of global atomics: equal addresses do not merge.

Lanes go in waves. In each, every tag group serves the line of its first pending lane, and of
lanes with the same place in a line only the first one.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.device.sim.lane_sets import each_lane
from weft.device.sim.tools.counters.layout import LINE, SECTOR, CounterRow
from weft.device.sim.tools.counters.lines import (
    CHANGE,
    I32,
    I64,
    NOWHERE,
    P,
    bump,
    look_up,
    pretended,
    tag_group,
)
from weft.ir import Builder, Val

HALF_LINE = 6
"""log2 of the bytes that a compare-and-swap looks up."""


def count_at_one_place(b: Builder) -> Callable[..., Val]:
    """(launch, worker, row, address, lanes): all lanes name one address, and are served in turn."""

    def body(x: Builder, args: list[Val]) -> None:
        launch, worker, row, address, lanes = args
        p = pretended(x, launch, row, address)
        with x.when(p.ne(NOWHERE)):
            threads = x.intrinsic("ctpop", [lanes])
            bit = x.integer("i32", 1) << ((p >> SECTOR) & 3).trunc("i32")
            # L2 changes the place: L1 is not looked into.
            look_up(x, CHANGE, launch, worker, p >> LINE, bit)
            bump(x, row, CounterRow.REQUESTS, x.integer("i64", 1))
            bump(x, row, CounterRow.IDEAL, x.integer("i64", 1))
            # Equal addresses do not merge, so each lane costs as much as the first.
            for at in (
                CounterRow.THREADS,
                CounterRow.SECTORS,
                CounterRow.TAGS,
                CounterRow.WAVEFRONTS,
                CounterRow.MISSES,
            ):
                bump(x, row, at, threads)

    return b.helper("count_atomic_one", [P, P, P, I64, I32], None, body)


def count_atomic(b: Builder, width: int, *, cas: bool) -> Callable[..., Val]:
    """(launch, worker, row, addresses, lanes): any addresses; some lane must run."""
    name = f"count_atomic_{width}{'_cas' if cas else ''}"
    return b.helper(name, [P, P, P, P, I32], None, lambda x, args: _atomic(x, args, width, cas))


def _atomic(b: Builder, args: list[Val], width: int, cas: bool) -> None:
    launch, worker, row, table, lanes = args
    places, groups = b.array("i64", 32), b.array("i32", 32)
    good, pending = b.alloca("i32"), b.alloca("i32")
    b.store(b.integer("i32", 0), good)

    def place(lane: Val) -> None:
        k = lane.zext("i64")
        p = pretended(b, launch, row, b.load("i64", 0, b.at(table, k << 3), 8))
        with b.when(p.ne(NOWHERE)):
            b.store(p, b.at(places, k << 3))
            b.store(tag_group(b, p >> LINE).trunc("i32"), b.at(groups, k << 2))
            b.store(b.load("i32", 0, good) | (b.integer("i32", 1) << lane), good)
            bit = b.integer("i32", 1) << ((p >> SECTOR) & 3).trunc("i32")
            look_up(b, CHANGE, launch, worker, p >> LINE, bit)

    each_lane(b, lanes, place)
    b.store(b.load("i32", 0, good), pending)
    wave = b.helper(
        f"count_atomic_wave_{width}{'_cas' if cas else ''}",
        [P, P, P, I32],
        I32,
        lambda x, given: _wave(x, given, width, HALF_LINE if cas else LINE),
    )
    # A wave serves at least its first pending lane, so 32 waves are enough.
    with b.loop(32), b.when(b.load("i32", 0, pending).ne(0)):
        now = b.load("i32", 0, pending)
        b.store(now & ~wave(row, places, groups, now), pending)
    threads = b.intrinsic("ctpop", [b.load("i32", 0, good)])
    with b.when(threads.ne(0)):
        bump(b, row, CounterRow.REQUESTS, b.integer("i64", 1))
        bump(b, row, CounterRow.THREADS, threads)
        bump(b, row, CounterRow.IDEAL, (threads * width + 31) >> 5)


def _wave(b: Builder, args: list[Val], width: int, served: int) -> Val:
    """(row, places, groups, pending lanes) -> the lanes of the next wave, which is counted."""
    row, places, groups, pending = args
    keys = 128 // width
    leaders, owned = b.array("i64", 4), b.array("i8", 4 * keys)
    taken, sectors = b.alloca("i32"), b.alloca("i32")
    b.store(b.splat(b.integer("i64", -1), 4), leaders, 32)
    b.store(b.zero("i8", 4 * keys), owned, 64)
    for x in (taken, sectors):
        b.store(b.integer("i32", 0), x)

    def one(lane: Val) -> None:
        k = lane.zext("i64")
        p, group = b.load("i64", 0, b.at(places, k << 3)), b.load("i32", 0, b.at(groups, k << 2))
        leader = b.at(leaders, group.zext("i64") << 3)
        line, claimed = p >> served, b.load("i64", 0, leader)
        mine = b.select(claimed.eq(-1), line, claimed)
        b.store(mine, leader)
        key = group.zext("i64") * keys + b.binary("udiv", p & 127, b.integer("i64", width))
        owner = b.at(owned, key)
        free = b.load("i8", 0, owner).eq(0)
        b.store(b.integer("i8", 1), owner)
        with b.when(free & mine.eq(line)):
            b.store(b.load("i32", 0, taken) | (b.integer("i32", 1) << lane), taken)
            at = (group << 2) | ((p >> SECTOR) & 3).trunc("i32")
            b.store(b.load("i32", 0, sectors) | (b.integer("i32", 1) << at), sectors)

    each_lane(b, pending, one)
    seen = b.load("i32", 0, sectors)
    count = b.intrinsic("ctpop", [seen])
    lines = b.integer("i32", 0)
    for group in range(4):
        lines = lines + ((seen >> (4 * group)) & 15).ne(0).zext("i32")
    for at, v in (
        (CounterRow.SECTORS, count),
        (CounterRow.TAGS, lines),
        (CounterRow.MISSES, count),
    ):
        bump(b, row, at, v)
    bump(b, row, CounterRow.WAVEFRONTS, b.integer("i64", 1))
    return b.load("i32", 0, taken)
