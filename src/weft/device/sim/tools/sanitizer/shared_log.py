"""Batches of accesses to shared memory: checked by one call, recorded only if that matters.

A batch is valid if the words that it reads are written and ordered before it, and if the words that
it writes were neither read nor written since the last synchronisation. This follows from the newest
write of the block and from three bits for every word: it is written, it is written since the last
barrier of all warps, it is read since then. The records of a batch matter only to accesses before
the next barrier. So the batch is stored in a log. The log is dropped at a barrier of all warps;
before anything else that depends on the records, `apply` makes the records of all its batches, in
the same order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Protocol

from weft.device.sim.access import MemoryAccess
from weft.device.sim.analyse.form import ZERO
from weft.device.sim.layout import SlotFields, Space
from weft.device.sim.memory.resolve import resolve
from weft.device.sim.tools.sanitizer.batches import AccessBatch, BatchAccess
from weft.device.sim.tools.sanitizer.bounds import SharedVariable
from weft.device.sim.tools.sanitizer.checking import Checking
from weft.device.sim.tools.sanitizer.layout import BlockState, WorkerState
from weft.device.sim.tools.sanitizer.order.words import put, word
from weft.device.sim.tools.sanitizer.shadow.fast import FastShadow, pattern_of
from weft.device.sim.tools.sanitizer.shadow.records import (
    NEWEST,
    AccessPattern,
    Words,
    mark,
    words_in,
    words_written,
)
from weft.ir import Builder, Val
from weft.ptx.model import Instruction, Mem

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)
_WARP = 16
"""The first bit of the warp in the head of an entry; below it is the number of the batch."""
WordsOf = Callable[[Sequence[BatchAccess]], list[tuple[Val, Words]]]
"""(first word, words) that accesses of a batch touch."""


class ShadowWatcher(Checking, Protocol):
    """A watcher with both kinds of shadow records."""

    fast: FastShadow
    variables: dict[int, SharedVariable]

    def way_of(self, ins: Instruction, nbytes: int, writes: bool) -> AccessPattern:
        """The access pattern of a plain access."""


class SharedLog:
    """The code for the batches of one kernel."""

    def __init__(self, w: ShadowWatcher, batches: Sequence[AccessBatch]) -> None:
        self.w, self.batches = w, batches
        self._of = {t.ins.index: s for s in batches for t in s.touches}

    def checked(self, access: MemoryAccess) -> Val | None:
        """True at run time if this access is checked, with others; None if it is in no batch."""
        s = self._of.get(access.ins.index)
        if s is None:
            return None
        if access.ins is s.touches[0].ins:
            s.ok = self._check(s)
        return s.ok

    def _check(self, s: AccessBatch) -> Val:
        e, b = self.w.e, self.w.e.b
        places = []
        for base in s.bases:
            at = resolve(e, Mem(base.operand, base.lowest), Space.SHARED).inside
            assert at is not None
            places.append(at[0])

        def all_lanes() -> Val:
            kinds = [_P, _I32, *[_I64] * len(places)]
            name = f"sanitizer_batch_{s.number}"
            fn = b.helper(name, kinds, ("i1", 0), functools.partial(self._full, s=s))
            return fn(e.slot, e.warp, *places)

        def some_lanes() -> Val:
            if not s.in_rows:
                return b.integer("i1", 0)
            kinds = [_P, _I32, _I32, *[_I64] * len(places)]
            name = f"sanitizer_some_of_batch_{s.number}"
            fn = b.helper(name, kinds, ("i1", 0), functools.partial(self._some, s=s))
            return fn(e.slot, e.warp, lanes, *places)

        if e.executes_fully:
            return all_lanes()
        lanes = e.executing()
        return b.either(lanes.eq(-1), all_lanes, some_lanes, likely=not s.in_rows)

    def _full(self, x: Builder, args: list[Val], s: AccessBatch) -> Val:
        """(slot, warp, place of each base in shared memory ...) -> true if valid and recorded."""
        slot, warp, *places = args

        def words(touches: Sequence[BatchAccess]) -> list[tuple[Val, Words]]:
            return [(places[i] >> 2, bits) for i, bits in s.words(touches)]

        return self._batch(x, s, slot, warp, x.integer("i32", -1), places, words)

    def _some(self, x: Builder, args: list[Val], s: AccessBatch) -> Val:
        """(slot, warp, lanes, places): the same for some lanes, which are in rows."""
        slot, warp, lanes, *places = args

        def words(touches: Sequence[BatchAccess]) -> list[tuple[Val, Words]]:
            return [((places[t.base] + t.offset) >> 2, lanes) for t in touches]

        return self._batch(x, s, slot, warp, lanes, places, words)

    def _batch(
        self, x: Builder, s: AccessBatch, slot: Val, warp: Val, lanes: Val, places: Sequence[Val],
        words: WordsOf,
    ) -> Val:  # fmt: skip
        p = x.load("ptr", 0, x.at(slot, SlotFields.OBSERVER))
        row = self.w.clocks.row(x, p, warp)
        tag, limit = (word(x, row, k) for k in (BlockState.SHARED_TAG, BlockState.SHARED_LIMIT))
        size = word(x, slot, SlotFields.SHARED_BYTES)
        ok = x.integer("i1", 1)
        for base, at in zip(s.bases, places, strict=True):
            ok = ok & at.ult(size) & (at + base.nbytes).ule(size) & (at & 3).eq(0)
            if base.variable is not None:
                start, end = base.variable.start, base.variable.start + base.variable.size
                ok = ok & at.uge(start) & (at + base.nbytes).ule(end)
        if s.write is not None:
            # Reads that have left no bits may be of these words.
            ok = ok & (word(x, p, BlockState.NEWEST_READ).ult(limit))
            ok = ok & word(x, p, BlockState.UNMARKED).eq(0)
        _unless(x, ok)
        self._check_order(x, p, s, limit, words)
        for first, bits in words(s.reads):
            _unless(x, words_written(x, p, first, bits))
        if s.marks:
            for first, bits in words(s.others):
                mark(x, p, BlockState.READ, first, bits)
            put(x, x.integer("i64", 1), p, BlockState.ANY_MARKED)
        else:
            put(x, x.integer("i64", 1), p, BlockState.UNMARKED)
        if s.write is not None:
            for first, bits in words([s.write]):
                _unless(x, words_in(x, p, BlockState.READ, first, bits) ^ 1)
                mark(x, p, BlockState.WRITTEN, first, bits)
                mark(x, p, BlockState.FRESH, first, bits)
            newest = x.umax(word(x, p, BlockState.NEWEST), tag | NEWEST)
            put(x, newest, p, BlockState.NEWEST)
        self._note(x, p, s, slot, warp, lanes, tag, places)
        return x.integer("i1", 1)

    def _check_order(self, x: Builder, p: Val, s: AccessBatch, limit: Val, words: WordsOf) -> None:
        """Leave unless all earlier writes to the words are ordered before the warp."""
        with x.when(word(x, p, BlockState.NEWEST).uge(limit), rare=s.write is None):
            for first, bits in words(s.touches):
                _unless(x, words_in(x, p, BlockState.FRESH, first, bits) ^ 1)

    def _note(
        self, x: Builder, p: Val, s: AccessBatch, slot: Val, warp: Val, lanes: Val, tag: Val,
        places: Sequence[Val],
    ) -> None:  # fmt: skip
        """Add an entry to the log."""
        with x.when(word(x, p, BlockState.LOGGED).eq(BlockState.ENTRIES), rare=True):
            self.apply(x, slot)
        count = word(x, p, BlockState.LOGGED)
        entry = x.at(p, count * BlockState.ENTRY + self.w.layout.log)
        put(x, count + 1, p, BlockState.LOGGED)
        put(x, (lanes.zext("i64") << 32) | (warp.zext("i64") << _WARP) | s.number, entry)
        put(x, tag, entry, 8)
        for i, at in enumerate(places):
            put(x, at, entry, BlockState.PLACES + 8 * i)
        worker = x.load("ptr", 0, x.at(p, BlockState.WORKER))
        accesses = x.intrinsic("ctpop", [lanes]).zext("i64") * len(s.touches)
        put(x, word(x, worker, WorkerState.ACCESSES) + accesses, worker, WorkerState.ACCESSES)

    # ---- the log ----------------------------------------------------------------------------
    def flush(self, b: Builder, slot: Val) -> None:
        """Make the records of the log."""
        if not self.batches:
            return
        p = b.load("ptr", 0, b.at(slot, SlotFields.OBSERVER))
        with b.when(word(b, p, BlockState.LOGGED).ne(0), rare=True):
            self.apply(b, slot)

    def met(self, b: Builder, slot: Val, number: Val) -> None:
        """Drop the log at a barrier of all warps: nothing later depends on earlier records."""
        if not self.batches:
            return
        everyone = (1 << self.w.clocks.warps) - 1

        def body(x: Builder, args: list[Val]) -> None:
            slot, number = args
            p = x.load("ptr", 0, x.at(slot, SlotFields.OBSERVER))
            arrived = x.load("i32", 0, x.at(p, (number.zext("i64") << 2) + BlockState.ARRIVED))
            with x.when(arrived.eq(everyone)):
                _empty(x, p)
            self.flush(x, slot)

        b.helper("sanitizer_log_met", [_P, _I32], None, body)(slot, number)

    def apply(self, b: Builder, slot: Val) -> None:
        """Make the records of all batches in the log, and empty it."""
        b.emit(f"call void @sanitizer_apply({slot.typed})")

    def started(self, b: Builder) -> None:
        """Start a block. All code of the kernel has been made."""
        if self.batches:
            # Only now: it names instructions, which have numbers in the order of the code.
            b.helper("sanitizer_apply", [_P], None, self._apply, attrs="#2")

    def _apply(self, x: Builder, args: list[Val]) -> None:
        (slot,) = args
        p = x.load("ptr", 0, x.at(slot, SlotFields.OBSERVER))
        count = word(x, p, BlockState.LOGGED).trunc("i32")
        with x.loop(count) as i:
            entry = x.at(p, i.zext("i64") * BlockState.ENTRY + self.w.layout.log)
            head = word(x, entry)
            lanes, low = (head >> 32).trunc("i32"), head.trunc("i32")
            warp, number = (low >> _WARP) & 31, low & ((1 << _WARP) - 1)
            # The warp's lanes may have met since: its records are those of the time of the batch.
            row = self.w.clocks.row(x, p, warp)
            now = word(x, row, BlockState.SHARED_TAG)
            put(x, word(x, entry, 8), row, BlockState.SHARED_TAG)
            for s in self.batches:
                with x.when(number.eq(s.number)):
                    fn = x.helper(
                        f"sanitizer_replay_{s.number}",
                        [_P, _I32, _I32, _P],
                        None,
                        functools.partial(self._replay, s=s),
                    )
                    fn(slot, warp, lanes, x.at(entry, BlockState.PLACES))
            put(x, now, row, BlockState.SHARED_TAG)
        _empty(x, p)

    def _replay(self, x: Builder, args: list[Val], s: AccessBatch) -> None:
        """(slot, warp, lanes, places of the bases): makes the records of each access, in order."""
        slot, warp, lanes, places = args
        start = word(x, slot, SlotFields.SHARED)
        table, null = x.array("i64", 32), x.val("ptr", 0, "inttoptr i64 0 to ptr")
        for t in s.touches:
            w, way = self.w, self.w.way_of(t.ins, t.nbytes, t.writes)
            first = start + word(x, places, 8 * t.base) + t.offset
            who = (slot, warp, x.integer("i64", w.number(t.ins)), first)
            pattern, each = pattern_of(t.off, t.nbytes, t.writes), lanes
            if t.off == ZERO:
                done, each = w.fast.one(x, "shared", way)(*who, lanes), x.integer("i32", 1)
            elif pattern is None:
                done = x.integer("i1", 0)
            elif s.in_rows:
                row, some = w.fast.row(x, "shared", t.writes, pattern), w.fast.some(x, t.writes)
                done = x.either(
                    lanes.eq(-1), functools.partial(row, *who), functools.partial(some, *who, lanes)
                )
            else:
                done = w.fast.row(x, "shared", t.writes, pattern)(*who)
            with x.when(done ^ 1):
                x.store(x.splat(first, 32) + x.lanes("i64", t.off), table, 64)
                w.exact.lanes(x, "shared", way, t.nbytes)(*who[:3], table, each, null)


def _unless(x: Builder, ok: Val) -> None:
    """Return unless `ok` holds: each access is then checked by itself."""
    with x.when(ok ^ 1, rare=True):
        x.ret(x.integer("i1", 0))


def _empty(x: Builder, p: Val) -> None:
    """Empty the log."""
    for field in (BlockState.LOGGED, BlockState.UNMARKED):
        put(x, x.integer("i64", 0), p, field)
