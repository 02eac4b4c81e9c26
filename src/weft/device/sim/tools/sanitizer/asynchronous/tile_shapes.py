"""Layouts of tiles: where a tensor copy puts the units of a line, and where a product reads them.

A tensor copy leaves a word for each 16 bytes: which copy wrote them, the line of the box, the unit
of the line, and the swizzle of the map. What a thread writes has no such word, and is not checked.
A product reads cores of 8 rows of 16 bytes. In a tile that one copy wrote, these are the same unit
of 8 consecutive lines, whichever way the matrix is stored; with another swizzle, or another width
of the lines, they are not. The strides of a descriptor may lead out of the tile: in steps of a
wrong number of lines, into memory that nothing has written or to what another copy wrote, or for a
part of what 8 results are summed from, into memory that nothing has written.
"""

from __future__ import annotations

from enum import Enum, auto
from functools import reduce

from weft.device.sim.memory.tensors.job import TensorJob
from weft.device.sim.memory.warpgroups.tiles import CORE
from weft.device.sim.tools.sanitizer.asynchronous.tile_records import TileRecords
from weft.device.sim.tools.sanitizer.layout import BlockState, FindingKind, Record, TileShape
from weft.device.sim.tools.sanitizer.order.words import put, word
from weft.device.sim.tools.sanitizer.report import report
from weft.ir import Builder, Val

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)
_WRITERS, _SHAPES = 0, 2
"""Planes of `TileRecords`."""


class CorePlace(Enum):
    """The lines of a core: the first of a row of cores, 8 lines behind the core before, or others
    that are in no such order.
    """

    FIRST = auto()
    NEXT = auto()
    BESIDE = auto()


