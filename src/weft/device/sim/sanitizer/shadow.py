"""Shadow records of memory: where those of an address are, and what a warp's own look like.

shadow_quick  lanes touch memory in a pattern that is known, or all one element: compared as
              vectors, and left as they were wherever something is odd
shadow_exact  anything else, lane by lane; also what the quick ones leave
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.device.sim.layout import Slot as Block
from weft.device.sim.sanitizer.clocks import Clocks, put, word
from weft.device.sim.sanitizer.layout import Launch, Record, Slot, Worker
from weft.ir import Builder, Val

_P, _I64 = ("ptr", 0), ("i64", 0)


@dataclass(frozen=True)
class Planes:
    """Where the records of an access begin; `filled` is 0 unless the memory was fresh."""

    writers: Val
    readers: Val
    filled: Val | None
    room: Val


@dataclass(frozen=True)
class Shadow:
    """What the code for accesses of one kernel shares."""

    clocks: Clocks
    slot: Slot

    def planes(
        self, b: Builder, slot: Val, p: Val, site: Val, address: Val, space: str, none: str
    ) -> Planes:
        """The records of an address; jumps to `none` when there are none."""
        granule = address & ~3
        if space == "shared":
            rel = granule - word(b, slot, Block.SHARED)
            size = word(b, slot, Block.SHARED_BYTES)
            here = b.label("here")
            b.branch((address - word(b, slot, Block.SHARED)).ult(size), here, none)
            b.place(here)
            readers = b.load("ptr", 0, b.at(p, Slot.READERS))
            at = rel << 1
            return Planes(b.at(b.at(p, self.slot.writers), at), b.at(readers, at), None, size - rel)
        row = self._region(b, p, site, address, none)
        rel = granule - word(b, row, Launch.LOW)
        at = rel << 1
        writers = b.load("ptr", 0, b.at(row, Launch.WRITERS))
        readers = b.load("ptr", 0, b.at(row, Launch.READERS))
        filled = word(b, row, Launch.FILLED)
        filled = filled.ne(0).select(filled + (rel >> 2), 0)
        room = word(b, row, Launch.BYTES) - rel
        known = b.val("i64", 0, f"ptrtoint {writers.tref} to i64").ne(0)
        there = known.select(b.at(writers, at), b.val("ptr", 0, "inttoptr i64 0 to ptr"))
        return Planes(there, b.at(readers, at), filled, room)

    def _region(self, b: Builder, p: Val, site: Val, address: Val, none: str) -> Val:
        worker = b.load("ptr", 0, b.at(p, Slot.WORKER))
        cache = b.at(worker, ((site & Record.SITES) << 3) + Worker.CACHE)
        held = word(b, cache)
        look, search, found = b.label("look"), b.label("search"), b.label("found")
        b.branch(held.ne(0), look, search)
        b.place(look)
        row = b.val("ptr", 0, f"inttoptr {held.tref} to ptr")
        inside = (address - word(b, row, Launch.LOW)).ult(word(b, row, Launch.BYTES))
        looked = b.block
        b.emit(f"br {inside.tref}, label %{found}, label %{search}, !prof !2")
        b.place(search)
        fn = b.helper("sanitizer_region", [_P, _P, _I64], _P, _search, attrs="#2")
        other = fn(p, cache, address)
        missing = b.val("i64", 0, f"ptrtoint {other.tref} to i64").eq(0)
        searched = b.block
        b.branch(missing, none, found)
        b.place(found)
        return b.phi("ptr", 0, [(row, looked), (other, searched)])

    def tag(self, x: Builder, p: Val, warp: Val, site: Val, space: str) -> Val:
        """The record of what a warp does now, but for its lane and bytes."""
        at = Slot.SHARED_TAG if space == "shared" else Slot.TAG
        return word(x, self.clocks.row(x, p, warp), at) | site

    def limits(self, x: Builder, p: Val, warp: Val, space: str) -> tuple[Val, Val]:
        """(base, limit): a record r with r - base < limit is ordered before the warp."""
        row = self.clocks.row(x, p, warp)
        if space == "shared":
            return x.integer("i64", 0), word(x, row, Slot.SHARED_LIMIT)
        return word(x, p, Slot.BASE), word(x, row, Slot.LIMIT)


def letter(writes: bool, strong: bool) -> str:
    """Names the code for a kind of access."""
    return ("w" if writes else "r") + ("s" if strong else "")


def with_reader(r: Val, mine: Val, earlier: Val, space: str) -> Val:
    """The record of a word's readers after one more access: `earlier` ones need not be kept.

    Lanes of one warp that read the same bytes share a record, so that it is nobody's own. A plain
    read is kept rather than an atomic or volatile one, which races with less.
    """
    crew = Record.WARPS | (Record.BLOCKS << Record.BLOCK if space == "global" else 0)
    same = ((r ^ mine) & crew).eq(0)
    alike = ((r ^ mine) & Record.STRONG).eq(0)
    others = ((r ^ mine) & Record.LANES).ne(0) & (r & mine & Record.ALL_BYTES).ne(0)
    shared = (alike & others).select(r | (1 << Record.MANY), r)
    joined = (alike | (mine & Record.STRONG).ne(0)).select(shared, mine)
    return earlier.select(mine, same.select(joined, r))


def bytes_of(x: Builder, address: Val, nbytes: int) -> Val:
    """Which of the four bytes an access covers."""
    if nbytes >= 4:
        return x.integer("i64", Record.ALL_BYTES)
    return x.integer("i64", ((1 << nbytes) - 1) << Record.BYTES) << (address & 3)


def _search(b: Builder, args: list[Val]) -> Val:
    """(slot's, site's cache, address) -> the region's row, or null."""
    p, cache, address = args
    launch = b.load("ptr", 0, b.at(p, Slot.LAUNCH))
    rows = b.load("ptr", 0, b.at(launch, Launch.REGIONS))
    with b.loop(word(b, launch, Launch.COUNT).trunc("i32")) as i:
        row = b.at(rows, i.zext("i64") * Launch.ROW)
        hit = (address - word(b, row, Launch.LOW)).ult(word(b, row, Launch.BYTES))
        with b.when(hit):
            put(b, b.val("i64", 0, f"ptrtoint {row.tref} to i64"), cache)
            b.emit(f"ret {row.tref}")
            b.place(b.label("never"))
    return b.val("ptr", 0, "inttoptr i64 0 to ptr")
