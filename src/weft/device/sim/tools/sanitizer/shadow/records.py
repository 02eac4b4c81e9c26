"""Shadow records of memory: their location, and their format.

fast   lanes touch memory in a known pattern, or all touch one element: records are compared
       as vectors, and nothing changes where one of them is unexpected
exact  everything else, lane by lane; also what the fast path leaves
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from weft.device.sim.layout import SlotFields
from weft.device.sim.tools.sanitizer.clocks import Clocks
from weft.device.sim.tools.sanitizer.layout import (
    BlockState,
    FindingKind,
    LaunchState,
    Record,
    WorkerState,
)
from weft.device.sim.tools.sanitizer.order.words import put, word
from weft.device.sim.tools.sanitizer.report import report
from weft.ir import Builder, Val

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)


@dataclass(frozen=True)
class AccessPattern:
    """The access pattern of an instruction.

    strong  it is atomic, volatile or ordered
    needs   bytes, as bits, that must have been written before: nothing is read where it is 0
    cached  it reads through the read-only cache, which does not see the kernel's writes
    """

    writes: bool
    strong: bool
    nbytes: int
    needs: int
    cached: bool = False

    @property
    def reads(self) -> bool:
        """True if it reads the old value. An atomic both reads and writes."""
        return not self.writes or self.needs != 0

    @property
    def name(self) -> str:
        """An identifier of the code for it."""
        kind = "w" if self.writes else "c" if self.cached else "r"
        return f"{kind}{'s' if self.strong else ''}{self.nbytes}_{self.needs:x}"


@dataclass(frozen=True)
class Planes:
    """The records of an access, and its written bytes.

    filled  a byte per word whose low four bits mark the written bytes; 0 if all are;
            None if the records of writers determine it
    region  the row of the allocation; None in shared memory
    """

    writers: Val
    readers: Val
    filled: Val | None
    room: Val
    region: Val | None = None


@dataclass(frozen=True)
class Shadow:
    """The shared part of the code for a kernel's accesses."""

    clocks: Clocks
    slot: BlockState
    partly: bool
    """True if parts of words are written in shared memory."""
    summed: bool = False
    """True if there are summaries of shared memory: its newest write, its written words."""

    def started(self, b: Builder, slot: Val) -> None:
        """Start a block: nothing of its shared memory is written."""
        if self.partly:
            _start_bytes(b, slot)
        if self.summed:
            _start_summaries(b, slot)

    def released(self, b: Builder, slot: Val, number: Val) -> None:
        """Handle a barrier that opens."""
        if self.summed:
            _end_interval(b, slot, number, self.clocks.warps)

    def planes(
        self, b: Builder, slot: Val, p: Val, who: Val, address: Val, space: str,
        leave: Callable[[], None],
    ) -> Planes:  # fmt: skip
        """The records of an address; if there are none, the code of `leave` runs."""
        granule = address & ~3
        if space == "shared":
            rel = granule - word(b, slot, SlotFields.SHARED)
            size = word(b, slot, SlotFields.SHARED_BYTES)
            with b.when((address - word(b, slot, SlotFields.SHARED)).uge(size)):
                leave()
            readers = b.load("ptr", 0, b.at(p, BlockState.READERS))
            at = rel << 1
            filled = word(b, p, BlockState.FILLED) + (rel >> 2) if self.partly else None
            writers = b.at(b.at(p, self.slot.writers), at)
            return Planes(writers, b.at(readers, at), filled, size - rel)
        row = self._region(b, p, who, address, leave)
        rel = granule - word(b, row, LaunchState.LOW)
        at = rel << 1
        writers = b.load("ptr", 0, b.at(row, LaunchState.WRITERS))
        readers = b.load("ptr", 0, b.at(row, LaunchState.READERS))
        filled = word(b, row, LaunchState.FILLED)
        filled = filled.ne(0).select(filled + (rel >> 2), 0)
        room = word(b, row, LaunchState.BYTES) - rel
        # An array that the kernel cannot write has no records, and null stands for that.
        known = b.val("i64", 0, f"ptrtoint {writers.typed} to i64").ne(0)
        there = known.select(b.at(writers, at), b.val("ptr", 0, "inttoptr i64 0 to ptr"))
        return Planes(there, b.at(readers, at), filled, room, row)

    def _region(self, b: Builder, p: Val, who: Val, address: Val, leave: Callable[[], None]) -> Val:
        """The row of the allocation that contains an address; each site caches its last one."""
        worker = b.load("ptr", 0, b.at(p, BlockState.WORKER))
        cache = b.at(worker, (who & Record.SITES) * WorkerState.SITE + WorkerState.CACHE)
        held = word(b, cache)

        def remembered() -> Val:
            row = b.val("ptr", 0, f"inttoptr {held.typed} to ptr")
            inside = (address - word(b, row, LaunchState.LOW)).ult(word(b, row, LaunchState.BYTES))
            return b.either(inside, lambda: row, searched, likely=True)

        def searched() -> Val:
            fn = b.helper("sanitizer_region", [_P, _P, _I64, _I64], _P, _search, attrs="#2")
            row = fn(p, cache, who, address)
            with b.when(b.val("i64", 0, f"ptrtoint {row.typed} to i64").eq(0)):
                leave()
            return row

        return b.either(held.ne(0), remembered, searched)

    def tag(self, x: Builder, p: Val, warp: Val, site: Val, space: str) -> Val:
        """The record of the warp's current access, without its lane and bytes."""
        at = BlockState.SHARED_TAG if space == "shared" else BlockState.TAG
        return word(x, self.clocks.row(x, p, warp), at) | site

    def limits(self, x: Builder, p: Val, warp: Val, space: str) -> tuple[Val, Val]:
        """(base, limit): a record r with r - base < limit is ordered before the warp."""
        row = self.clocks.row(x, p, warp)
        if space == "shared":
            return x.integer("i64", 0), word(x, row, BlockState.SHARED_LIMIT)
        return word(x, p, BlockState.BASE), word(x, row, BlockState.LIMIT)

    def reads(self, x: Builder, p: Val, planes: Planes, record: Val) -> None:
        """Record that a reader's record is about to be written, none newer than this one."""
        if planes.region is None:
            newest = x.umax(word(x, p, BlockState.NEWEST_READ), record)
            put(x, newest, p, BlockState.NEWEST_READ)
            return
        with x.when(word(x, planes.region, LaunchState.READ).eq(0), rare=True):
            put(x, x.integer("i64", 1), planes.region, LaunchState.READ)

    def has_readers(self, x: Builder, p: Val, planes: Planes, limit: Val) -> Val:
        """True at run time if there may be records of readers that are not earlier."""
        if planes.region is None:
            return word(x, p, BlockState.NEWEST_READ).uge(limit)
        return word(x, planes.region, LaunchState.READ).ne(0)

    def wrote(self, x: Builder, p: Val, space: str, record: Val) -> None:
        """Record that a write with this record is the newest."""
        if self.summed and space == "shared":
            newest = x.umax(word(x, p, BlockState.NEWEST), record)
            put(x, newest, p, BlockState.NEWEST)

    def mark_written(
        self, x: Builder, p: Val, slot: Val, space: str, address: Val, words: Words
    ) -> None:
        """Record that words are written, from the word of an address on."""
        if not self.summed or space != "shared":
            return
        first = (address - word(x, slot, SlotFields.SHARED)) >> 2
        put(x, x.integer("i64", 1), p, BlockState.ANY_MARKED)
        for field in (BlockState.WRITTEN, BlockState.FRESH):
            mark(x, p, field, first, words)


