"""One copy of a tensor's box, computed from a tensor map and coordinates: a job.

A job has the shape of an entry of `bulk_list`, so that issuing it copies it there. It holds host
addresses, and which indices of the box are inside the tensor. A map is decoded when the copy is
issued, and nothing of it is read later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.device.sim.memory.bulk_list import PendingCopies
from weft.device.tensor_map_layout import (
    CORNER_BITS,
    F32,
    FILL_NAN,
    SWIZZLE_SPANS,
    TF32,
    TYPES,
    ControlBits,
    MapFields,
)
from weft.ir import Builder, Val

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)


class TensorJob:
    """Fields of a job, behind those of every entry. A line is one run of the innermost dimension.

    LOWEST, SPAN     the bytes of the tensor that the copy touches (before it is an entry)
    FOOTPRINT        bytes of shared memory that it touches (the same)
    ORIGIN           the address of the box's first element, inside the tensor or not
    WINDOW, OFFSET   the shared memory of the block whose copy it is, and the box in it
    LINE, PITCH      bytes of a line, and from line to line in shared memory
    LOW, HIGH        the bytes of a line that are inside the tensor
    FILL, END        the bits that a load writes for what is outside, or the address behind the last
                     byte that a store may write
    JUMPS, COUNTS, LOWS, HIGHS   tiled: for dimensions 1 to 4, bytes from index to index, indices of
                     the box, and the range of those that are inside the tensor
    WALK             im2col: for W, H, D and N, the rows of `Walk`
    """

    LOWEST, SPAN = PendingCopies.TARGET, PendingCopies.SOURCE
    NBYTES, FOOTPRINT = PendingCopies.NBYTES, PendingCopies.KIND
    ORIGIN, WINDOW = PendingCopies.ENTRY, PendingCopies.ENTRY + 8
    OFFSET, LINE, PITCH, MASK, LOW, HIGH, TYPE, LINES = range(56, 88, 4)
    FILL = END = 88
    JUMPS, COUNTS, LOWS, HIGHS = 96, 128, 144, 160
    WALK = 96
    SIZE = 256


class Walk:
    """One dimension of the pixels of an im2col copy: position, corners, step, offset, tensor."""

    POSITION, FIRST, LAST, STEP, SHIFT = 0, 4, 8, 12, 16
    DIM, STRIDE = 24, 32
    SIZE = 40
    DIMENSIONS = 4


class Refusal:
    """Reasons to refuse a copy; `run.failures.tensors` has the sentences."""

    NOT_A_MAP, RANK, MODE, BASE, INNER, SWIZZLED, SHARED, TYPE, COORDINATE = range(1, 10)
    NEGATIVE, INTERLEAVE = 10, 11


Arguments = Sequence[Val]
TILED, COLUMNS = 0, 1


def plan(b: Builder, rank: int, *, columns: bool, loads: bool) -> Callable[..., Val]:
    """The function (map, coordinates, job, window, offset): fills the job; i64.

    `coordinates` has 32 words for each dimension, then for each offset of im2col; it points to
    those of one lane. The result is 0, or a Refusal and, from bit 8 on, the number that is wrong.
    """

    def body(x: Builder, args: list[Val]) -> Val:
        _Plan(x, args, rank, columns, loads).write()
        return x.integer("i64", 0)

    mode = "columns" if columns else "tile"
    name = f"tensor_plan_{'load' if loads else 'store'}_{mode}_{rank}"
    return b.helper(name, [_P, _P, _P, _I64, _I32], _I64, body)


class _Plan:
    """The code of `plan`."""

    def __init__(self, b: Builder, args: list[Val], rank: int, columns: bool, loads: bool) -> None:
        self.b, self.rank, self.columns, self.loads = b, rank, columns, loads
        self.map, self.at, self.job, self.window, self.offset = args

    # ---- words of the map -------------------------------------------------------------------
    def _word(self, at: int) -> Val:
        return self.b.load("i32", 0, self.b.at(self.map, at), 4)

    def _bits(self, at: int, width: int) -> Val:
        return (self.control >> at) & ((1 << width) - 1)

    def _byte(self, at: int) -> Val:
        return self.b.load("i8", 0, self.b.at(self.map, at), 1).zext("i32")

    def _dim(self, i: int) -> Val:
        return self._word(MapFields.DIMS + 4 * i).zext("i64") + 1

    def _stride(self, i: int) -> Val:
        """Bytes from one index of dimension `i` to the next; 16 is their unit in a map."""
        low = self._word(MapFields.STRIDES + 4 * (i - 1)).zext("i64")
        high = self.b.load("i16", 0, self.b.at(self.map, MapFields.HIGH_STRIDES), 2).zext("i64")
        return (((high >> (4 * (i - 1))) & 15) << 36) | (low << 4)

    def _step(self, i: int) -> Val:
        steps = self.b.load("i16", 0, self.b.at(self.map, MapFields.STEPS), 2).zext("i32")
        return ((steps >> (3 * i)) & 7) + 1

    def _coordinate(self, i: int) -> Val:
        return self.b.load("i32", 0, self.b.at(self.at, 128 * i), 4)

    def _put(self, v: Val, at: int) -> None:
        self.b.store(v, self.b.at(self.job, at), 4)

    def _refuse(self, wrong: Val, why: int, got: Val) -> None:
        with self.b.when(wrong, rare=True):
            self.b.ret((self.b.resize(got, "i64") << 8) | why)

    # ---- the job ----------------------------------------------------------------------------
    def write(self) -> None:
        b = self.b
        self.control = self._word(MapFields.CONTROL)
        mode, rank = self._bits(ControlBits.MODE, 4), self._bits(ControlBits.RANK, 3) + 1
        kind = self._type()
        swizzle = self._bits(ControlBits.SWIZZLE, 2)
        base = b.load("i64", 0, b.at(self.map, MapFields.ADDRESS), 8)
        self._refuse(mode.ugt(COLUMNS) | rank.ugt(5), Refusal.NOT_A_MAP, self.control)
        self._refuse(mode.ne(COLUMNS if self.columns else TILED), Refusal.MODE, mode)
        self._refuse(rank.ne(self.rank), Refusal.RANK, rank)
        self._refuse(kind.uge(len(TYPES)), Refusal.NOT_A_MAP, self.control)
        interleave = self._bits(ControlBits.INTERLEAVE, 2)
        self._refuse(interleave.ne(0), Refusal.INTERLEAVE, interleave)
        self._refuse((base & 15).ne(0), Refusal.BASE, base)
        self._refuse((self.offset & 127).ne(0), Refusal.SHARED, self.offset)
        sizes = b.table("tensor_sizes", "i32", [t.size for t in TYPES])
        size = b.load("i32", 0, b.at(sizes, kind.zext("i64") << 2), 4)
        first = self._coordinate(0) * size
        self._refuse((first & 15).ne(0), Refusal.COORDINATE, first.sext("i64"))
        for i in range(0 if self.loads else self.rank):
            at = self._coordinate(i)
            self._refuse(at.slt(0), Refusal.NEGATIVE, at.sext("i64"))
        spans = b.table("tensor_spans", "i32", SWIZZLE_SPANS)
        span = b.load("i32", 0, b.at(spans, swizzle.zext("i64") << 2), 4)
        counts = self._counts()
        line = counts[0] * size
        self._refuse((line & 15).ne(0), Refusal.INNER, line)
        wide = swizzle.ne(0) & line.ugt(span)
        self._refuse(wide, Refusal.SWIZZLED, line)
        pitch = b.umax(line, span)
        lines = counts[1]
        for count in counts[2:]:
            lines = lines * count
        low, high = self._inside(self._coordinate(0), self._dim(0), b.integer("i32", 1), counts[0])
        self._put(line, TensorJob.LINE)
        self._put(pitch, TensorJob.PITCH)
        self._put(span - 16, TensorJob.MASK)
        self._put(lines, TensorJob.LINES)
        self._put(lines * line, TensorJob.NBYTES)
        # A swizzle moves the bytes of a short line within its span.
        self._put(lines * pitch, TensorJob.FOOTPRINT)
        self._put(low * size, TensorJob.LOW)
        self._put(high * size, TensorJob.HIGH)
        self._put(kind, TensorJob.TYPE)
        self._put(self.offset, TensorJob.OFFSET)
        b.store(self.window, b.at(self.job, TensorJob.WINDOW), 8)
        nan = b.integer("i64", FILL_NAN * 0x0001_0001_0001_0001)
        fill = self._bits(ControlBits.FILL, 1).ne(0).select(nan, b.integer("i64", 0))
        b.store(fill, b.at(self.job, TensorJob.FILL), 8)
        start = base + self._coordinate(0).sext("i64") * size.zext("i64")
        if self.columns:
            b.store(start, b.at(self.job, TensorJob.ORIGIN), 8)
            self._write_walk()
        else:
            self._write_tile(start, counts, (high - low) * size)

    def _type(self) -> Val:
        """The index in TYPES; a number outside of them for what is no type."""
        bits, tf32 = self._bits(ControlBits.TYPE, 4), self._bits(ControlBits.TF32, 1)
        outside = self.b.integer("i32", len(TYPES))
        plain = bits.ult(TF32.code).select(bits, outside)
        # tf32 is the type f32 with another bit, with or without ftz.
        rounds = (bits - F32.code).ult(2).select(bits + (TF32.code - F32.code), outside)
        return tf32.eq(0).select(plain, rounds)

    def _counts(self) -> list[Val]:
        """The elements of a line, and the indices of the box in the other dimensions."""
        if self.columns:
            pixels = self.b.load("i16", 0, self.b.at(self.map, MapFields.PIXELS), 2).zext("i32")
            return [self._byte(MapFields.CHANNELS) + 1, (pixels & 1023) + 1]
        counts = []
        for i in range(self.rank):
            box = self._byte(MapFields.BOX + i) + 1
            step = self._step(i)
            # Without interleave, the innermost dimension has no step.
            counts.append(self.b.binary("udiv", box + step - 1, step) if i else box)
        return counts if self.rank > 1 else [*counts, self.b.integer("i32", 1)]

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

    def _write_tile(self, start: Val, counts: list[Val], width: Val) -> None:
        b, job = self.b, self.job
        zero32, one32, zero = b.integer("i32", 0), b.integer("i32", 1), b.integer("i64", 0)
        lowest = start + b.load("i32", 0, b.at(job, TensorJob.LOW), 4).zext("i64")
        span, empty = width.zext("i64"), width.eq(0)
        for i in range(1, 5):
            if i < self.rank:
                step, stride, at = self._step(i), self._stride(i), self._coordinate(i)
                count, jump = counts[i], stride * step.zext("i64")
                low, high = self._inside(at, self._dim(i), step, count)
                start = start + at.sext("i64") * stride
                lowest = lowest + at.sext("i64") * stride + low.zext("i64") * jump
                span = span + (high - low - 1).zext("i64") * jump
                empty = empty | low.eq(high)
            else:
                count, jump, low, high = one32, zero, zero32, one32
            b.store(jump, b.at(job, TensorJob.JUMPS + 8 * (i - 1)), 8)
            for v, at_ in (
                (count, TensorJob.COUNTS),
                (low, TensorJob.LOWS),
                (high, TensorJob.HIGHS),
            ):
                self._put(v, at_ + 4 * (i - 1))
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
        spatial = self.rank - 2
        for i in range(Walk.DIMENSIONS):
            if i < spatial:
                dim, stride = self._dim(i + 1), self._stride(i + 1)
                first = self._corner(MapFields.LOWER, i)
                last = dim.trunc("i32") - 1 + self._corner(MapFields.UPPER, i)
                words = (self._coordinate(i + 1), first, last, self._step(i + 1),
                         self._coordinate(5 + i))  # fmt: skip
            elif i == Walk.DIMENSIONS - 1:
                dim, stride = self._dim(self.rank - 1), self._stride(self.rank - 1)
                words = (self._coordinate(self.rank - 1), zero, b.integer("i32", (1 << 31) - 1),
                         one, zero)  # fmt: skip
            else:
                dim, stride = b.integer("i64", 1), b.integer("i64", 0)
                words = (zero, zero, zero, one, zero)
            row = TensorJob.WALK + Walk.SIZE * i
            for at, word in zip(
                (Walk.POSITION, Walk.FIRST, Walk.LAST, Walk.STEP, Walk.SHIFT), words, strict=True
            ):
                self._put(word, row + at)
            b.store(dim, b.at(self.job, row + Walk.DIM), 8)
            b.store(stride, b.at(self.job, row + Walk.STRIDE), 8)
