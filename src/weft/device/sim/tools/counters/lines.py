"""Code that counts lines and sectors of 32 addresses, and looks them up in an L1.

The L1 is that of one block of threads: empty when the block starts, lines of four sectors, tags in
sets of four by a hash. Its misses go to L2: the line's sectors and the part of the launch are
recorded, from which `weft.measure` estimates the traffic to memory afterwards. Nothing depends on
the order in which blocks run.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.device.sim.tools.counters.layout import (
    LINE,
    SECTOR,
    SECTOR_BYTES,
    SECTORS_A_LINE,
    TAG_GROUPS,
    WRITTEN_AT,
    CachedLineBits,
    CounterRow,
    LaunchFields,
    PerWorker,
    PlacedAllocation,
)
from weft.ir import Builder, Val
from weft.ptx.isa import decode
from weft.ptx.model import Instruction

P, I32, I64 = ("ptr", 0), ("i32", 0), ("i64", 0)
HASH = 0x9E3779B97F4A7C15
_OTHER_BLOCKS = -(1 << CachedLineBits.GENERATION_AT)
"""Bits that differ in a word of CACHED that another block has left."""
NOWHERE = -1
"""The line of an address that belongs to no allocation: the access is about to fail."""

LOAD, BYPASS, STORE, CHANGE, LOCAL = "load", "bypass", "store", "change", "local"
"""Routes of an access: through L1, past it, written through, changed in L2, local memory."""


def route_of(ins: Instruction, *, writes: bool) -> str:
    """The route of an instruction's access to global memory."""
    if writes:
        return STORE
    d = decode(ins)
    past_l1 = d.cache_operator in ("cg", "cv") or d.order in ("volatile", "relaxed", "acquire")
    return BYPASS if past_l1 else LOAD


def bump(b: Builder, row: Val, at: int | Val, by: Val) -> None:
    """row[at] += by."""
    place = b.at(row, at)
    b.store(b.load("i64", 0, place) + b.resize(by, "i64"), place)


def pretended(b: Builder, launch: Val, row: Val, address: Val) -> Val:
    """The virtual address of an address, or NOWHERE."""
    window = b.at(row, CounterRow.PLACE)
    low = b.load("i64", 0, b.at(window, PlacedAllocation.LOW))
    hit = (address - low).ult(b.load("i64", 0, b.at(window, PlacedAllocation.NBYTES)))
    find = b.helper("count_place", [P, P, I64], I64, _find, attrs="#2")
    return b.either(
        hit,
        lambda: address + b.load("i64", 0, b.at(window, PlacedAllocation.DELTA)),
        lambda: find(launch, window, address),
    )


def _find(b: Builder, args: list[Val]) -> Val:
    """(launch, window, address): looks through all allocations; a hit becomes the window."""
    launch, window, address = args
    table = b.load("ptr", 0, b.at(launch, LaunchFields.PLACES))
    with b.loop(b.load("i64", 0, b.at(launch, LaunchFields.PLACE_COUNT)).trunc("i32")) as i:
        place = b.at(table, i.zext("i64") * PlacedAllocation.SIZE)
        low, nbytes, delta = (
            b.load("i64", 0, b.at(place, x))
            for x in (PlacedAllocation.LOW, PlacedAllocation.NBYTES, PlacedAllocation.DELTA)
        )
        with b.when((address - low).ult(nbytes)):
            for at, v in (
                (PlacedAllocation.LOW, low),
                (PlacedAllocation.NBYTES, nbytes),
                (PlacedAllocation.DELTA, delta),
            ):
                b.store(v, b.at(window, at))
            out = address + delta
            b.ret(out)
    return b.integer("i64", NOWHERE)


# ---- one line ---------------------------------------------------------------------------------
def tag_group(b: Builder, line: Val) -> Val:
    """The tag lookup of a line: 0, 1, 2 or 3."""
    high, low = (b.intrinsic("ctpop", [line & mask]) & 1 for mask in TAG_GROUPS)
    return (high << 1) | low