NEWEST = (1 << Record.CLOCK) - 1
"""Added to a record, it is at least as new as any that the warp writes at its clock."""


def _crew(space: str) -> int:
    """The bits of a record that two lanes of one warp have in common."""
    return Record.WARPS | (Record.BLOCKS << Record.BLOCK if space == "global" else 0)


def is_known(r: Val, current: Val, space: str) -> Val:
    """True at run time if `with_reader` leaves an unordered record unchanged. A quick test."""
    differs = r ^ current
    own = (differs & Record.LANES).eq(0) | (r & 1 << Record.MANY).ne(0)
    return (own & (differs & Record.STRONG).eq(0)) | (differs & _crew(space)).ne(0)


def with_reader(r: Val, current: Val, earlier: Val, space: str) -> Val:
    """The record of a word's readers after one more access: `earlier` ones need not be stored.

    Lanes of one warp that read the same bytes share a record, which then belongs to no single lane.
    A plain read replaces an atomic or volatile one, which races with fewer accesses.
    """
    same = ((r ^ current) & _crew(space)).eq(0)
    alike = ((r ^ current) & Record.STRONG).eq(0)
    others = ((r ^ current) & Record.LANES).ne(0) & (r & current & Record.ALL_BYTES).ne(0)
    shared = (alike & others).select(r | (1 << Record.MANY), r)
    joined = (alike | (current & Record.STRONG).ne(0)).select(shared, current)
    return earlier.select(current, same.select(joined, r))


