"""The fast path of the shadow records: those of a whole warp are checked and renewed at once.

    row  lanes touch memory in a known pattern: records are compared as vectors
    one  all lanes touch one element

Both return whether they are done. If not, nothing has changed and `ExactShadow.lanes` checks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial

from weft.device.sim.layout import Slot
from weft.device.sim.tools.sanitizer.clocks import put, word
from weft.device.sim.tools.sanitizer.layout import BlockState, Record
from weft.device.sim.tools.sanitizer.shadow.records import (
    NEWEST,
    Planes,
    Shadow,
    Way,
    bytes_of,
    is_known,
    with_reader,
)
from weft.ir import Builder, Val

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)
WIDE = 8
"""Records that are compared at a time."""
Pattern = tuple[int, ...]
"""For each word from the lowest on, the bits of the lanes that touch it; -1 for none."""
SPAN = 128
"""Words, at most, that are compared at once."""


def pattern_of(off: tuple[int, ...], nbytes: int, writes: bool) -> Pattern | None:
    """The pattern of 32 lanes at these distances; None when it must go lane by lane."""
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


class FastShadow(Shadow):
    """The code for regular accesses of one kernel."""

    def row(self, b: Builder, space: str, writes: bool, pattern: Pattern) -> Callable[..., Val]:
        """(slot, warp, site, lowest address) -> done?  All lanes run."""

        def body(x: Builder, args: list[Val]) -> Val:
            slot, warp, site, first = args
            p = x.load("ptr", 0, x.at(slot, Slot.OBSERVER))
            who = site | max(pattern[0], 0) | (warp.zext("i64") << Record.WARP)
            planes = self.planes(x, slot, p, who, first, space, partial(_done, x))
            fits = planes.room.uge(4 * len(pattern)) & (first & 3).eq(0)
            with x.when(fits ^ 1):
                _odd(x)
            if planes.filled is not None:
                self._row_filled(x, planes, writes, pattern)
            current = self.tag(x, p, warp, site, space)
            self._row_records(x, p, warp, space, writes, pattern, planes, current)
            if writes:
                self.wrote(x, p, space, current | NEWEST)
                touched = sum(1 << i for i, r in enumerate(pattern) if r >= 0)
                self.mark_written(x, p, slot, space, first, touched)
            return x.integer("i1", 1)

        digest = hashlib.sha256(repr(pattern).encode()).hexdigest()[:10]
        name = f"sanitizer_row_{space}_{'w' if writes else 'r'}_{digest}"
        return b.helper(name, [_P, _I32, _I64, _I64], ("i1", 0), body)

    def _row_filled(self, x: Builder, planes: Planes, writes: bool, pattern: Pattern) -> None:
        assert planes.filled is not None
        with x.when(planes.filled.ne(0)):
            start = x.val("ptr", 0, f"inttoptr {planes.filled.typed} to ptr")
            empty = x.zero("i8", WIDE)
            for i in range(0, len(pattern), WIDE):
                at = x.at(start, i)
                there = x.load("i8", WIDE, at, 1)
                touched = x.lanes("i8", [15 if r >= 0 else 0 for r in pattern[i : i + WIDE]])
                if writes:
                    x.store(there | touched, at, 1)
                else:
                    empty = empty | (~there & touched)
            if not writes:
                with x.when(_or(x, empty).ne(0)):
                    _odd(x)

    def _row_records(
        self, x: Builder, p: Val, warp: Val, space: str, writes: bool, pattern: Pattern,
        planes: Planes, tag: Val,
    ) -> None:  # fmt: skip
        """All records of the span are compared, also those between; only those touched change."""
        if space == "global":
            tracked = x.val("i64", 0, f"ptrtoint {planes.writers.typed} to i64").ne(0)
            with x.when(tracked ^ 1):
                _done(x)
        base, limit = self.limits(x, p, warp, space)
        tag = tag | Record.ALL_BYTES
        chunks = range(0, len(pattern), WIDE)
        start = word(x, p, BlockState.START) << Record.CLOCK

        def current(i: int) -> Val:
            bits = [max(r, 0) for r in pattern[i : i + WIDE]]
            return x.splat(tag, WIDE) | x.lanes("i64", bits)

        def others(plane: Val, i: int) -> Val:
            """Records that are not known to be earlier, nor these lanes' own."""
            r = x.load("i64", WIDE, x.at(plane, 8 * i), 8)
            odd = (r - base).uge(limit) & (r ^ current(i)).uge(1 << Record.LANE)
            if space == "global":
                odd = odd & r.ne(0)
            return odd.sext("i64")

        def renew(plane: Val, i: int, rule: Callable[[Val, Val], Val]) -> None:
            at = x.at(plane, 8 * i)
            r = x.load("i64", WIDE, at, 8)
            new = rule(r, current(i))
            touched = [n >= 0 for n in pattern[i : i + WIDE]]
            x.store(new if all(touched) else x.lanes("i1", touched).select(new, r), at, 8)

        def read(r: Val, by: Val) -> Val:
            return with_reader(r, by, (r - base).ult(limit) | r.eq(0), space)

        quick = x.zero("i64", WIDE)
        for i in chunks:  # what is most likely, first
            w = x.load("i64", WIDE, x.at(planes.writers, 8 * i), 8)
            if space == "global":
                quick = quick | w
            elif writes:
                quick = quick | w.uge(limit).sext("i64")
            else:
                quick = quick | (w - start).uge(limit - start).sext("i64")
        with x.when(_or(x, quick).ne(0)):
            close = x.zero("i64", WIDE)
            for i in chunks:
                close = close | others(planes.writers, i)
                if space == "shared" and not writes:
                    w = x.load("i64", WIDE, x.at(planes.writers, 8 * i), 8)
                    close = close | w.ult(start).sext("i64")
            with x.when(_or(x, close).ne(0)):
                _odd(x)
        if writes:
            with x.when(self.has_readers(x, p, planes, limit)):
                close = x.zero("i64", WIDE)
                for i in chunks:
                    close = close | others(planes.readers, i)
                with x.when(_or(x, close).ne(0)):
                    _odd(x)
            for i in chunks:
                renew(planes.writers, i, lambda _, new: new)
            return
        touched = [i for i, r in enumerate(pattern) if r >= 0]

        def stays(r: Val, by: Val) -> Val:
            """Is it known already, in this interval?"""
            return (r - base).uge(limit) & r.ne(0) & is_known(r, by, space)

        ends = [
            stays(word(x, planes.readers, 8 * i), tag | pattern[i])
            for i in (touched[0], touched[-1])
        ]
        with x.when(ends[0] & ends[1]):  # a quick answer: then perhaps all of them
            new = x.zero("i64", WIDE)
            for i in chunks:
                r = x.load("i64", WIDE, x.at(planes.readers, 8 * i), 8)
                here = x.lanes("i1", [n >= 0 for n in pattern[i : i + WIDE]])
                new = new | (~stays(r, current(i)) & here).sext("i64")
            with x.when(_or(x, new).eq(0)):
                _done(x)
        self.reads(x, p, planes, tag | NEWEST)
        unordered = x.zero("i64", WIDE)
        for i in chunks:
            r = x.load("i64", WIDE, x.at(planes.readers, 8 * i), 8)
            late = (r - base).uge(limit)
            unordered = unordered | (late & r.ne(0) if space == "global" else late).sext("i64")
        with x.when(_or(x, unordered).eq(0)):  # as in most intervals: none need be kept
            for i in chunks:
                renew(planes.readers, i, lambda _, new: new)
            _done(x)
        for i in chunks:
            renew(planes.readers, i, read)

    def one(self, b: Builder, space: str, way: Way) -> Callable[..., Val]:
        """(slot, warp, site, address, lanes) -> done?  Some lane runs."""
        writes, nbytes = way.writes, way.nbytes

        def body(x: Builder, args: list[Val]) -> Val:
            slot, warp, site, address, lanes = args
            p = x.load("ptr", 0, x.at(slot, Slot.OBSERVER))
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
                if writes and way.strong:  # a plain write is not forgotten for an atomic one
                    odd = odd | (w.ne(0) & (w & Record.STRONG).eq(0))
                if space == "shared" and way.reads:
                    odd = odd | w.ult(start)
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
    """Returns: the access is settled."""
    x.ret(x.integer("i1", 1))


def _odd(x: Builder) -> None:
    """Returns: the access must be checked lane by lane."""
    x.ret(x.integer("i1", 0))


def _or(x: Builder, v: Val) -> Val:
    fn = f"@llvm.vector.reduce.or.v{v.lanes}{v.element}"
    x.module.declarations[fn] = f"declare {v.element} {fn}({v.type})"
    return x.val(v.element, 0, f"call {v.element} {fn}({v.typed})")