class CachedLine:
    """The state of one line in L1, and the part of it that the block has reported to L2.

    lines  the counter of lines that enter its set; `stamp` is its value when this one entered
    """

    def __init__(self, b: Builder, worker: Val, line: Val) -> None:
        self.b = b
        cached = b.load("ptr", 0, b.at(worker, PerWorker.CACHED))
        self._place = b.at(cached, line << 3)
        word = b.load("i64", 0, self._place)
        sets = b.load("ptr", 0, b.at(worker, PerWorker.SETS))
        number = ((line * HASH) >> 40) & b.load("i64", 0, b.at(worker, PerWorker.SET_MASK))
        self.lines = b.at(sets, number << 2)
        self._count = b.load("i32", 0, self.lines)
        # Every block has a new generation, so the previous block's entries are not seen.
        generation = b.load("i64", 0, b.at(worker, PerWorker.GENERATION))
        self._generation = generation.trunc("i32")
        # As one number: a host that has just stored it is slow to load a half of it.
        word = word ^ generation
        self.stamp = (word >> CachedLineBits.STAMP_AT).trunc("i32")
        self._bits = word.trunc("i32")
        """Below 256 if the word is of this block."""

    @property
    def stays(self) -> Val:
        """True at run time if fewer lines have entered the set since than it holds."""
        return (self._count - self.stamp).ult(CachedLineBits.WAYS)

    def has(self, sectors: Val) -> Val:
        """True at run time if all of these sectors are in L1."""
        return (self._bits & (sectors | _OTHER_BLOCKS)).eq(sectors) & self.stays

    def is_noted(self, sectors: Val) -> Val:
        """True at run time if the block has reported these sectors to L2."""
        noted = sectors << CachedLineBits.NOTED_AT
        return (self._bits & (noted | _OTHER_BLOCKS)).eq(noted)

    @property
    def sectors(self) -> Val:
        """The sectors that are in L1."""
        there = (self._bits & _OTHER_BLOCKS).eq(0) & self.stays
        return self.b.select(there, self._bits & CachedLineBits.SECTORS, self.b.integer("i32", 0))

    def bring_back(self, sectors: Val) -> None:
        """Let the line enter again: L2 has these sectors recorded, and L1 has none of them."""
        b, count = self.b, self._count + 1
        b.store(count, self.lines)
        noted = self._bits & (CachedLineBits.SECTORS << CachedLineBits.NOTED_AT)
        self._store(count, self._generation | noted | sectors)

    def add(self, sectors: Val) -> None:
        """Let sectors of the line enter, or the line with them; L2 has been informed."""
        b, there = self.b, self.sectors
        comes = there.eq(0)
        count = self._count + comes.zext("i32")
        b.store(count, self.lines)
        stamp = b.select(comes, count, self.stamp)
        noted = b.select(
            (self._bits & _OTHER_BLOCKS).eq(0),
            self._bits & (CachedLineBits.SECTORS << CachedLineBits.NOTED_AT),
            b.integer("i32", 0),
        )
        low = self._generation | noted | there | sectors | (sectors << CachedLineBits.NOTED_AT)
        self._store(stamp, low)

    def _store(self, stamp: Val, low: Val) -> None:
        word = (stamp.zext("i64") << CachedLineBits.STAMP_AT) | low.zext("i64")
        self.b.store(word, self._place)


def look_up(b: Builder, route: str, launch: Val, worker: Val, line: Val, sectors: Val) -> Val:
    """Sectors (four bits) of a line that go to L2; they are recorded there."""
    if route == LOCAL:
        return b.integer("i32", 0)
    noted = b.helper(f"count_note_{route}", [P, P, I64, I32], None, lambda x, a: note(x, route, *a))
    if route != LOAD:
        noted(launch, worker, line, sectors)
        return sectors
    cached = CachedLine(b, worker, line)
    missing = sectors & ~cached.sectors
    with b.when(missing.ne(0)):
        cached.add(sectors)
        noted(launch, worker, line, missing)
    return missing


def note(b: Builder, route: str, launch: Val, worker: Val, line: Val, sectors: Val) -> None:
    """Pass sectors of a line through L2; they are read from memory unless written before.

    Other workers may change the word too; mostly its bits are set already.
    """
    place = b.at(b.load("ptr", 0, b.at(launch, LaunchFields.LINES)), line << 3)
    word, bits = b.load("i64", 0, place), b.load("i64", 0, b.at(worker, PerWorker.EPOCH))
    if route != STORE:
        bits = bits | (sectors & ~(word.trunc("i32") >> WRITTEN_AT)).zext("i64")
    if route in (STORE, CHANGE):
        bits = bits | (sectors << WRITTEN_AT).zext("i64")
    with b.when((bits & ~word).ne(0)):
        b.emit(f"{b.name()} = atomicrmw or {place.typed}, {bits.typed} monotonic")


