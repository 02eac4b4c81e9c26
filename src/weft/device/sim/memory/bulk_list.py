"""The bulk copies of a block that have been issued and have not landed: a list in memory.

Entries stay in the order of issue. The functions here are compiled out of line, once a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import Space
from weft.device.sim.memory.atomics import Operation
from weft.device.sim.memory.mbarrier_ledger import note_arrived
from weft.device.sim.memory.mbarriers import completed
from weft.ir import Builder, Val

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)
UNIT = 16
"""Addresses and sizes are multiples of this number of bytes."""
EVERYTHING = -1
"""Given instead of a warp: every copy completes."""


class PendingCopies:
    """The list: its number of copies and (in each warp's own) the group being collected."""

    COUNT, GROUP = 0, 4
    HEADER = 16
    TARGET, SOURCE, BARRIER, NBYTES, KIND, WARP, OF_GROUP = 0, 8, 16, 24, 28, 32, 36
    ENTRY = 40
    LIMIT = 64


class Transfer(Protocol):
    """A kind of entry: an operation that is more than a copy of bytes."""

    def carry_out(self, b: Builder, entry: Val) -> None:
        """Execute an entry of this kind, except for its report to an mbarrier."""


class Entries(NamedTuple):
    """The list of one kernel: the kinds of its entries, numbered from 1, and the size of each.

    ledger   the distance of the ledger of mbarriers from the list
    """

    kinds: Sequence[Transfer]
    nbytes: int = PendingCopies.ENTRY
    limit: int = PendingCopies.LIMIT
    ledger: int = 0

    @property
    def size(self) -> int:
        return PendingCopies.HEADER + self.nbytes * self.limit

    def at(self, b: Builder, pending: Val, number: Val) -> Val:
        """An entry of the list."""
        return b.at(b.at(pending, PendingCopies.HEADER), number.zext("i64") * self.nbytes)


class BulkReduction(NamedTuple):
    """The operation of a copy on its target's elements; `near` in shared memory."""

    op: str
    ptx_type: str
    near: bool

    def carry_out(self, b: Builder, entry: Val) -> None:
        """Apply it element by element. f32 is added without flushing, in global memory too."""
        target, source = _ends(b, entry)
        nbytes = _field(b, entry, PendingCopies.NBYTES)
        what = Operation("", self.op, self.ptx_type, Space.SHARED if self.near else Space.GENERIC)
        near = b.integer("i1", 1) if what.by_address and self.ptx_type == "f32" else None
        with b.loop(b.binary("udiv", nbytes, b.integer("i32", what.size))) as i:
            at = i.zext("i64") * what.size
            what.apply(b, b.at(target, at), [b.load(what.ty, 0, b.at(source, at))], near)


def add(b: Builder, entries: Entries, *, tensor: bool = False) -> Callable[..., object]:
    """The function (list, data, lanes, kind, warp, group, jobs): an entry for every lane.

    `data` has 32 sizes, then from byte 256 on 32 targets, sources and barriers each. A tensor copy
    has `jobs`: 32 entries, whose words after these are copied.
    """
    more = range(PendingCopies.ENTRY, entries.nbytes, 8) if tensor else ()

    def body(b: Builder, args: list[Val]) -> None:
        pending, data, lanes, kind, warp, group, jobs = args

        def one(lane: Val) -> None:
            with b.when(_field(b, pending, PendingCopies.COUNT).eq(entries.limit), rare=True):
                everything = b.integer("i32", EVERYTHING)
                land(b, entries)(pending, b.integer("i64", 0), everything, group)
            count = _field(b, pending, PendingCopies.COUNT)
            entry = entries.at(b, pending, count)
            for at in more:
                word = b.at(b.at(jobs, at), lane.zext("i64") * entries.nbytes)
                b.store(b.load("i64", 0, word, 8), b.at(entry, at), 8)
            for i, at in enumerate(
                (PendingCopies.TARGET, PendingCopies.SOURCE, PendingCopies.BARRIER), 1
            ):
                place = b.at(data, (lane.zext("i64") << 3) + 256 * i)
                b.store(b.load("i64", 0, place, 8), b.at(entry, at), 8)
            nbytes = b.load("i32", 0, b.at(data, lane.zext("i64") << 2))
            for i, v in enumerate((nbytes, kind, warp, group)):
                b.store(v, b.at(entry, PendingCopies.NBYTES + 4 * i))
            b.store(count + 1, b.at(pending, PendingCopies.COUNT))

        each_lane(b, lanes, one)

    return b.helper(
        "tensor_add" if tensor else "bulk_add", [_P, _P, _I32, _I32, _I32, _I32, _P], None, body
    )


def land(b: Builder, entries: Entries) -> Callable[..., object]:
    """The function (list, barrier, warp, limit): completes the copies that report to the barrier,
    or, if that is 0, those of the warp's groups before the limit, or all (EVERYTHING).
    """

    def body(b: Builder, args: list[Val]) -> None:
        pending, barrier, warp, limit = args
        kept = b.alloca("i32")
        b.store(b.integer("i32", 0), kept)
        with b.loop(_field(b, pending, PendingCopies.COUNT)) as i:
            entry = entries.at(b, pending, i)
            reports = b.load("i64", 0, b.at(entry, PendingCopies.BARRIER), 8)
            old = (_field(b, entry, PendingCopies.OF_GROUP) - limit).slt(0)
            own = reports.eq(0) & _field(b, entry, PendingCopies.WARP).eq(warp) & old
            # A copy with a barrier belongs to no group: waiting for groups leaves it alone.
            hit = b.select(barrier.eq(0), own, reports.eq(barrier)) | warp.eq(EVERYTHING)
            with b.when(hit):
                _carry_out(b, entries, pending, entry, reports)
            with b.when(hit ^ 1):  # entries that stay move up, so that the order of issue is kept
                j = b.load("i32", 0, kept)
                for at in range(0, entries.nbytes, 8):
                    word = b.load("i64", 0, b.at(entry, at), 8)
                    b.store(word, b.at(entries.at(b, pending, j), at), 8)
                b.store(j + 1, kept)
        b.store(b.load("i32", 0, kept), b.at(pending, PendingCopies.COUNT))

    return b.helper("bulk_land", [_P, _I64, _I32, _I32], None, body)


def _carry_out(b: Builder, entries: Entries, pending: Val, entry: Val, reports: Val) -> None:
    """Execute an entry: kind 0 copies; the others are numbered from 1."""
    nbytes, kind = _field(b, entry, PendingCopies.NBYTES), _field(b, entry, PendingCopies.KIND)
    # `check_ranges` has tested that sizes and addresses are multiples of UNIT.
    with b.when(kind.eq(0)):
        target, source = _ends(b, entry)
        with b.loop(nbytes >> 4) as i:
            at = i.zext("i64") << 4
            b.store(b.load("i32", 4, b.at(source, at), UNIT), b.at(target, at), UNIT)
    for number, transfer in enumerate(entries.kinds, 1):
        with b.when(kind.eq(number)):
            transfer.carry_out(b, entry)
    with b.when(reports.ne(0)):
        barrier = b.val("ptr", 0, f"inttoptr {reports.typed} to ptr")
        word, count = b.load("i64", 0, barrier, 8), nbytes.zext("i64")
        if entries.ledger:
            note_arrived(b, b.at(pending, entries.ledger), barrier, word, count)
        b.store(completed(b, word, count), barrier, 8)


def _field(b: Builder, p: Val, at: int) -> Val:
    return b.load("i32", 0, b.at(p, at))


def _ends(b: Builder, entry: Val) -> tuple[Val, Val]:
    """The target and the source of a copy."""
    target, source = (
        b.load("ptr", 0, b.at(entry, at), 8) for at in (PendingCopies.TARGET, PendingCopies.SOURCE)
    )
    return target, source