class TileShapes:
    """Code that keeps the layouts of a kernel's tiles and checks the reads of products."""

    def __init__(self, records: TileRecords) -> None:
        self.records, self.w = records, records.w

    # ---- writes -----------------------------------------------------------------------------
    def forget(self, b: Builder, address: Val, size: Val) -> None:
        """A thread, or a copy without a tensor, is about to write a range."""

        def body(x: Builder, args: list[Val]) -> None:
            p, address, size = args
            home, offset, end = self.records.range(x, p, address, size)
            shapes, first = self.records.plane(x, home, _SHAPES), offset >> 4
            with x.loop((((end - 1) >> 4) - first + 1).trunc("i32")) as i:
                put(x, x.integer("i64", 0), x.at(shapes, (first + i.zext("i64")) << 3))

        fn = b.helper("sanitizer_tile_forget", [_P, _I64, _I32], None, body)
        fn(self.w.p, address, size)

    def lay(self, b: Builder, address: Val, job: Val, record: Val) -> None:
        """A tensor copy is about to write a box; `record` names it."""

        def body(x: Builder, args: list[Val]) -> None:
            p, address, job, record = args
            fields = TensorJob.LINE, TensorJob.PITCH, TensorJob.MASK, TensorJob.LINES
            line, pitch, mask, lines = (x.load("i32", 0, x.at(job, at), 4) for at in fields)
            home, offset, _ = self.records.range(x, p, address, lines * pitch)
            known = pitch.ugt(mask)  # else slices, whose swizzle reaches over several lines
            shapes, nbytes = self.records.plane(x, home, _SHAPES), word(x, p, BlockState.NBYTES)
            units = _named(x, record, mask, line)
            with x.loop(lines) as i, x.loop(line >> 4) as k:
                at = offset.trunc("i32") + i * pitch + (k << 4)
                place = (at ^ ((at >> 3) & mask)).zext("i64")
                shape = (i.zext("i64") << TileShape.LINE) | (k.zext("i64") << TileShape.UNIT)
                with x.when(place.ult(nbytes)):
                    value = known.select(units | shape, x.integer("i64", 0))
                    put(x, value, x.at(shapes, (place >> 4) << 3))

        fn = b.helper("sanitizer_tile_lay", [_P, _I64, _P, _I64], None, body)
        fn(self.w.p, address, job, record)

    # ---- reads ------------------------------------------------------------------------------
    def operand(self, b: Builder) -> Val:
        """The state of the checks of one operand of a product."""
        state = b.array("i64", _State.WORDS)
        for at in range(0, 8 * _State.WORDS, 8):
            put(b, b.integer("i64", 0), state, at)
        return state

    def core(
        self, b: Builder, state: Val, record: Val, mode: Val, offsets: list[Val], place: CorePlace,
        *, begins: bool,
    ) -> None:  # fmt: skip
        """A product reads 8 rows; `mode` is the swizzle of its descriptor.

        begins  the core is the first of those that 8 results are summed from
        """

        def body(x: Builder, args: list[Val]) -> None:
            p, state, record, mode, *offsets = args
            nbytes, none = word(x, p, BlockState.NBYTES), x.integer("i64", 0)
            planes = [self.records.plane(x, p, i) for i in (_WRITERS, _SHAPES)]
            before, row, first = none, 0, none
            lacks = x.integer("i1", 0)
            for r, offset in enumerate(o.zext("i64") for o in offsets):
                at = (offset >> 4) << 3
                with x.when(offset.uge(nbytes), rare=True):
                    x.ret()  # the product itself reports it
                shape = word(x, x.at(planes[1], at))
                unwritten = word(x, x.at(planes[0], at)).eq(0)
                lacks = lacks | unwritten
                with x.when(unwritten, rare=True):
                    put(x, offset + 1, state, _State.MISSING)
                if r:
                    wrong = _is_apart(before, shape, r - row)
                    with x.when(wrong, rare=True):
                        self._report(x, p, FindingKind.TILE_SWIZZLED, record, shape, offset, mode)
                        x.ret()
                else:
                    first = shape
                before, row = shape, r
            if begins:
                put(x, lacks.zext("i64"), state, _State.LACKS)
            else:
                with x.when(lacks.zext("i64").ne(word(x, state, _State.LACKS)), rare=True):
                    put(x, word(x, state, _State.FLAGS) | _State.TORN, state, _State.FLAGS)
            with x.when(first.ne(0)):
                put(x, first, state, _State.LAID)
                if place is CorePlace.NEXT:
                    self._step(x, state, first)
                if place is not CorePlace.BESIDE:
                    put(x, first, state, _State.LAST)

        kinds = [_P, _P, _I64, _I32, *[_I32] * CORE]
        name = f"sanitizer_core_{place.name}{'_begins' if begins else ''}"
        fn = b.helper(name, kinds, None, body)
        fn(self.w.p, state, record, mode, *offsets)

    def _step(self, x: Builder, state: Val, shape: Val) -> None:
        """Compare a core with the one before: 8 lines later in the same copy, or another copy."""
        last, flags = word(x, state, _State.LAST), word(x, state, _State.FLAGS)
        same = _is_same_copy(last, shape)
        steps = _line(shape) - _line(last)
        wrong = same & steps.ne(CORE)
        other = last.ne(0) & (same ^ 1)
        found = (wrong.zext("i64") * _State.STRIDE) | (other.zext("i64") * _State.MIXED)
        put(x, flags | found, state, _State.FLAGS)

    def read(self, b: Builder, state: Val, record: Val, mode: Val) -> None:
        """All cores of an operand have been looked at."""
        laid, missing = word(b, state, _State.LAID), word(b, state, _State.MISSING)
        flags = word(b, state, _State.FLAGS)
        # Results of which everything is missing are those that a kernel drops.
        lost = missing.ne(0) & (flags & (_State.STRIDE | _State.TORN)).ne(0)
        left = lost | (flags & (_State.STRIDE | _State.MIXED)).eq(_State.STRIDE | _State.MIXED)
        with b.when(laid.ne(0) & left, rare=True):
            unwritten = missing.ne(0).zext("i64") << TileShape.UNWRITTEN
            place = missing.ne(0).select(missing - 1, b.integer("i64", 0)) | unwritten
            self._report(b, self.w.p, FindingKind.TILE_LEFT, record, laid, place, mode)

    def rows(self, b: Builder, record: Val, table: Val, lanes: Val) -> None:
        """`ldmatrix` reads rows of 16 bytes at the addresses of `table`, by 8 of these lanes."""

        def body(x: Builder, args: list[Val]) -> None:
            p, record, table, lanes = args
            with x.loop(32 // CORE) as g:
                every = (lanes >> (g << 3)) & ((1 << CORE) - 1)
                with x.when(every.eq((1 << CORE) - 1)):
                    one = x.helper("sanitizer_matrix", [_P, _I64, _P], None, self._matrix)
                    one(p, record, x.at(table, g.zext("i64") * (8 * CORE)))

        fn = b.helper("sanitizer_matrices", [_P, _I64, _P, _I32], None, body)
        fn(self.w.p, record, table, lanes)

    def _matrix(self, x: Builder, args: list[Val]) -> None:
        """Report 8 consecutive lines of which the same unit is not read."""
        p, record, table = args
        shapes = []
        for r in range(CORE):
            size = x.integer("i32", 1)
            home, offset, _ = self.records.range(x, p, word(x, table, 8 * r), size)
            plane = self.records.plane(x, home, _SHAPES)
            shapes.append(word(x, x.at(plane, (offset >> 4) << 3)))
        first = shapes[0]
        ascend = [
            _is_same_copy(first, s) & (_line(s) - _line(first)).eq(r) for r, s in enumerate(shapes)
        ]
        differ = [((first ^ s) & TileShape.UNITS).ne(0) for s in shapes]
        in_order, others = (reduce(f, v) for f, v in ((_both, ascend), (_any, differ)))
        with x.when(in_order & others, rare=True):
            _, offset = self.w.clocks.rank_of(x, p, word(x, table))
            by_hand = x.integer("i32", TileShape.BY_HAND)
            self._report(x, p, FindingKind.TILE_SWIZZLED, record, first, offset, by_hand)

    def _report(
        self, x: Builder, p: Val, kind: int, record: Val, shape: Val, place: Val, mode: Val
    ) -> None:
        """`place` of the finding has what is known of both layouts: see `TileShape`."""
        laid = (shape >> TileShape.SWIZZLE) & ((1 << TileShape.COPY - TileShape.SWIZZLE) - 1)
        place = place | (laid << TileShape.LAID) | (mode.zext("i64") << TileShape.MODE)
        report(x, p, kind, record, shape & Record.SITE, place)


class _State:
    """Words of the state of an operand's checks."""

    LAST, LAID, MISSING, FLAGS, LACKS = 0, 8, 16, 24, 32
    WORDS = 5
    STRIDE, MIXED, TORN = 1, 2, 4
    """Flags: a step of a wrong number of lines in one copy, a step to another copy, and 8 results
    of which a part is summed from memory that nothing has written."""


def _named(b: Builder, record: Val, mask: Val, line: Val) -> Val:
    """The layout of a copy's first unit."""
    swizzle = b.intrinsic("ctpop", [mask >> 4]).zext("i64") << TileShape.SWIZZLE
    width = ((line >> 4) - 1).zext("i64") << TileShape.WIDTH
    who = ((record >> Record.RANK) << 16) | (((record >> Record.WARP) & 31) << 11)
    copy = who | ((record >> Record.CLOCK) & 2047)
    return (record & Record.SITE) | swizzle | width | (copy << TileShape.COPY)


def _line(shape: Val) -> Val:
    return (shape >> TileShape.LINE) & ((1 << TileShape.SWIZZLE - TileShape.LINE) - 1)


def _is_same_copy(a: Val, b: Val) -> Val:
    """True if two words are of one copy, and not of none."""
    return a.ne(0) & ((a ^ b) >> TileShape.COPY).eq(0) & b.ne(0)


def _is_apart(a: Val, b: Val, lines: int) -> Val:
    """True if `b` is not the same unit as `a`, so many lines later in the same copy."""
    units = ((a ^ b) & TileShape.UNITS).ne(0)
    return _is_same_copy(a, b) & (units | (_line(b) - _line(a)).ne(lines))


def _both(a: Val, b: Val) -> Val:
    return a & b


def _any(a: Val, b: Val) -> Val:
    return a | b
