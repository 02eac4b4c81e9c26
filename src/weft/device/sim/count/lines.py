"""Code that counts lines and sectors of 32 addresses, and looks them up in an L1.

The L1 is that of one block of threads: empty when the block starts, lines of four sectors, tags
in sets of four by a hash. What it has not goes to L2: the line's sectors and the part of the
launch are noted, from which `weft.measure` estimates the traffic to memory afterwards. Nothing
depends on the order in which blocks run.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.device.sim.count.layout import (
    LINE,
    SECTOR,
    TAG_GROUPS,
    WAYS,
    Launch,
    PerWorker,
    Place,
    Row,
)
from weft.device.sim.lane_sets import each_lane
from weft.device.sim.warp_ops import reduce_lanes
from weft.ir import Builder, Val

P, I32, I64 = ("ptr", 0), ("i32", 0), ("i64", 0)
HASH = 0x9E3779B97F4A7C15
NOWHERE = -1
"""The line of an address that belongs to no allocation: the access is about to fail."""

LOAD, BYPASS, STORE, CHANGE, LOCAL = "load", "bypass", "store", "change", "local"
"""Ways of an access: through L1, past it, written through, changed in L2, the lanes' own memory."""


def bump(b: Builder, row: Val, at: int, by: Val) -> None:
    """row[at] += by."""
    place = b.at(row, at)
    b.store(b.load("i64", 0, place) + b.resize(by, "i64"), place)


def pretended(b: Builder, launch: Val, row: Val, address: Val) -> Val:
    """Where an address is in the pretended memory, or NOWHERE."""
    window = b.at(row, Row.PLACE)
    low = b.load("i64", 0, b.at(window, Place.LOW))
    hit = (address - low).ult(b.load("i64", 0, b.at(window, Place.NBYTES)))
    find = b.helper("count_place", [P, P, I64], I64, _find, attrs="#2")
    return b.choose(
        hit,
        lambda: address + b.load("i64", 0, b.at(window, Place.DELTA)),
        lambda: find(launch, window, address),
    )


def _find(b: Builder, args: list[Val]) -> Val:
    """(launch, window, address): looks through all allocations; a hit becomes the window."""
    launch, window, address = args
    table = b.load("ptr", 0, b.at(launch, Launch.PLACES))
    with b.loop(b.load("i64", 0, b.at(launch, Launch.PLACE_COUNT)).trunc("i32")) as i:
        place = b.at(table, i.zext("i64") * Place.SIZE)
        low, nbytes, delta = (
            b.load("i64", 0, b.at(place, x)) for x in (Place.LOW, Place.NBYTES, Place.DELTA)
        )
        with b.when((address - low).ult(nbytes)):
            for at, v in ((Place.LOW, low), (Place.NBYTES, nbytes), (Place.DELTA, delta)):
                b.store(v, b.at(window, at))
            out = address + delta
            b.emit(f"ret i64 {out.ref}")
            b.place(b.label("never"))
    return b.integer("i64", NOWHERE)


# ---- one line ---------------------------------------------------------------------------------
def tag_group(b: Builder, line: Val) -> Val:
    """Which of the four tag lookups a line takes: 0, 1, 2 or 3."""
    high, low = (b.intrinsic("ctpop", [line & mask]) & 1 for mask in TAG_GROUPS)
    return (high << 1) | low


def look_up(b: Builder, way: str, launch: Val, worker: Val, line: Val, sectors: Val) -> Val:
    """Sectors (four bits) of a line that go to L2; they are noted there."""
    if way == LOCAL:
        return b.integer("i32", 0)
    note = b.helper("count_note_read", [P, P, I64, I32], None, _note_read)
    if way in (BYPASS, CHANGE):
        note(launch, worker, line, sectors)
    if way in (STORE, CHANGE):
        b.helper("count_note_write", [P, P, I64, I32], None, _note_write)(
            launch, worker, line, sectors
        )
    if way != LOAD:
        return sectors
    tags = b.load("ptr", 0, b.at(worker, PerWorker.TAGS))
    group = ((line * HASH) >> 40) & b.load("i64", 0, b.at(worker, PerWorker.TAG_MASK))
    place = b.at(tags, group * (8 * WAYS))
    held = b.load("i64", WAYS, place, 8)
    tag = (line << 28) | b.load("i64", 0, b.at(worker, PerWorker.GENERATION))
    same = ((held ^ tag) >> 4).eq(0)
    present = reduce_lanes(b, "or", same.select(held & 15, 0)).trunc("i32")
    missing = sectors & ~present
    with b.when(missing.ne(0)):
        more = sectors.zext("i64")
        fresh = b.insert(b.shuffle(held, [-1, *range(WAYS - 1)]), tag | more, 0)  # the oldest goes
        grown = same.select(held | more, held)
        b.store(b.select(b.any(same), grown, fresh), place, 8)
        note(launch, worker, line, missing)
    return missing


