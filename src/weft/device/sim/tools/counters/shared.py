"""Code that counts the wavefronts of an access to shared memory at offsets known when it runs."""

from __future__ import annotations

from collections.abc import Callable

from weft.device.sim.lane_sets import each_lane, lanes_of, reduce_lanes
from weft.device.sim.tools.counters.layout import CounterRow
from weft.device.sim.tools.counters.lines import I32, P, bump
from weft.ir import Builder, Val

SPIN, CAS, NATIVE, TALLY = "spin", "cas", "native", "tally"
"""Implementations of a shared atomic: a loop of compare-and-swap, one of them, by the memory
itself, or, to add 1 without a result, by counting lanes: equal addresses merge then, and only then.
"""


def count_shared(b: Builder, width: int, *, reads: bool) -> Callable[..., Val]:
    """(row, offsets, lanes): a load or store of `width` bytes; some lane must run."""
    return b.helper(
        f"count_shared_{width}_{'ld' if reads else 'st'}",
        [P, P, I32],
        None,
        lambda x, args: _shared(x, args, width, reads),
    )


def _shared(b: Builder, args: list[Val], width: int, reads: bool) -> None:
    row, table, lanes = args
    threads = b.intrinsic("ctpop", [lanes])
    bump(b, row, CounterRow.REQUESTS, b.integer("i64", 1))
    bump(b, row, CounterRow.THREADS, threads)
    # The common case, without a loop over lanes.
    if width <= 4:
        with b.when(_all_apart(b, table, lanes)):
            for at in (CounterRow.WAVEFRONTS, CounterRow.PARTS, CounterRow.IDEAL):
                bump(b, row, at, b.integer("i64", 1))
            b.ret()
    # Eight or 16 bytes a lane are served in two or four parts of the warp; `rules.shared_cost` has
    # the same rules for distances that are known.
    parts = b.integer("i32", max(1, width // 4))
    if reads and width > 4:
        parts = b.select(_paired(b, table, lanes), parts >> 1, parts)
    waves, filled = _over_parts(b, table, lanes, parts, max(4, width), merge=True)
    ideal = b.umin(filled, (threads * width + 127) >> 7)
    _bump_parts(b, row, waves, filled, ideal)


def count_matrix(b: Builder) -> Callable[..., Val]:
    """(row, offsets, lanes): `ldmatrix`; eight lanes with 16 bytes each are a part."""
    return _count_parts(b, "count_matrix", 4, 16, merge=True)


def count_copy(b: Builder, width: int) -> Callable[..., Val]:
    """(row, offsets, lanes): the shared side of `cp.async`; equal places do not merge."""
    return _count_parts(b, f"count_copy_{width}", width // 4, width, merge=False)


def _count_parts(
    b: Builder, name: str, parts: int, width: int, *, merge: bool
) -> Callable[..., Val]:
    def body(x: Builder, args: list[Val]) -> None:
        row, table, lanes = args
        count = x.integer("i32", parts)
        waves, filled = _over_parts(x, table, lanes, count, width, merge=merge)
        bump(x, row, CounterRow.REQUESTS, x.integer("i64", 1))
        bump(x, row, CounterRow.THREADS, x.intrinsic("ctpop", [lanes]))
        _bump_parts(x, row, waves, filled, filled)

    return b.helper(name, [P, P, I32], None, body)


def _bump_parts(b: Builder, row: Val, waves: Val, filled: Val, ideal: Val) -> None:
    bump(b, row, CounterRow.WAVEFRONTS, waves)
    bump(b, row, CounterRow.PARTS, filled)
    bump(b, row, CounterRow.IDEAL, ideal)


def count_shared_atomic(b: Builder, width: int, how: str) -> Callable[..., Val]:
    """(row, offsets, lanes): an atomic of `width` bytes, implemented as `how` says."""

    def body(x: Builder, args: list[Val]) -> None:
        row, table, lanes = args
        bump(x, row, CounterRow.REQUESTS, x.integer("i64", 1))
        bump(x, row, CounterRow.THREADS, x.intrinsic("ctpop", [lanes]))
        parts = max(1, width // 4)
        if how == SPIN:
            waves = _spin(x, table, lanes, parts)
            # The counter calls none of these conflicts.
            _bump_parts(x, row, waves, waves, x.integer("i64", 2 * parts))
            return
        merge = how == TALLY
        waves, filled = _over_parts(x, table, lanes, x.integer("i32", parts), 4, merge=merge)
        twice = 2 if how == CAS else 1
        counted = filled + waves if how == CAS else filled
        _bump_parts(x, row, waves * twice, counted, filled * twice)

    return b.helper(f"count_shared_atomic_{width}_{how}", [P, P, I32], None, body)


def _all_apart(b: Builder, table: Val, lanes: Val) -> Val:
    """True if every active lane has a bank of its own: nothing to merge, no conflicts."""
    bank = (b.load("i32", 32, table, 64) >> 2) & 31
    one = b.lanes("i32", [1] * 32) << bank
    mine = lanes_of(b, lanes).select(one, 0)
    return b.intrinsic("ctpop", [reduce_lanes(b, "or", mine)]).eq(b.intrinsic("ctpop", [lanes]))


def _paired(b: Builder, table: Val, lanes: Val) -> Val:
    """True if all active lanes agree with their neighbour, or all with the one after it."""
    at, runs = b.load("i32", 32, table, 64), lanes_of(b, lanes)

    def agree(mask: int) -> Val:
        order = [i ^ mask for i in range(32)]
        both = runs & b.shuffle(runs, order)
        return b.any(both & at.ne(b.shuffle(at, order))) ^ 1

    return agree(1) | agree(2)


def _over_parts(
    b: Builder, table: Val, lanes: Val, parts: Val, unit: int, *, merge: bool
) -> tuple[Val, Val]:
    """(sum of the parts' depths, parts with a lane that runs)."""
    waves, filled = b.alloca("i32"), b.alloca("i32")
    zero = b.integer("i32", 0)
    b.store(zero, waves)
    b.store(zero, filled)
    size = b.binary("udiv", b.integer("i32", 32), parts)
    find = b.helper(
        f"count_depth_{unit}_{'merged' if merge else 'each'}",
        [P, I32],
        I32,
        lambda x, args: _depth(x, args, unit, merge),
    )
    with b.loop(parts) as i:
        mask = (b.integer("i32", -1) >> (32 - size)) << (i * size)
        mine = lanes & mask
        with b.when(mine.ne(0)):
            b.store(b.load("i32", 0, waves) + find(table, mine), waves)
            b.store(b.load("i32", 0, filled) + 1, filled)
    return b.load("i32", 0, waves), b.load("i32", 0, filled)


def _depth(b: Builder, args: list[Val], unit: int, merge: bool) -> Val:
    """(offsets, lanes): the maximum number of units, distinct or all, in one bank."""
    table, lanes = args
    banks, shift = 128 // unit, unit.bit_length() - 1
    counts, words, deepest = b.array("i32", 32), b.array("i32", 32 * 32), b.alloca("i32")
    zero = b.integer("i32", 0)
    b.store(b.zero("i32", 32), counts, 64)
    b.store(zero, deepest)

    def one(lane: Val) -> None:
        word = b.load("i32", 0, b.at(table, lane.zext("i64") << 2), 4) >> shift
        bank = (word & (banks - 1)).zext("i64")
        place, list_of = b.at(counts, bank << 2), b.at(words, bank << 7)
        many = b.load("i32", 0, place)
        duplicate = b.alloca("i32")
        b.store(zero, duplicate)
        if merge:
            with b.loop(many) as i:
                same = b.load("i32", 0, b.at(list_of, i.zext("i64") << 2)).eq(word)
                b.store(b.load("i32", 0, duplicate) | same.zext("i32"), duplicate)
        with b.when(b.load("i32", 0, duplicate).eq(0)):
            b.store(word, b.at(list_of, many.zext("i64") << 2))
            b.store(many + 1, place)
            b.store(b.umax(b.load("i32", 0, deepest), many + 1), deepest)

    each_lane(b, lanes, one)
    return b.load("i32", 0, deepest)


def _spin(b: Builder, table: Val, lanes: Val, parts: int) -> Val:
    """Wavefronts of a loop of loads and compare-and-swaps, in which one lane a bank tries."""
    trip = b.helper(f"count_spin_{parts}", [P, I32, P], I32, lambda x, args: _trip(x, args, parts))
    pending, waves = b.alloca("i32"), b.alloca("i32")
    b.store(lanes, pending)
    b.store(b.integer("i32", 0), waves)
    with b.loop(32), b.when(b.load("i32", 0, pending).ne(0)):
        now = b.load("i32", 0, pending)
        b.store(now & ~trip(table, now, waves), pending)
    return b.load("i32", 0, waves)


def _trip(b: Builder, args: list[Val], parts: int) -> Val:
    """(offsets, pending lanes, wavefronts) -> the lanes that succeed."""
    table, pending, waves = args
    changed, many, done, banks = b.array("i32", 32), *(b.alloca("i32") for _ in range(3))
    zero = b.integer("i32", 0)
    for x in (many, done):
        b.store(zero, x)

    def one(lane: Val) -> None:
        at = b.load("i32", 0, b.at(table, lane.zext("i64") << 2), 4)
        bank = b.integer("i32", 1) << ((at >> 2) & 31)
        tried = b.load("i32", 0, banks)
        with b.when((tried & bank).eq(0)):
            b.store(tried | bank, banks)
            count, duplicate = b.load("i32", 0, many), b.alloca("i32")
            b.store(zero, duplicate)
            # If another lane of this trip has changed the place, the compare-and-swap fails.
            with b.loop(count) as i:
                same = b.load("i32", 0, b.at(changed, i.zext("i64") << 2)).eq(at)
                b.store(b.load("i32", 0, duplicate) | same.zext("i32"), duplicate)
            with b.when(b.load("i32", 0, duplicate).eq(0)):
                b.store(at, b.at(changed, count.zext("i64") << 2))
                b.store(count + 1, many)
                mine = b.integer("i32", 1) << lane
                b.store(b.load("i32", 0, done) | mine, done)

    size = 32 // parts
    for i in range(parts):
        part = pending & (((1 << size) - 1) << (i * size))
        with b.when(part.ne(0)):
            # One for the load, one for the compare-and-swap.
            b.store(b.load("i32", 0, waves) + 2, waves)
            b.store(zero, banks)
            each_lane(b, part, one)
    return b.load("i32", 0, done)
