"""The bulk copies of a block that have been issued and have not landed: a list in memory.

Entries stay in the order of issue. The functions here are compiled out of line, once a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import Space
from weft.device.sim.memory.atomics import Operation
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
    SIZE = HEADER + ENTRY * LIMIT


class Reduction(NamedTuple):
    """The operation of a copy on its target's elements; `near` in shared memory."""

    op: str
    ptx_type: str
    near: bool

    def apply(self, b: Builder, target: Val, source: Val, nbytes: Val) -> None:
        """Apply it element by element. f32 is added without flushing, in global memory too."""
        what = Operation("", self.op, self.ptx_type, Space.SHARED if self.near else Space.GENERIC)
        near = b.integer("i1", 1) if what.by_address and self.ptx_type == "f32" else None
        with b.loop(b.binary("udiv", nbytes, b.integer("i32", what.size))) as i:
            at = i.zext("i64") * what.size
            what.apply(b, b.at(target, at), [b.load(what.ty, 0, b.at(source, at))], near)


def add(b: Builder, kinds: Sequence[Reduction]) -> Callable[..., object]:
    """The function (list, data, lanes, kind, warp, group): an entry for every lane.

    `data` has 32 sizes, then from byte 256 on 32 targets, sources and barriers each.
    """

    def body(b: Builder, args: list[Val]) -> None:
        pending, data, lanes, kind, warp, group = args

        def one(lane: Val) -> None:
            with b.when(_field(b, pending, PendingCopies.COUNT).eq(PendingCopies.LIMIT), rare=True):
                everything = b.integer("i32", EVERYTHING)
                land(b, kinds)(pending, b.integer("i64", 0), everything, group)
            count = _field(b, pending, PendingCopies.COUNT)
            entry = _entry(b, pending, count)
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

    return b.helper("bulk_add", [_P, _P, _I32, _I32, _I32, _I32], None, body)


def land(b: Builder, kinds: Sequence[Reduction]) -> Callable[..., object]:
    """The function (list, barrier, warp, limit): completes the copies that report to the barrier,
    or, if that is 0, those of the warp's groups before the limit, or all (EVERYTHING).
    """

    def body(b: Builder, args: list[Val]) -> None:
        pending, barrier, warp, limit = args
        kept = b.alloca("i32")
        b.store(b.integer("i32", 0), kept)
        with b.loop(_field(b, pending, PendingCopies.COUNT)) as i:
            entry = _entry(b, pending, i)
            reports = b.load("i64", 0, b.at(entry, PendingCopies.BARRIER), 8)
            old = (_field(b, entry, PendingCopies.OF_GROUP) - limit).slt(0)
            own = reports.eq(0) & _field(b, entry, PendingCopies.WARP).eq(warp) & old
            # A copy with a barrier belongs to no group: waiting for groups leaves it alone.
            hit = b.select(barrier.eq(0), own, reports.eq(barrier)) | warp.eq(EVERYTHING)
            with b.when(hit):
                _carry_out(b, kinds, entry, reports)
            with b.when(hit ^ 1):  # entries that stay move up, so that the order of issue is kept
                j = b.load("i32", 0, kept)
                for at in range(0, PendingCopies.ENTRY, 8):
                    word = b.load("i64", 0, b.at(entry, at), 8)
                    b.store(word, b.at(_entry(b, pending, j), at), 8)
                b.store(j + 1, kept)
        b.store(b.load("i32", 0, kept), b.at(pending, PendingCopies.COUNT))

    return b.helper("bulk_land", [_P, _I64, _I32, _I32], None, body)


def _carry_out(b: Builder, kinds: Sequence[Reduction], entry: Val, reports: Val) -> None:
    """Execute an entry: kind 0 copies; the reductions are numbered from 1."""
    target, source = (b.load("ptr", 0, b.at(entry, 8 * i), 8) for i in range(2))
    nbytes, kind = _field(b, entry, PendingCopies.NBYTES), _field(b, entry, PendingCopies.KIND)
    # `check_ranges` has tested that sizes and addresses are multiples of UNIT.
    with b.when(kind.eq(0)), b.loop(nbytes >> 4) as i:
        at = i.zext("i64") << 4
        b.store(b.load("i32", 4, b.at(source, at), UNIT), b.at(target, at), UNIT)
    for number, reduction in enumerate(kinds, 1):
        with b.when(kind.eq(number)):
            reduction.apply(b, target, source, nbytes)
    with b.when(reports.ne(0)):
        word = b.val("ptr", 0, f"inttoptr {reports.typed} to ptr")
        b.store(completed(b, b.load("i64", 0, word, 8), nbytes.zext("i64")), word, 8)


def _field(b: Builder, p: Val, at: int) -> Val:
    return b.load("i32", 0, b.at(p, at))


def _entry(b: Builder, pending: Val, number: Val) -> Val:
    return b.at(b.at(pending, PendingCopies.HEADER), number.zext("i64") * PendingCopies.ENTRY)