def _note_read(b: Builder, args: list[Val]) -> None:
    """(launch, worker, line, sectors): read from L2, and from memory unless written before."""
    launch, worker, line, sectors = args
    place = b.at(b.load("ptr", 0, b.at(launch, Launch.FLAGS)), line)
    flags = b.load("i8", 0, place).zext("i32")
    _mark(b, place, flags, sectors & ~(flags >> 4))
    _mark_epoch(b, launch, worker, line)


def _note_write(b: Builder, args: list[Val]) -> None:
    """(launch, worker, line, sectors): written to L2."""
    launch, worker, line, sectors = args
    place = b.at(b.load("ptr", 0, b.at(launch, Launch.FLAGS)), line)
    _mark(b, place, b.load("i8", 0, place).zext("i32"), sectors << 4)
    _mark_epoch(b, launch, worker, line)


def _mark(b: Builder, place: Val, flags: Val, bits: Val) -> None:
    """Sets bits of a byte that other workers may change too; mostly they are set already."""
    with b.when((bits & ~flags).ne(0)):
        b.emit(f"{b.name()} = atomicrmw or {place.tref}, {bits.trunc('i8').tref} monotonic")


def _mark_epoch(b: Builder, launch: Val, worker: Val, line: Val) -> None:
    place = b.at(b.load("ptr", 0, b.at(launch, Launch.EPOCHS)), line << 3)
    mine = b.load("i64", 0, b.at(worker, PerWorker.EPOCH))
    with b.when((b.load("i64", 0, place) & mine).eq(0)):
        b.emit(f"{b.name()} = atomicrmw or {place.tref}, {mine.tref} monotonic")


# ---- a range ----------------------------------------------------------------------------------
def count_range(b: Builder, way: str) -> Callable[..., Val]:
    """(launch, worker, row, first address, bytes, lanes' count, bytes asked): neighbours."""
    return b.helper(
        f"count_range_{way}",
        [P, P, P, I64, I64, I32, I32],
        None,
        lambda x, args: _range(x, args, way),
    )


def _range(b: Builder, args: list[Val], way: str) -> None:
    launch, worker, row, address, nbytes, threads, asked = args
    first = pretended(b, launch, row, address)
    with b.when(first.ne(NOWHERE)):
        last = first + nbytes - 1
        sector, line = first >> SECTOR, first >> LINE
        sectors = ((last >> SECTOR) - sector + 1).trunc("i32")
        tags = ((last >> LINE) - line + 1).trunc("i32")
        misses, groups = b.alloca("i32"), b.alloca("i64")
        b.store(b.integer("i32", 0), misses)
        b.store(b.integer("i64", 0), groups)
        from_bit = (sector & 3).trunc("i32")
        until = from_bit + sectors
        with b.loop(tags) as i:
            at = line + i.zext("i64")
            high = b.smin(until - (i << 2), 4)
            low = b.select(i.eq(0), from_bit, b.integer("i32", 0))
            mask = ((b.integer("i32", 1) << high) - 1) & (b.integer("i32", -1) << low)
            gone = b.intrinsic("ctpop", [look_up(b, way, launch, worker, at, mask)])
            b.store(b.load("i32", 0, misses) + gone, misses)
            with b.when(tags.ne(1)):
                _count_group(b, groups, at)
        waves = b.umax(_deepest(b, b.load("i64", 0, groups)), 1)
        _add(b, row, threads, asked, sectors, tags, waves, b.load("i32", 0, misses))


def _count_group(b: Builder, groups: Val, line: Val) -> None:
    """Four counters of 16 bits in one word."""
    one = b.integer("i64", 1) << (tag_group(b, line) << 4)
    b.store(b.load("i64", 0, groups) + one, groups)


def _deepest(b: Builder, groups: Val) -> Val:
    fields = [((groups >> (16 * i)) & 0xFFFF).trunc("i32") for i in range(4)]
    return b.umax(b.umax(fields[0], fields[1]), b.umax(fields[2], fields[3]))


def _add(
    b: Builder, row: Val, threads: Val, asked: Val, sectors: Val, tags: Val, waves: Val, misses: Val
) -> None:
    ideal = b.umin(sectors, (asked + 31) >> 5)
    bump(b, row, Row.REQUESTS, b.integer("i64", 1))
    for at, v in (
        (Row.THREADS, threads), (Row.SECTORS, sectors), (Row.TAGS, tags),
        (Row.WAVEFRONTS, waves), (Row.IDEAL, ideal), (Row.MISSES, misses),
    ):  # fmt: skip
        bump(b, row, at, v)


