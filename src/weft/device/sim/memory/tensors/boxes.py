"""The job of a copy of a box, computed from a tensor map and coordinates."""

from __future__ import annotations

from collections.abc import Sequence

from weft.device.sim.memory.tensors.job import Refusal, TensorJob, Walk
from weft.device.tensor_map_layout import (
    CORNER_BITS,
    F32,
    FILL_NAN,
    INTERLEAVES,
    LEAST_SLICED,
    SWIZZLE_SPANS,
    TF32,
    TYPES,
    ControlBits,
    MapFields,
)
from weft.ir import Builder, Val
from weft.records import dataclass

TILED, COLUMNS = 0, 1


@dataclass(frozen=True)
class Lines:
    """The lines of a copy: bytes of one, from one to the next, the part that is inside, and all.

    start  the address of the first line of index 0 in each other dimension
    count  lines of the box
    """

    nbytes: Val
    pitch: Val
    low: Val
    high: Val
    start: Val
    count: Val
    footprint: Val


class BoxPlan:
    """The code for one map, coordinates and job; `slices` has that for interleaved maps."""

    def __init__(self, b: Builder, args: list[Val], rank: int, columns: bool, loads: bool) -> None:
        self.b, self.rank, self.columns, self.loads = b, rank, columns, loads
        self.map, self.at, self.job, self.window, self.offset = args
        self.control = self._word(MapFields.CONTROL)

    # ---- words of the map -------------------------------------------------------------------
    def _word(self, at: int) -> Val:
        return self.b.load("i32", 0, self.b.at(self.map, at), 4)

    def _bits(self, at: int, width: int) -> Val:
        return (self.control >> at) & ((1 << width) - 1)

    def _byte(self, at: int) -> Val:
        return self.b.load("i8", 0, self.b.at(self.map, at), 1).zext("i32")

    def dim(self, i: int) -> Val:
        """The size of the tensor in a dimension."""
        return self._word(MapFields.DIMS + 4 * i).zext("i64") + 1

    def stride(self, i: int) -> Val:
        """Bytes from one index of dimension `i` to the next; 16 is their unit in a map."""
        low = self._word(MapFields.STRIDES + 4 * (i - 1)).zext("i64")
        high = self.b.load("i16", 0, self.b.at(self.map, MapFields.HIGH_STRIDES), 2).zext("i64")
        return (((high >> (4 * (i - 1))) & 15) << 36) | (low << 4)

    def step(self, i: int) -> Val:
        """Elements from one of the box to the next."""
        steps = self.b.load("i16", 0, self.b.at(self.map, MapFields.STEPS), 2).zext("i32")
        return ((steps >> (3 * i)) & 7) + 1

    def coordinate(self, i: int) -> Val:
        """A coordinate of the copy."""
        return self.b.load("i32", 0, self.b.at(self.at, 128 * i), 4)

    def count(self, i: int) -> Val:
        """Elements of the box in a dimension, of every `step`."""
        box, step = self._byte(MapFields.BOX + i) + 1, self.step(i)
        return self.b.binary("udiv", box + step - 1, step)

    def pixels(self) -> Val:
        """Pixels of an im2col copy."""
        pixels = self.b.load("i16", 0, self.b.at(self.map, MapFields.PIXELS), 2).zext("i32")
        return (pixels & 1023) + 1

    def _put(self, v: Val, at: int) -> None:
        self.b.store(v, self.b.at(self.job, at), 4)

    def refuse(self, wrong: Val, why: int, got: Val) -> None:
        """Return a reason where something is wrong."""
        with self.b.when(wrong, rare=True):
            self.b.ret((self.b.resize(got, "i64") << 8) | why)

    # ---- the job ----------------------------------------------------------------------------
    def interleave(self) -> Val:
        """The number of the interleaved layout; refuses one that there is not, or a low rank."""
        interleave = self._bits(ControlBits.INTERLEAVE, 2)
        self.refuse(interleave.uge(len(INTERLEAVES)), Refusal.NOT_A_MAP, self.control)
        if self.rank < LEAST_SLICED:
            rank = self._bits(ControlBits.RANK, 3) + 1
            self.refuse(interleave.ne(0), Refusal.INTERLEAVE, rank)
        return interleave

    def fill(self) -> None:
        """Fill the job; return a reason from the function where the copy is refused."""
        b = self.b
        mode, rank = self._bits(ControlBits.MODE, 4), self._bits(ControlBits.RANK, 3) + 1
        kind, swizzle = self._type(), self._bits(ControlBits.SWIZZLE, 2)
        self.base = b.load("i64", 0, b.at(self.map, MapFields.ADDRESS), 8)
        self.refuse(mode.ugt(COLUMNS) | rank.ugt(5), Refusal.NOT_A_MAP, self.control)
        self.refuse(mode.ne(COLUMNS if self.columns else TILED), Refusal.MODE, mode)
        self.refuse(rank.ne(self.rank), Refusal.RANK, rank)
        self.refuse(kind.uge(len(TYPES)), Refusal.NOT_A_MAP, self.control)
        self.refuse((self.base & 15).ne(0), Refusal.BASE, self.base)
        self.refuse((self.offset & 127).ne(0), Refusal.SHARED, self.offset)
        sizes = b.table("tensor_sizes", "i32", [t.size for t in TYPES])
        self.size = b.load("i32", 0, b.at(sizes, kind.zext("i64") << 2), 4)
        spans = b.table("tensor_spans", "i32", SWIZZLE_SPANS)
        self.span = b.load("i32", 0, b.at(spans, swizzle.zext("i64") << 2), 4)
        lines = self.lines()
        for i in range(0 if self.loads else self.rank):
            at = self.coordinate(i)
            self.refuse(at.slt(0), Refusal.NEGATIVE, at.sext("i64"))
        fields = {
            TensorJob.LINE: lines.nbytes, TensorJob.PITCH: lines.pitch,
            TensorJob.MASK: self.span - 16, TensorJob.LINES: lines.count,
            TensorJob.NBYTES: lines.count * lines.nbytes, TensorJob.FOOTPRINT: lines.footprint,
            TensorJob.LOW: lines.low, TensorJob.HIGH: lines.high, TensorJob.TYPE: kind,
            TensorJob.OFFSET: self.offset,
        }  # fmt: skip
        for place, value in fields.items():
            self._put(value, place)
        b.store(self.window, b.at(self.job, TensorJob.WINDOW), 8)
        nan = b.integer("i64", FILL_NAN * 0x0001_0001_0001_0001)
        fill = self._bits(ControlBits.FILL, 1).ne(0).select(nan, b.integer("i64", 0))
        b.store(fill, b.at(self.job, TensorJob.FILL), 8)
        if self.columns:
            b.store(lines.start, b.at(self.job, TensorJob.ORIGIN), 8)
            self._write_walk()
        else:
            self._write_tile(lines)

    def lines(self) -> Lines:
        """The lines of a copy: runs of the innermost dimension."""
        b, size = self.b, self.size
        first = self.coordinate(0) * size
        self.refuse((first & 15).ne(0), Refusal.COORDINATE, first.sext("i64"))
        elements = self._byte(MapFields.CHANNELS if self.columns else MapFields.BOX) + 1
        line = elements * size
        self.refuse((line & 15).ne(0), Refusal.INNER, line)
        self.refuse(self.span.ne(16) & line.ugt(self.span), Refusal.SWIZZLED, line)
        count = self._product([self.count(i) for i, _ in self.axes()])
        low, high = self._inside(self.coordinate(0), self.dim(0), b.integer("i32", 1), elements)
        start = self.base + self.coordinate(0).sext("i64") * size.zext("i64")
        # A swizzle moves the bytes of a short line within its span.
        pitch = b.umax(line, self.span)
        return Lines(line, pitch, low * size, high * size, start, count, count * pitch)

    def axes(self) -> list[tuple[int, Val]]:
        """The dimensions that lines are counted in, each with its stride."""
        return [(i, self.stride(i)) for i in range(1, self.rank)]

    def _product(self, counts: Sequence[Val]) -> Val:
        if self.columns:
            return self.pixels()
        product = self.b.integer("i32", 1)
        for count in counts:
            product = product * count
        return product

    def _type(self) -> Val:
        """The index in TYPES; a number outside of them for what is no type."""
        bits, tf32 = self._bits(ControlBits.TYPE, 4), self._bits(ControlBits.TF32, 1)
        outside = self.b.integer("i32", len(TYPES))
        plain = bits.ult(TF32.code).select(bits, outside)
        # tf32 is the type f32 with another bit, with or without ftz.
        rounds = (bits - F32.code).ult(2).select(bits + (TF32.code - F32.code), outside)
        return tf32.eq(0).select(plain, rounds)

    def _inside(self, start: Val, dim: Val, step: Val, count: Val) -> tuple[Val, Val]:
        """The range of indices i with 0 <= start + i * step < dim, among `count`."""
        b = self.b
        first, by = start.sext("i64"), step.zext("i64")
        zero, limit = b.integer("i64", 0), count.zext("i64")

        def quotient(distance: Val) -> Val:
            positive = b.smax(distance, zero)
            return b.umin(b.binary("udiv", positive + by - 1, by), limit)

        low = quotient(0 - first)
        return low.trunc("i32"), b.umax(quotient(dim - first), low).trunc("i32")

    def _write_tile(self, lines: Lines) -> None:
        b, job = self.b, self.job
        axes = self.axes()
        zero32, one32, zero = b.integer("i32", 0), b.integer("i32", 1), b.integer("i64", 0)
        start, lowest = lines.start, lines.start + lines.low.zext("i64")
        span, empty = (lines.high - lines.low).zext("i64"), lines.high.eq(lines.low)
        for n in range(4):
            if n < len(axes):
                i, stride = axes[n]
                step, at, count = self.step(i), self.coordinate(i), self.count(i)
                jump = stride * step.zext("i64")
                low, high = self._inside(at, self.dim(i), step, count)
                start = start + at.sext("i64") * stride
                lowest = lowest + at.sext("i64") * stride + low.zext("i64") * jump
                span = span + (high - low - 1).zext("i64") * jump
                empty = empty | low.eq(high)
            else:
                count, jump, low, high = one32, zero, zero32, one32
            b.store(jump, b.at(job, TensorJob.JUMPS + 8 * n), 8)
            for v, place in (
                (count, TensorJob.COUNTS),
                (low, TensorJob.LOWS),
                (high, TensorJob.HIGHS),
            ):
                self._put(v, place + 4 * n)
        b.store(start, b.at(job, TensorJob.ORIGIN), 8)
        b.store(lowest, b.at(job, TensorJob.LOWEST), 8)
        b.store(empty.select(zero, span), b.at(job, TensorJob.SPAN), 8)

    def _corner(self, at: int, i: int) -> Val:
        """Number `i` of a corner."""
        width = CORNER_BITS[self.rank]
        word = self.b.load("i16", 0, self.b.at(self.map, at), 2).sext("i32")
        return (word << (32 - width * (i + 1))).ashr(32 - width)

    def _write_walk(self) -> None:
        """The rows of W, H, D and N; one that the tensor lacks passes each step on to the next."""
        b, zero, one = self.b, self.b.integer("i32", 0), self.b.integer("i32", 1)
        *space, (last_axis, last_stride) = self.axes()
        for n in range(Walk.DIMENSIONS):
            if n < len(space):
                i, stride = space[n]
                dim, first = self.dim(i), self._corner(MapFields.LOWER, n)
                last = dim.trunc("i32") - 1 + self._corner(MapFields.UPPER, n)
                words = (self.coordinate(i), first, last, self.step(i), self.coordinate(5 + n))
            elif n == Walk.DIMENSIONS - 1:
                dim, stride = self.dim(last_axis), last_stride
                words = (self.coordinate(last_axis), zero, b.integer("i32", (1 << 31) - 1), one,
                         zero)  # fmt: skip
            else:
                dim, stride = b.integer("i64", 1), b.integer("i64", 0)
                words = (zero, zero, zero, one, zero)
            row = TensorJob.WALK + Walk.SIZE * n
            for at, word in zip(
                (Walk.POSITION, Walk.FIRST, Walk.LAST, Walk.STEP, Walk.SHIFT), words, strict=True
            ):
                self._put(word, row + at)
            b.store(dim, b.at(self.job, row + Walk.DIM), 8)
            b.store(stride, b.at(self.job, row + Walk.STRIDE), 8)
