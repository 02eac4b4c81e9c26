"""Code that counts the lines and sectors of any 32 addresses.

A loop that walks along rows moves all lanes by the same number of sectors, each within its line:
such lanes touch the same lines as before, and nothing is looked up. Otherwise a small hash table
with open addressing distinguishes lines. Where every eight consecutive lanes are neighbours or
share one place, as in most tiles, the eight are a run (`runs`).
"""

from __future__ import annotations

from collections.abc import Callable

from weft.device.sim.lane_sets import each_lane
from weft.device.sim.tools.counters.layout import (
    LINE,
    SECTOR,
    CounterRow,
    Last,
    PlacedAllocation,
    Repeated,
)
from weft.device.sim.tools.counters.lines import (
    HASH,
    I32,
    LOCAL,
    NOWHERE,
    P,
    bump,
    count_group,
    deepest,
    look_up,
    pretended,
)
from weft.device.sim.tools.counters.runs import RunRecord, count_runs
from weft.ir import Builder, Val

SLOTS = 64
"""Size of the hash table of cache lines: twice the maximum number of lines."""
RUN = 8
"""The number of consecutive lanes that are tested together for neighbours or one place."""


def count_lanes(b: Builder, route: str, width: int) -> Callable[..., Val]:
    """(launch, worker, row, addresses, lanes): any addresses; some lane must run."""
    return b.helper(
        f"count_lanes_{route}_{width}",
        [P, P, P, P, I32],
        None,
        lambda x, args: _lanes(x, args, route, width),
    )


class Seats:
    """The lines seen so far, numbered from 1, each with a bit for its sectors."""

    def __init__(self, b: Builder, last: Val) -> None:
        self.b = b
        self.lines, self.masks = b.at(last, Last.LINES), b.at(last, Last.MASKS)
        self._table, self._count = b.array("i8", SLOTS), b.at(last, Last.COUNT)
        b.store(b.zero("i8", SLOTS), self._table, 64)
        b.store(b.integer("i32", 0), self._count)

    @property
    def count(self) -> Val:
        return self.b.load("i32", 0, self._count)

    def mark(self, number: Val, sectors: Val) -> None:
        place = self.b.at(self.masks, number << 2)
        self.b.store(self.b.load("i32", 0, place) | sectors, place)

    def find(self, line: Val) -> Val:
        """The number of a line, which may be new."""
        b = self.b
        # The six highest bits, for 64 slots.
        start = ((line * HASH) >> 58).trunc("i32")

        def number_at(slot: Val) -> Val:
            return b.load("i8", 0, b.at(self._table, slot.zext("i64"))).zext("i64")

        def probe(slot: Val) -> tuple[Val, Val]:
            number = number_at(slot)  # 0 where the slot is empty; no line has that number
            same = b.load("i64", 0, b.at(self.lines, number << 3)).eq(line)
            return (slot + 1) & (SLOTS - 1), number.eq(0) | same

        slot = b.until(start, probe)
        number = number_at(slot)

        def seat() -> Val:
            more = self.count + 1
            b.store(more, self._count)
            new = more.zext("i64")
            b.store(new.trunc("i8"), b.at(self._table, slot.zext("i64")))
            b.store(line, b.at(self.lines, new << 3))
            b.store(b.integer("i32", 0), b.at(self.masks, new << 2))
            return new

        return b.either(number.eq(0), seat, lambda: number)


def _lanes(b: Builder, args: list[Val], route: str, width: int) -> None:
    row, lanes = args[2], args[4]
    if route != LOCAL:
        with b.when(_by_runs(b, args, route, width)):
            b.ret()
    last = b.at(row, -Last.SIZE - Repeated.SIZE)
    stays, shift = _moved(b, last, args, route)
    with b.when(~stays):
        seats = Seats(b, last)
        _seat(b, seats, args, route)
        _keep(b, last, args, route)
        _sum_up(b, seats, last, lanes, width)
    count = b.load("i32", 0, b.at(last, Last.COUNT))
    with b.when(count.ne(0)):
        counters = b.load("i64", 8, row, 8) + b.load("i64", 8, b.at(last, Last.COUNTERS), 8)
        b.store(counters, row, 8)
        if route != LOCAL:
            _pass_on(b, last, b.select(stays, shift, b.integer("i32", 4)), route, args)


def _moved(b: Builder, last: Val, args: list[Val], route: str) -> tuple[Val, Val]:
    """(true if all lanes have moved by the same number of sectors in their lines; number + 4)."""
    _, _, row, table, lanes = args
    now, before = _sectors(b, route, row, table), b.load("i64", 32, b.at(last, Last.SECTORS), 8)
    by = b.extract(now, 0) - b.extract(before, 0)
    shift = (by.trunc("i32") + 4) & 7
    # A bit that leaves the four of a line belongs to a lane that is on another line now.
    past = (b.load("i32", 0, b.at(last, Last.UNION)) << shift) & ~(15 << 4)
    # After a move by four sectors or more, no lane is on its old line.
    stays = b.load("i32", 0, b.at(last, Last.LANES)).eq(lanes) & (by + 3).ult(7) & past.eq(0)
    stays = stays & b.load("i64", 0, b.at(last, Last.DELTA)).eq(_delta(b, route, row))
    return stays & b.same(now, before + by), shift


def _delta(b: Builder, route: str, row: Val) -> Val:
    """The distance from the lanes' addresses to virtual ones, in the row's last allocation."""
    if route == LOCAL:
        return b.integer("i64", 0)
    return b.load("i64", 0, b.at(row, CounterRow.PLACE + PlacedAllocation.DELTA))