# ---- any 32 addresses -------------------------------------------------------------------------
SLOTS = 64
"""Of the table by which lines are told apart: twice as many as there can be."""


def count_lanes(b: Builder, way: str, width: int) -> Callable[..., Val]:
    """(launch, worker, row, addresses, lanes): any addresses; some lane must run."""
    return b.helper(
        f"count_lanes_{way}_{width}",
        [P, P, P, P, I32],
        None,
        lambda x, args: _lanes(x, args, way, width),
    )


def _lanes(b: Builder, args: list[Val], way: str, width: int) -> None:
    launch, worker, row, table, lanes = args
    lines, masks, seats = b.array("i64", 33), b.array("i32", 33), b.array("i8", SLOTS)
    count, latest, at_latest = b.alloca("i32"), b.alloca("i64"), b.alloca("i64")
    zero, none = b.integer("i32", 0), b.integer("i64", -1)
    b.store(b.splat(b.integer("i8", 0), SLOTS), seats, 64)
    b.store(zero, count)
    b.store(none, latest)
    b.store(b.integer("i64", 0), at_latest)

    def one(lane: Val) -> None:
        address = b.load("i64", 0, b.at(table, lane.zext("i64") << 3), 8)
        p = address if way == LOCAL else pretended(b, launch, row, address)
        with b.when(p.ne(NOWHERE)):
            line, bit = p >> LINE, b.integer("i32", 1) << ((p >> SECTOR) & 3).trunc("i32")
            with b.when(line.ne(b.load("i64", 0, latest))):
                b.store(line, latest)
                b.store(_seat(b, line, lines, masks, seats, count), at_latest)
            place = b.at(masks, b.load("i64", 0, at_latest) << 2)
            b.store(b.load("i32", 0, place) | bit, place)

    each_lane(b, lanes, one)
    found = b.load("i32", 0, count)
    sectors, misses, groups = b.alloca("i32"), b.alloca("i32"), b.alloca("i64")
    b.store(zero, sectors)
    b.store(zero, misses)
    b.store(b.integer("i64", 0), groups)
    with b.loop(found) as i:
        k = (i + 1).zext("i64")
        line = b.load("i64", 0, b.at(lines, k << 3))
        mask = b.load("i32", 0, b.at(masks, k << 2))
        b.store(b.load("i32", 0, sectors) + b.intrinsic("ctpop", [mask]), sectors)
        gone = b.intrinsic("ctpop", [look_up(b, way, launch, worker, line, mask)])
        b.store(b.load("i32", 0, misses) + gone, misses)
        _count_group(b, groups, line)
    with b.when(found.ne(0)):
        threads = b.intrinsic("ctpop", [lanes])
        waves = _deepest(b, b.load("i64", 0, groups))
        _add(b, row, threads, threads * width, b.load("i32", 0, sectors), found, waves,
             b.load("i32", 0, misses))  # fmt: skip


def _seat(b: Builder, line: Val, lines: Val, masks: Val, seats: Val, count: Val) -> Val:
    """The number (from 1) of a line among those seen, by open addressing."""
    start = ((line * HASH) >> 58).trunc("i32")
    pre, probe, look, new, end = (
        b.block, *(b.label(x) for x in ("probe", "look", "new", "seated"))
    )  # fmt: skip
    b.jump(probe)
    b.place(probe)
    slot = b.name()
    at = len(b.fn.lines)
    b.fn.lines.append("")
    here = b.named("i32", 0, slot)
    place = b.at(seats, here.zext("i64"))
    seat = b.load("i8", 0, place).zext("i64")
    b.branch(seat.eq(0), new, look)
    b.place(look)
    following = (here + 1) & (SLOTS - 1)
    b.fn.lines[at] = f"  {slot} = phi i32 [ {start.ref}, %{pre} ], [ {following.ref}, %{b.block} ]"
    b.branch(b.load("i64", 0, b.at(lines, seat << 3)).eq(line), end, probe)
    b.place(new)
    number = b.load("i32", 0, count) + 1
    b.store(number, count)
    fresh = number.zext("i64")
    b.store(fresh.trunc("i8"), place)
    b.store(line, b.at(lines, fresh << 3))
    b.store(b.integer("i32", 0), b.at(masks, fresh << 2))
    b.jump(end)
    b.place(end)
    return b.phi("i64", 0, [(seat, look), (fresh, new)])
