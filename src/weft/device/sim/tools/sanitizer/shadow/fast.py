"""The fast path of the shadow records: those of a whole warp are checked and renewed at once.

    row   lanes touch memory in a known pattern: records are compared as vectors
    some  the same for some lanes of a row of words in shared memory
    one   all lanes touch one element

They return true when done. If not, nothing has changed and `ExactShadow.lanes` checks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from weft.device.sim.layout import SlotFields
from weft.device.sim.tools.sanitizer.layout import BlockState, Record, WorkerState
from weft.device.sim.tools.sanitizer.order.words import put, word
from weft.device.sim.tools.sanitizer.shadow.records import (
    NEWEST,
    AccessPattern,
    Planes,
    Shadow,
    Words,
    bytes_of,
    is_known,
    with_reader,
    words_in,
    words_written,
)
from weft.ir import Builder, Val

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)
WIDE = 8
"""Records that are compared at a time."""
Pattern = tuple[int, ...]
"""For each word from the lowest on, the bits of the lanes that touch it; -1 for none."""
LINE = 64
"""Bytes of a line of the host's caches."""
SPAN = 128
"""The maximum number of words that are compared at once."""


def pattern_of(off: tuple[int, ...], nbytes: int, writes: bool) -> Pattern | None:
    """The pattern of 32 lanes at these distances; None if they must be checked lane by lane."""
    words: dict[int, int] = {}
    partly = nbytes < 4
    if any(x % min(nbytes, 4) for x in off) or max(off) + nbytes > 4 * SPAN:
        return None
    # In a row, parts of words cover whole words, and the records need no masks of bytes.
    if partly and off != tuple(range(0, 32 * nbytes, nbytes)):
        return None
    for lane, x in enumerate(off):
        for i in range(x // 4, max(x // 4 + 1, (x + nbytes) // 4)):
            # Two lanes write one word: whether that is a race depends on their values.
            if i in words and writes and not partly:
                return None
            many = 1 << Record.MANY
            words[i] = words[i] | many if i in words else lane << Record.LANE
    count = -(-(max(words) + 1) // WIDE) * WIDE
    return tuple(words.get(i, -1) for i in range(count))


IN_A_ROW = tuple(lane << Record.LANE for lane in range(32))
"""The pattern of lanes with a word each, one after the other."""


@dataclass(frozen=True)
class TouchedWords:
    """The words that an access touches: all of a pattern, or those of some `lanes` IN_A_ROW."""

    x: Builder
    pattern: Pattern
    lanes: Val | None = None

    def of(self, i: int) -> Val | None:
        """The touched words from i on; None: all of them."""
        if self.lanes is not None:
            weights = self.x.lanes("i32", [1 << lane for lane in range(i, i + WIDE)])
            return (self.x.splat(self.lanes, WIDE) & weights).ne(0)
        bits = [r >= 0 for r in self.pattern[i : i + WIDE]]
        return None if all(bits) else self.x.lanes("i1", bits)

    @property
    def words(self) -> Words:
        """The same as bits."""
        if self.lanes is not None:
            return self.lanes
        return sum(1 << i for i, r in enumerate(self.pattern) if r >= 0)


class FastShadow(Shadow):
    """The code for regular accesses of one kernel."""

    def row(
        self, b: Builder, space: str, writes: bool, pattern: Pattern, cached: bool = False
    ) -> Callable[..., Val]:
        """(slot, warp, site, lowest address) -> true if done. All lanes run."""

        def body(x: Builder, args: list[Val]) -> Val:
            slot, warp, site, first = args
            # The access itself reports addresses outside its allocation.
            touched = TouchedWords(x, pattern)
            return self._row(x, slot, warp, site, first, space, writes, touched, _done, cached)

        digest = hashlib.sha256(repr(pattern).encode()).hexdigest()[:10]
        kind = "w" if writes else "c" if cached else "r"
        name = f"sanitizer_row_{space}_{kind}_{digest}"
        return b.helper(name, [_P, _I32, _I64, _I64], ("i1", 0), body)

    def some(self, b: Builder, writes: bool) -> Callable[..., Val]:
        """(slot, warp, site, address of lane 0, lanes) -> true if done. They are IN_A_ROW, in
        shared memory; lane 0 need not be among them.
        """

        def body(x: Builder, args: list[Val]) -> Val:
            slot, warp, site, first, lanes = args
            touched = TouchedWords(x, IN_A_ROW, lanes)
            return self._row(x, slot, warp, site, first, "shared", writes, touched, _odd)

        name = f"sanitizer_some_{'w' if writes else 'r'}"
        return b.helper(name, [_P, _I32, _I64, _I64, _I32], ("i1", 0), body)

    def _row(
        self, x: Builder, slot: Val, warp: Val, site: Val, first: Val, space: str, writes: bool,
        touched: TouchedWords, leave: Callable[[Builder], None], cached: bool = False,
    ) -> Val:  # fmt: skip
        pattern = touched.pattern
        p = x.load("ptr", 0, x.at(slot, SlotFields.OBSERVER))
        who = site | max(pattern[0], 0) | (warp.zext("i64") << Record.WARP)
        planes = self.planes(x, slot, p, who, first, space, partial(leave, x))
        if space == "global":
            self._prefetch(x, p, who, first, planes, writes, len(pattern))
        fits = planes.room.uge(4 * len(pattern)) & (first & 3).eq(0)
        with x.when(fits ^ 1):
            _odd(x)
        if planes.filled is not None:
            self._row_filled(x, planes, writes, touched)
        current, plain = self.tag(x, p, warp, site, space), x.integer("i1", 0)
        if self.summed and space == "shared":
            at = (first - word(x, slot, SlotFields.SHARED)) >> 2
            plain = words_in(x, p, BlockState.FRESH, at, touched.words) ^ 1
            if not writes:
                with x.when(words_written(x, p, at, touched.words) ^ 1):
                    _odd(x)
        self._row_records(x, p, warp, space, writes, touched, planes, current, plain, cached)
        if writes:
            self.wrote(x, p, space, current | NEWEST)
            self.mark_written(x, p, slot, space, first, touched.words)
        return x.integer("i1", 1)

    def _prefetch(
        self, x: Builder, p: Val, who: Val, first: Val, planes: Planes, writes: bool, words: int
    ) -> None:
        """Prefetch the next records, if the access advances as it did last time."""
        worker = x.load("ptr", 0, x.at(p, BlockState.WORKER))
        last = x.at(worker, (who & Record.SITES) * WorkerState.SITE + WorkerState.CACHE)
        step = first - word(x, last, WorkerState.LAST)
        put(x, first, last, WorkerState.LAST)
        for plane in (planes.writers,) if writes else (planes.writers, planes.readers):
            for at in range(0, 8 * words, LINE):
                x.prefetch(x.at(plane, (step << 1) + at))

    def _row_filled(self, x: Builder, planes: Planes, writes: bool, touched: TouchedWords) -> None:
        assert planes.filled is not None
        with x.when(planes.filled.ne(0)):
            start = x.val("ptr", 0, f"inttoptr {planes.filled.typed} to ptr")
            empty = x.zero("i8", WIDE)
            for i in range(0, len(touched.pattern), WIDE):
                at = x.at(start, i)
                there = x.load("i8", WIDE, at, 1)
                mine = _only(touched.of(i), x.lanes("i8", [15] * WIDE))
                if writes:
                    x.store(there | mine, at, 1)
                else:
                    empty = empty | (~there & mine)
            if not writes:
                with x.when(_or(x, empty).ne(0)):
                    _odd(x)

    def _row_records(
        self, x: Builder, p: Val, warp: Val, space: str, writes: bool, touched: TouchedWords,
        planes: Planes, tag: Val, plain: Val, cached: bool,
    ) -> None:  # fmt: skip
        """Compare the records of a pattern, also those between; only those touched change.

        Where it is `plain`, all writes are known to be earlier. A `cached` read expects none.
        """
        if space == "global":
            tracked = x.val("i64", 0, f"ptrtoint {planes.writers.typed} to i64").ne(0)
            with x.when(tracked ^ 1):
                _done(x)
        base, limit = self.limits(x, p, warp, space)
        tag = tag | Record.ALL_BYTES
        pattern = touched.pattern
        chunks = range(0, len(pattern), WIDE)
        start = word(x, p, BlockState.START) << Record.CLOCK
        # Otherwise it is known already what is written.
        from_records = space == "shared" and not writes and not self.summed

        def any_of(plane: Val, test: Callable[[Val, int], Val]) -> Val:
            """True at run time if a record satisfies `test(records, index of the first)`."""
            out = x.zero("i64", WIDE)
            for i in chunks:
                found = test(x.load("i64", WIDE, x.at(plane, 8 * i), 8), i)
                if touched.lanes is not None:
                    mask = touched.of(i)
                    found = found if mask is None else found & mask
                out = out | found.sext("i64")
            return _or(x, out).ne(0)

        def current(i: int) -> Val:
            bits = [max(r, 0) for r in pattern[i : i + WIDE]]
            return x.splat(tag, WIDE) | x.lanes("i64", bits)

        def late(r: Val, i: int) -> Val:
            """Records that are not known to be earlier."""
            out = (r - base).uge(limit)
            return out & r.ne(0) if space == "global" else out

        def others(r: Val, i: int) -> Val:
            """The same without these lanes' own."""
            return late(r, i) & (r ^ current(i)).uge(1 << Record.LANE)

        def renew(plane: Val, rule: Callable[[Val, Val], Val]) -> None:
            for i in chunks:
                at = x.at(plane, 8 * i)
                r = x.load("i64", WIDE, at, 8)
                new, mask = rule(r, current(i)), touched.of(i)
                x.store(new if mask is None else mask.select(new, r), at, 8)

        def unexpected(r: Val, i: int) -> Val:
            """Records of writers that need a closer look, the most likely test first."""
            if space == "global":
                return r.ne(0)
            return (r - start).uge(limit - start) if from_records else r.uge(limit)

        with x.when(plain ^ 1), x.when(any_of(planes.writers, unexpected)):
            odd = x.integer("i1", 1) if cached else any_of(planes.writers, others)
            if from_records:
                odd = odd | any_of(planes.writers, lambda r, i: r.ult(start))
            with x.when(odd):
                _odd(x)
        if writes:
            with (
                x.when(self.has_readers(x, p, planes, limit)),
                x.when(any_of(planes.readers, others)),
            ):
                _odd(x)
            renew(planes.writers, lambda _, new: new)
            return
        with x.when(any_of(planes.readers, late) ^ 1):  # as in most intervals: none need be kept
            self.reads(x, p, planes, tag | NEWEST)
            renew(planes.readers, lambda _, new: new)
            _done(x)

        def changes(r: Val, i: int) -> Val:
            """Records that are not yet known in this interval."""
            out, mask = (late(r, i) & is_known(r, current(i), space)) ^ 1, touched.of(i)
            return out if mask is None else out & mask

        with x.when(any_of(planes.readers, changes)):
            self.reads(x, p, planes, tag | NEWEST)
            renew(planes.readers, lambda r, by: with_reader(r, by, ~late(r, 0), space))

    def one(self, b: Builder, space: str, way: AccessPattern) -> Callable[..., Val]:
        """(slot, warp, site, address, lanes) -> true if done. Some lane runs."""
        writes, nbytes = way.writes, way.nbytes

        def body(x: Builder, args: list[Val]) -> Val:
            slot, warp, site, address, lanes = args
            p = x.load("ptr", 0, x.at(slot, SlotFields.OBSERVER))
            lane = x.intrinsic("cttz", [lanes], extra="false").zext("i64") & 31
            who = site | (lane << Record.LANE) | (warp.zext("i64") << Record.WARP)
            planes = self.planes(x, slot, p, who, address, space, partial(_done, x))
            with x.when(planes.room.ult(nbytes)):
                _odd(x)
            if planes.filled is not None:
                with x.when(planes.filled.ne(0)):
                    _odd(x)
                with x.when(x.val("i64", 0, f"ptrtoint {planes.writers.typed} to i64").eq(0)):
                    _done(x)  # no records are kept of this memory
            many = (lanes & (lanes - 1)).ne(0).zext("i64") << Record.MANY
            current = self.tag(x, p, warp, site, space) | (lane << Record.LANE) | many
            current = current | bytes_of(x, address, nbytes)
            base, limit = self.limits(x, p, warp, space)
            start = word(x, p, BlockState.START) << Record.CLOCK
            odd = x.integer("i1", 0)
            readers = []
            for i in range(max(1, nbytes // 4)):
                w, r = word(x, planes.writers, 8 * i), word(x, planes.readers, 8 * i)
                readers.append(r)
                for record in (w, r) if writes else (w,):
                    near = (record - base).uge(limit) & (record ^ current).uge(1 << Record.LANE)
                    odd = odd | (near & record.ne(0))
                if way.cached:
                    odd = odd | w.ne(0)
                if writes and way.strong:  # a plain write is not forgotten for an atomic one
                    odd = odd | (w.ne(0) & (w & Record.STRONG).eq(0))
                if space == "shared" and way.reads and not self.summed:
                    odd = odd | w.ult(start)
            if space == "shared" and way.reads and self.summed:
                at = (address - word(x, slot, SlotFields.SHARED)) >> 2
                odd = odd | words_written(x, p, at, (1 << len(readers)) - 1) ^ 1
            with x.when(odd, rare=True):
                _odd(x)
            if writes:
                self.wrote(x, p, space, current)
                self.mark_written(x, p, slot, space, address, (1 << len(readers)) - 1)
            else:
                self.reads(x, p, planes, current | NEWEST)
            for i, r in enumerate(readers):
                if writes:
                    put(x, current, planes.writers, 8 * i)
                else:
                    earlier = (r - base).ult(limit) | r.eq(0)
                    put(x, with_reader(r, current, earlier, space), planes.readers, 8 * i)
            return x.integer("i1", 1)

        name = f"sanitizer_one_{space}_{way.name}"
        return b.helper(name, [_P, _I32, _I64, _I64, _I32], ("i1", 0), body)


def _done(x: Builder) -> None:
    """Return: the access is checked."""
    x.ret(x.integer("i1", 1))


def _odd(x: Builder) -> None:
    """Return: the access must be checked lane by lane."""
    x.ret(x.integer("i1", 0))


def _only(mask: Val | None, v: Val) -> Val:
    """`v` where the mask holds, else 0."""
    return v if mask is None else mask.select(v, 0)


def _or(x: Builder, v: Val) -> Val:
    fn = f"@llvm.vector.reduce.or.v{v.lanes}{v.element}"
    x.module.declarations[fn] = f"declare {v.element} {fn}({v.type})"
    return x.val(v.element, 0, f"call {v.element} {fn}({v.typed})")