def _sectors(b: Builder, route: str, row: Val, table: Val) -> Val:
    """The lanes' sectors, likewise."""
    return (b.load("i64", 32, table, 64) + _delta(b, route, row)) >> SECTOR


def _keep(b: Builder, last: Val, args: list[Val], route: str) -> None:
    """Store the lanes for the next execution, if they are all in one allocation."""
    _, _, row, table, lanes = args
    if route != LOCAL:
        low, nbytes = (
            b.load("i64", 0, b.at(row, CounterRow.PLACE + x))
            for x in (PlacedAllocation.LOW, PlacedAllocation.NBYTES)
        )
        inside = b.all((b.load("i64", 32, table, 64) - low).ult(nbytes))
        lanes = b.select(inside, lanes, b.integer("i32", 0))
    b.store(lanes, b.at(last, Last.LANES))
    b.store(_delta(b, route, row), b.at(last, Last.DELTA))
    b.store(_sectors(b, route, row, table), b.at(last, Last.SECTORS), 8)


def _by_runs(b: Builder, args: list[Val], route: str, width: int) -> Val:
    """Count runs of lanes that are neighbours or at one place -> true if done."""
    launch, worker, row, table, lanes = args
    neighbours, alike = _runs(b, table, width)
    reach = b.select(neighbours, b.integer("i64", RUN * width), b.integer("i64", width))
    starts = [b.load("i64", 0, b.at(table, 8 * i), 8) for i in range(0, 32, RUN)]
    count = count_runs(b, route, len(starts), width, RunRecord.NONE)
    return b.either(
        lanes.eq(-1) & (neighbours | alike),
        lambda: count(launch, worker, row, reach, *starts),
        lambda: b.integer("i1", 0),
    )


def _seat(b: Builder, seats: Seats, args: list[Val], route: str) -> None:
    launch, _, row, table, lanes = args

    def place_of(address: Val) -> Val:
        return address if route == LOCAL else pretended(b, launch, row, address)

    _each(b, seats, table, lanes, place_of)


def _each(b: Builder, seats: Seats, table: Val, lanes: Val, place_of: Callable[[Val], Val]) -> None:
    """Count lane by lane; one that is on the line of the previous lane needs no search."""
    latest, number = b.alloca("i64"), b.alloca("i64")
    b.store(b.integer("i64", NOWHERE), latest)
    b.store(b.integer("i64", 0), number)

    def one(lane: Val) -> None:
        p = place_of(b.load("i64", 0, b.at(table, lane.zext("i64") << 3), 8))
        with b.when(p.ne(NOWHERE)):
            line = p >> LINE
            with b.when(line.ne(b.load("i64", 0, latest))):
                b.store(line, latest)
                b.store(seats.find(line), number)
            bit = b.integer("i32", 1) << ((p >> SECTOR) & 3).trunc("i32")
            seats.mark(b.load("i64", 0, number), bit)

    each_lane(b, lanes, one)


def _runs(b: Builder, table: Val, width: int) -> tuple[Val, Val]:
    """(true if the lanes of every run are neighbours, true if they are at one place)."""
    at = b.load("i64", 32, table, 64).trunc("i32")
    inner = [i % RUN < RUN - 1 for i in range(32)]
    ahead = b.shuffle(at, [i + x for i, x in enumerate(inner)])
    return b.same(ahead, at + b.lanes("i32", [width * x for x in inner])), b.same(ahead, at)


def _sum_up(b: Builder, seats: Seats, last: Val, lanes: Val, width: int) -> None:
    """All lines: their sectors, and the lookups that they take."""
    threads = b.intrinsic("ctpop", [lanes])
    sectors, union, groups = b.alloca("i32"), b.at(last, Last.UNION), b.alloca("i64")
    for x in (sectors, union):
        b.store(b.integer("i32", 0), x)
    b.store(b.integer("i64", 0), groups)
    with b.loop(seats.count) as i:
        k = (i + 1).zext("i64")
        mask = b.load("i32", 0, b.at(seats.masks, k << 2))
        b.store(b.load("i32", 0, sectors) + b.intrinsic("ctpop", [mask]), sectors)
        b.store(b.load("i32", 0, union) | mask, union)
        count_group(b, groups, b.load("i64", 0, b.at(seats.lines, k << 3)))
    all_sectors = b.load("i32", 0, sectors)
    ideal = b.umin(all_sectors, (threads * width + 31) >> 5)
    waves = deepest(b, b.load("i64", 0, groups))
    for at, v in (
        (CounterRow.REQUESTS, b.integer("i64", 1)),
        (CounterRow.THREADS, threads),
        (CounterRow.SECTORS, all_sectors),
        (CounterRow.TAGS, seats.count),
        (CounterRow.WAVEFRONTS, waves),
        (CounterRow.IDEAL, ideal),
    ):
        b.store(b.resize(v, "i64"), b.at(last, Last.COUNTERS + at))


def _pass_on(b: Builder, last: Val, shift: Val, route: str, args: list[Val]) -> None:
    """Pass each line to L1, and its misses to L2."""
    launch, worker, row, _, _ = args
    with b.loop(b.load("i32", 0, b.at(last, Last.COUNT))) as i:
        k = (i + 1).zext("i64")
        line = b.load("i64", 0, b.at(last, (k << 3) + Last.LINES))
        mask = b.load("i32", 0, b.at(last, (k << 2) + Last.MASKS))
        missing = look_up(b, route, launch, worker, line, (mask << shift) >> 4)
        with b.when(missing.ne(0)):
            bump(b, row, CounterRow.MISSES, b.intrinsic("ctpop", [missing]))