# ---- neighbours -------------------------------------------------------------------------------
def count_range(b: Builder, route: str, span: int, width: int) -> Callable[..., Val]:
    """(launch, worker, row, first address): all lanes, `span` bytes without gaps.

    The cost depends only on the position of the first byte in its line, so that is counted.
    """
    name = f"count_range_{route}_{span}_{width}"
    return b.helper(name, [P, P, P, I64], None, lambda x, args: _range(x, args, route, span, width))


def _range(b: Builder, args: list[Val], route: str, span: int, width: int) -> None:
    launch, worker, row, address = args
    first = pretended(b, launch, row, address)
    with b.when(first.ne(NOWHERE)):
        inside = first & ((1 << LINE) - 1)
        count_place(b, row, inside, width)
        line, sector = first >> LINE, (inside >> SECTOR).trunc("i32")
        until = ((inside + (span - 1)) >> SECTOR).trunc("i32") + 1
        tags = (until + 3) >> 2
        with b.loop(tags) as i:
            high = b.smin(until - (i << 2), SECTORS_A_LINE)
            low = b.select(i.eq(0), sector, b.integer("i32", 0))
            mask = ((b.integer("i32", 1) << high) - 1) & (b.integer("i32", -1) << low)
            missing = look_up(b, route, launch, worker, line + i.zext("i64"), mask)
            _add_misses(b, route, row, missing)
        if span > width:
            near = (line & 3).trunc("i32") + tags  # four lines in a row take four lookups at once
            with b.when(near.ugt(4), rare=True):
                extra = b.helper("count_extra_waves", [P, I64, I32], None, _extra_waves)
                extra(row, line, tags)


def count_place(b: Builder, row: Val, inside: Val, width: int) -> None:
    """Count an access that begins at this position in its line."""
    unit = (width.bit_length() - 1) if width < SECTOR_BYTES else SECTOR
    bump(b, b.at(row, CounterRow.PLACES), (inside >> unit) << 3, b.integer("i64", 1))


def _extra_waves(b: Builder, args: list[Val]) -> None:
    """(row, first line, lines): wavefronts beyond the first of lines that follow one another."""
    row, line, tags = args
    groups = b.alloca("i64")
    b.store(b.integer("i64", 0), groups)
    with b.loop(tags) as i:
        count_group(b, groups, line + i.zext("i64"))
    bump(b, row, CounterRow.WAVEFRONTS, deepest(b, b.load("i64", 0, groups)) - 1)


def count_one(b: Builder, route: str, *, whole: bool) -> Callable[..., Val]:
    """(launch, worker, row, address, lanes): all active lanes name one address.

    A `whole` access is one of all lanes of its block, so only its misses are counted here.
    """

    def body(x: Builder, args: list[Val]) -> None:
        launch, worker, row, address, lanes = args
        p = pretended(x, launch, row, address)
        with x.when(p.ne(NOWHERE)):
            if not whole:
                count_request(x, row, lanes)
            bit = x.integer("i32", 1) << ((p >> SECTOR) & 3).trunc("i32")
            missing = look_up(x, route, launch, worker, p >> LINE, bit)
            _add_misses(x, route, row, missing)

    name = f"count_{'whole' if whole else 'one'}_{route}"
    return b.helper(name, [P, P, P, I64, I32], None, body)


def count_request(b: Builder, row: Val, lanes: Val) -> None:
    """Count a request by these lanes."""
    bump(b, row, CounterRow.REQUESTS, b.integer("i64", 1))
    bump(b, row, CounterRow.THREADS, b.intrinsic("ctpop", [lanes]))


def _add_misses(b: Builder, route: str, row: Val, missing: Val) -> None:
    """Count the misses of loads that look into L1; accesses on other routes always miss."""
    if route == LOAD:
        with b.when(missing.ne(0)):
            bump(b, row, CounterRow.MISSES, b.intrinsic("ctpop", [missing]))


def count_group(b: Builder, groups: Val, line: Val) -> None:
    """Increment one of four counters of 16 bits in one word."""
    one = b.integer("i64", 1) << (tag_group(b, line) << 4)
    b.store(b.load("i64", 0, groups) + one, groups)


def deepest(b: Builder, groups: Val) -> Val:
    fields = [((groups >> (16 * i)) & 0xFFFF).trunc("i32") for i in range(4)]
    return b.umax(b.umax(fields[0], fields[1]), b.umax(fields[2], fields[3]))