Words = int | Val
"""A bit for each of some words in a row; those of a `Val` are 32."""
_CHUNK = 56
"""Bits that are in eight bytes, whichever bit of the first byte they start at."""


def _places(x: Builder, p: Val, field: int, first: Val, words: Words) -> list[tuple[Val, Val]]:
    """(eight bytes of a summary, bits there) for the words from `first` on."""
    start, shift = x.at(x.load("ptr", 0, x.at(p, field)), first >> 3), first & 7
    if isinstance(words, Val):
        return [(start, words.zext("i64") << shift)]
    parts = ((i, words >> i & ((1 << _CHUNK) - 1)) for i in range(0, words.bit_length(), _CHUNK))
    return [(x.at(start, i // 8), x.integer("i64", bits) << shift) for i, bits in parts if bits]


def words_written(x: Builder, p: Val, first: Val, words: Words) -> Val:
    """True if all of these words of shared memory are written, from the word `first` on."""
    missing = x.integer("i64", 0)
    for at, bits in _places(x, p, BlockState.WRITTEN, first, words):
        missing = missing | (~x.load("i64", 0, at, 1) & bits)
    return missing.eq(0)


def words_in(x: Builder, p: Val, field: int, first: Val, words: Words) -> Val:
    """True if any of these words is in a summary (of the interval since the last barrier)."""
    there = x.integer("i64", 0)
    for at, bits in _places(x, p, field, first, words):
        there = there | (x.load("i64", 0, at, 1) & bits)
    return there.ne(0)


def mark(x: Builder, p: Val, field: int, first: Val, words: Words) -> None:
    """Add words to a summary."""
    for at, bits in _places(x, p, field, first, words):
        x.store(x.load("i64", 0, at, 1) | bits, at, 1)


def _start_bytes(b: Builder, slot: Val) -> None:
    """Mark all bytes of shared memory as unwritten."""

    def body(x: Builder, args: list[Val]) -> None:
        p = x.load("ptr", 0, x.at(args[0], SlotFields.OBSERVER))
        first = x.load("ptr", 0, x.at(p, BlockState.FILLED))
        # A byte for every four bytes, eight of them at a time.
        count = (word(x, args[0], SlotFields.SHARED_BYTES) >> 5) + 1
        with x.loop(count.trunc("i32")) as i:
            put(x, x.integer("i64", 0), x.at(first, i.zext("i64") << 3))

    b.helper("sanitizer_nothing_written", [_P], None, body)(slot)


def _start_summaries(b: Builder, slot: Val) -> None:
    """Mark all words of shared memory as unwritten and empty the log."""

    def body(x: Builder, args: list[Val]) -> None:
        p = x.load("ptr", 0, x.at(args[0], SlotFields.OBSERVER))
        for field in (
            BlockState.NEWEST, BlockState.LOGGED, BlockState.UNMARKED, BlockState.ANY_MARKED
        ):  # fmt: skip
            put(x, x.integer("i64", 0), p, field)
        filled = word(x, p, BlockState.FILLED)
        written = (filled + (word(x, args[0], SlotFields.SHARED_BYTES) >> 2) + 15) & ~7
        count = _summary_words(x, args[0])
        for k, field in enumerate((BlockState.WRITTEN, BlockState.FRESH, BlockState.READ)):
            put(x, written + count.zext("i64") * (8 * k), p, field)
        first = x.load("ptr", 0, x.at(p, BlockState.WRITTEN))
        with x.loop(count * 3) as i:
            put(x, x.integer("i64", 0), x.at(first, i.zext("i64") << 3))

    b.helper("sanitizer_summaries", [_P], None, body)(slot)


def _summary_words(x: Builder, slot: Val) -> Val:
    """The number of 64-bit words of a summary, plus one: reads of eight bytes start anywhere."""
    return (word(x, slot, SlotFields.SHARED_BYTES) >> 8).trunc("i32") + 2


def _end_interval(b: Builder, slot: Val, number: Val, warps: int) -> None:
    """Clear the summaries at a barrier of all warps: all writes are ordered before it."""

    def body(x: Builder, args: list[Val]) -> None:
        slot, number = args
        p = x.load("ptr", 0, x.at(slot, SlotFields.OBSERVER))
        arrived = x.load("i32", 0, x.at(p, (number.zext("i64") << 2) + BlockState.ARRIVED))
        with x.when(arrived.eq((1 << warps) - 1) & word(x, p, BlockState.ANY_MARKED).ne(0)):
            put(x, x.integer("i64", 0), p, BlockState.ANY_MARKED)
            first = x.load("ptr", 0, x.at(p, BlockState.FRESH))  # those that are read follow
            with x.loop(_summary_words(x, slot) << 1) as i:
                put(x, x.integer("i64", 0), x.at(first, i.zext("i64") << 3))

    b.helper("sanitizer_interval", [_P, _I32], None, body)(slot, number)


def is_missing(x: Builder, way: AccessPattern, written: list[Val], current: Val) -> Val:
    """True at run time if bytes that an access needs, or all of its bytes, are not written."""
    bits = ((current >> Record.BYTES) & 15).trunc("i32")
    some, none = x.integer("i1", 0), x.integer("i1", 1)
    for i, word_bits in enumerate(written):
        needed = bits if way.nbytes < 4 else x.integer("i32", way.needs >> 4 * i & 15)
        some = some | (needed & ~word_bits).ne(0)
        none = none & (bits & word_bits).eq(0)
    return some | none if way.needs else none


def check_written(
    x: Builder, p: Val, way: AccessPattern, written: list[Val], current: Val, address: Val
) -> None:
    """Report a read of unwritten bytes."""
    with x.when(is_missing(x, way, written, current), rare=True):
        report(x, p, FindingKind.UNINITIALISED, current, x.integer("i64", 0), address)


def bytes_of(x: Builder, address: Val, nbytes: int) -> Val:
    """The bytes of a word that an access covers, as four bits."""
    if nbytes >= 4:
        return x.integer("i64", Record.ALL_BYTES)
    return x.integer("i64", ((1 << nbytes) - 1) << Record.BYTES) << (address & 3)


def _search(b: Builder, args: list[Val]) -> Val:
    """(slot's, site's cache, who touches it, address) -> the region's row, or null.

    A site that touches another array than its own is reported, and does not cache it.
    """
    p, cache, who, address = args
    launch = b.load("ptr", 0, b.at(p, BlockState.LAUNCH))
    rows = b.load("ptr", 0, b.at(launch, LaunchState.REGIONS))
    with b.loop(word(b, launch, LaunchState.COUNT).trunc("i32")) as i:
        row = b.at(rows, i.zext("i64") * LaunchState.ROW)
        hit = (address - word(b, row, LaunchState.LOW)).ult(word(b, row, LaunchState.BYTES))
        with b.when(hit):
            owns = b.load("ptr", 0, b.at(launch, LaunchState.OWN))
            own = word(b, b.at(owns, (who & Record.SITES) << 3))
            low, nbytes = (word(b, row, at) for at in (LaunchState.LOW, LaunchState.BYTES))
            stays = (own - low).ult(nbytes) | own.eq(0)
            with b.when(stays):
                put(b, b.val("i64", 0, f"ptrtoint {row.typed} to i64"), cache)
                # No records are kept of it, and all of it is written.
                quiet = (word(b, row, LaunchState.WRITERS) | word(b, row, LaunchState.FILLED)).eq(0)
                put(b, low, cache, WorkerState.QUIET)
                put(b, b.select(quiet, nbytes, b.integer("i64", 0)), cache, WorkerState.QUIET + 8)
            with b.when(stays ^ 1):
                report(b, p, FindingKind.OTHER_ARRAY, who, own << Record.LANE, address)
            b.ret(row)
    return b.val("ptr", 0, "inttoptr i64 0 to ptr")
