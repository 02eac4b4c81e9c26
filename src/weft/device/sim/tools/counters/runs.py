"""Code that counts accesses of a whole warp by a few runs of lanes.

The lanes of a run are neighbours, or at one place: rows of a tile, rows of a block that is 8 or 16
threads wide. The starts of the runs, which must ascend, determine the accessed bytes. Other
accesses are counted lane by lane (`lanes`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import reduce
from itertools import pairwise

from weft.device.sim.tools.counters.layout import (
    LINE,
    SECTOR,
    CounterRow,
    PlacedAllocation,
    Repeated,
)
from weft.device.sim.tools.counters.lines import (
    I32,
    I64,
    LOAD,
    NOWHERE,
    CachedLine,
    P,
    bump,
    deepest,
    look_up,
    pretended,
    tag_group,
)
from weft.ir import Builder, Val

LINE_BYTES = 1 << LINE


class RunRecord(Enum):
    """The record of an execution for the next one.

    LINES   all lanes of a run are at one place, and the next time likely on the same lines:
            `repeats`
    PLACES  the lanes of a run are neighbours, and the next time likely at the same places of other
            lines: `shifted`
    """

    NONE, LINES, PLACES = "", "_alike", "_kept"


def count_runs(
    b: Builder, route: str, runs: int, width: int, memory: RunRecord
) -> Callable[..., Val]:
    """(launch, worker, row, bytes of a run, its starts ...) -> true if done; else no counts."""
    name = f"count_runs_{route}_{runs}_{width}{memory.value}"
    kinds = [P, P, P, I64, *[I64] * runs]
    return b.helper(name, kinds, ("i1", 0), lambda x, args: _runs(x, args, route, width, memory))


def _runs(b: Builder, args: list[Val], route: str, width: int, memory: RunRecord) -> Val:
    launch, worker, row, reach, *starts = args
    with b.when(inside(b, row, starts) ^ 1):
        pretended(b, launch, row, starts[0])  # makes another allocation the row's
    places = [
        x + b.load("i64", 0, b.at(row, CounterRow.PLACE + PlacedAllocation.DELTA)) for x in starts
    ]
    lines = [p >> LINE for p in places]
    ascending = [x.ule(y) for x, y in pairwise(lines)]
    with b.when(_all(b, [inside(b, row, starts), *ascending]) ^ 1):
        b.ret(b.integer("i1", 0))
    masks = [_sectors(b, p & (LINE_BYTES - 1), reach) for p in places]
    one = b.helper(f"count_line_{route}", [P, P, P, I64, I32], I64, lambda x, a: _line(x, a, route))
    count, sectors, groups = b.integer("i32", 0), b.integer("i32", 0), b.integer("i64", 0)
    for line, mask in _merged(b, lines, masks, straddles=memory is not RunRecord.LINES):
        some = mask.ne(0)

        def counted(line: Val = line, mask: Val = mask) -> Val:
            return one(launch, worker, row, line, mask)

        groups = groups + b.either(some, counted, lambda: b.integer("i64", 0))
        count = count + some.zext("i32")
        sectors = sectors + b.intrinsic("ctpop", [mask])
    counters = {
        CounterRow.REQUESTS: b.integer("i64", 1),
        CounterRow.THREADS: b.integer("i64", 32),
        CounterRow.SECTORS: sectors,
        CounterRow.TAGS: count,
        CounterRow.WAVEFRONTS: deepest(b, groups),
        CounterRow.IDEAL: b.umin(sectors, width),
    }
    # Runs on one line may touch one sector of it or several.
    apart = _all(b, [x.ne(y) for x, y in pairwise(lines)])
    match memory:
        case RunRecord.LINES:
            _remember(b, row, counters, apart, line_keys(lines))
        case RunRecord.PLACES:
            apart = _all(b, [apart, *(m.ule(15) for m in masks)])
            _remember(b, row, counters, apart, _keys(places))
            for i, m in enumerate(masks):
                b.store(m, b.at(row, Repeated.MASKS + 4 * i - Repeated.SIZE))
        case RunRecord.NONE:
            for at, v in counters.items():
                bump(b, row, at, v)
    return b.integer("i1", 1)


def _all(b: Builder, conditions: Sequence[Val]) -> Val:
    return reduce(lambda x, y: x & y, conditions, b.integer("i1", 1))


def inside(b: Builder, row: Val, starts: Sequence[Val]) -> Val:
    """True at run time if these addresses are in the allocation that the row saw last."""
    low, nbytes = (
        b.load("i64", 0, b.at(row, CounterRow.PLACE + x))
        for x in (PlacedAllocation.LOW, PlacedAllocation.NBYTES)
    )
    return _all(b, [(x - low).ult(nbytes) for x in starts])


def _sectors(b: Builder, inside: Val, reach: Val) -> Val:
    """The sectors of `reach` bytes, a line at most, from a place in a line: of it and the next."""
    first, last = (x.trunc("i32") for x in (inside >> SECTOR, (inside + reach - 1) >> SECTOR))
    return (b.integer("i32", 2) << last) - (b.integer("i32", 1) << first)


def _merged(
    b: Builder, lines: Sequence[Val], masks: Sequence[Val], *, straddles: bool
) -> list[tuple[Val, Val]]:
    """(line, sectors) of the runs, each line once; others have no sectors."""
    zero, out = b.integer("i32", 0), list[tuple[Val, Val]]()
    low, high = masks[0] & 15, masks[0] >> 4
    for i, line in enumerate(lines):
        if i + 1 == len(lines):
            out += [(line, low), (line + 1, high)]
            break
        following, more = lines[i + 1], masks[i + 1]
        # Lines ascend, so what the next run shares with those before is the line of this one.
        same, next_one = following.eq(line), following.eq(line + 1)
        out.append((line, b.select(same, zero, low)))
        out.append((line + 1, b.select(same | next_one, zero, high)))
        low, high = (
            (more & 15) | b.select(same, low, b.select(next_one, high, zero)),
            (more >> 4) | b.select(same, high, zero),
        )
    return out if straddles else out[::2]


def _line(b: Builder, args: list[Val], route: str) -> Val:
    """(launch, worker, row, line, sectors): passes the line on -> its tag lookup, for `deepest`."""
    launch, worker, row, line, mask = args
    missing = look_up(b, route, launch, worker, line, mask)
    if route == LOAD:
        bump(b, row, CounterRow.MISSES, b.intrinsic("ctpop", [missing]))
    return b.integer("i64", 1) << (tag_group(b, line) << 4)


# ---- the same lines again ---------------------------------------------------------------------
def _remember(
    b: Builder, row: Val, counters: dict[int, Val], apart: Val, keys: Sequence[Val]
) -> None:
    """Add the record to the row; this execution replaces it.

    The keys are those of an execution whose runs are on lines of their own, and `apart` if so.
    """
    last = b.at(row, -Repeated.SIZE)
    times = b.load("i64", 0, b.at(last, Repeated.TIMES))
    for at, v in counters.items():
        kept = b.at(last, Repeated.COUNTERS + at)
        bump(b, row, at, times * b.load("i64", 0, kept))
        b.store(b.resize(v, "i64"), kept)
    b.store(b.integer("i64", 1), b.at(last, Repeated.TIMES))
    for i, key in enumerate(keys):
        kept = b.at(last, Repeated.KEYS + 8 * i)
        b.store(b.select(apart, key, b.integer("i64", NOWHERE)), kept)


def line_keys(lines: Sequence[Val]) -> list[Val]:
    """Keys that are equal when the lines are; they are not 0, as before the first execution."""
    return [line + 1 for line in lines]


def _keys(places: Sequence[Val]) -> list[Val]:
    """Keys that are equal when the sectors of each run and the tag lookups of all are."""
    return [places[0] & (LINE_BYTES - 1), *(places[0] ^ p for p in places[1:])]


def are_kept(b: Builder, row: Val, keys: Sequence[Val]) -> Val:
    """True if the keys are those of the last execution; of equal lanes in a run, its lines."""
    kept = b.at(row, Repeated.KEYS - Repeated.SIZE)
    return _all(b, [k.eq(b.load("i64", 0, b.at(kept, 8 * i))) for i, k in enumerate(keys)])


def shifted(b: Builder, row: Val, starts: Sequence[Val]) -> tuple[Val, list[tuple[Val, Val]]]:
    """True at run time if each run of neighbours is at its last position, in some line.

    Also returns the line of each and its sectors, for `pass_line`.
    """
    delta = b.load("i64", 0, b.at(row, CounterRow.PLACE + PlacedAllocation.DELTA))
    places = [x + delta for x in starts]
    ascending = [x.ult(y) for x, y in pairwise(places)]
    same = _all(b, [inside(b, row, starts), *ascending, are_kept(b, row, _keys(places))])
    masks = [
        b.load("i32", 0, b.at(row, Repeated.MASKS + 4 * i - Repeated.SIZE))
        for i in range(len(starts))
    ]
    return same, [(p >> LINE, m) for p, m in zip(places, masks, strict=True)]


def repeats(b: Builder, route: str, worker: Val, row: Val, starts: Sequence[Val]) -> Val:
    """True at run time if each run, at one place, is on its last line, and L1 holds its sector."""
    delta = b.load("i64", 0, b.at(row, CounterRow.PLACE + PlacedAllocation.DELTA))
    places = [x + delta for x in starts]

    def cached() -> Val:
        if route != LOAD:
            return b.integer("i1", 1)
        bits = [b.integer("i32", 1) << ((p >> SECTOR) & 3).trunc("i32") for p in places]
        lines = [CachedLine(b, worker, p >> LINE) for p in places]
        return _all(b, [line.has(bit) for line, bit in zip(lines, bits, strict=True)])

    yes = inside(b, row, starts) & are_kept(b, row, line_keys([p >> LINE for p in places]))
    return b.either(yes, cached, lambda: b.integer("i1", 0), likely=True)


def count_repeat(b: Builder, row: Val) -> None:
    """Count an execution equal to the last one."""
    bump(b, b.at(row, -Repeated.SIZE), Repeated.TIMES, b.integer("i64", 1))


def count_as(b: Builder) -> Callable[..., Val]:
    """(row, another row): counts one execution equal to the last one of the other row."""

    def body(x: Builder, args: list[Val]) -> None:
        row, other = args
        last, theirs = (x.at(r, -Repeated.SIZE) for r in (row, other))
        times = x.load("i64", 0, x.at(last, Repeated.TIMES))
        kept = x.at(last, Repeated.COUNTERS)
        x.store(x.load("i64", 8, row, 8) + x.load("i64", 8, kept, 8) * times, row, 8)
        rest = (Repeated.SIZE - Repeated.COUNTERS) // 8
        x.store(x.load("i64", rest, x.at(theirs, Repeated.COUNTERS), 8), kept, 8)
        x.store(x.integer("i64", 1), x.at(last, Repeated.TIMES))

    return b.helper("count_as", [P, P], None, body)
