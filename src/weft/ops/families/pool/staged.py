"""Pooling through shared memory: the kernels of `cuda/staged.cuh`.

A block copies one interval of memory, which has whole planes or some rows of one. It needs neither
aligned rows nor rows of a size that vectors divide, and reads elements that windows share once.
Rows may have gaps: such a tensor is read without a copy.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.layouts import dense_strides
from weft.ops.core.plan import Layout, Plan, Step
from weft.ops.core.target import Target
from weft.ops.families.pool import model
from weft.ops.families.pool.kernels import BLOCK, PoolJob
from weft.ops.families.pool.structs import STRUCTS, ChunkShape, PoolShape, size_of
from weft.ops.families.pool.windows import LAST, is_last

WINDOWS = 64
"""The most adaptive windows of a block along a dimension, as in staged.cuh."""


class Pitches(NamedTuple):
    """Elements between planes, rows and columns of an input in memory."""

    plane: int
    row: int
    column: int


def pitches(x: Layout, rank: int) -> Pitches | None:
    """The pitches of a tensor with evenly spaced planes and rows without gaps inside."""
    last = rank == 2 and is_last(x.shape, x.strides)
    dense = dense_strides(x.shape, LAST if last else range(len(x.shape)))
    strides = [d if n == 1 else s for n, s, d in zip(x.shape, x.strides, dense, strict=True)]
    if last:
        return Pitches(strides[0], strides[2], strides[3])
    lead, count = strides[:-rank], x.shape[-rank - 1]
    if strides[-1] != 1 or min(strides) < 0:
        return None
    if len(lead) == 2 and min(x.shape[:2]) > 1 and lead[0] != count * lead[1]:
        return None
    plane = lead[0] if len(lead) == 2 and count == 1 else lead[-1]
    return Pitches(plane, strides[-2] if rank == 2 else x.shape[-1], 1)


@dataclass(frozen=True)
class BlockPart:
    """The part of a block.

    height  rows of a task
    rows    of the result, if a block has one plane
    planes  if a block has all rows
    span    elements of the interval
    again   elements that all blocks read, relative to those of the input
    """

    height: int
    rows: int
    planes: int
    span: int
    again: float


@dataclass(frozen=True)
class Staged:
    """A pooling by blocks that copy their part of the input into shared memory."""

    job: PoolJob
    input: Pitches
    target: Target

    @property
    def name(self) -> str:
        return "staged"

    @property
    def kind(self) -> str:
        """The C++ type of a block's part of the input."""
        return "Chunk"

    def _part(self) -> BlockPart | None:
        """The largest part that fits, in blocks enough for the GPU; None if a row is too large."""
        job, v, (rows, columns) = self.job, self.job.view, self.job.sizes
        height = self.height(rows)
        goal = v.planes * self.input.plane * job.dtype.itemsize // (8 * self.target.sms)
        most = max(model.CHUNK_MIN_BYTES, min(model.CHUNK_BYTES, goal)) // job.dtype.itemsize
        whole = (v.height - 1) * self.input.row + (v.width - 1) * self.input.column + v.inner
        if job.windows.out and columns > WINDOWS:
            return None
        if whole <= most and (rows <= WINDOWS or not job.windows.out):
            planes = 1 + max(0, most - whole) // max(self.input.plane, whole)
            planes = min(planes, v.planes)
            span = whole + (planes - 1) * self.input.plane
            return BlockPart(
                height, rows, planes, span, self.input.plane / (v.height * v.width * v.inner)
            )
        count = cdiv(min(rows, WINDOWS) if job.windows.out else rows, height)
        while (need := max(self.spans(count * height)) * self.input.row) > most and count > 1:
            count = max(1, min(count - 1, count * most // need))
        if need * job.dtype.itemsize > model.CHUNK_BYTES:
            return None
        count = cdiv(cdiv(rows, height), cdiv(rows, count * height))  # blocks of equal sizes
        spans = self.spans(count * height)
        again = sum(spans) / v.height * self.input.row / (v.width * v.inner)
        return BlockPart(height, count * height, 1, max(spans) * self.input.row, again)

    def spans(self, rows: int) -> list[int]:
        """Rows of the input that each block needs, if it has so many of the result."""
        last, size = self.job.sizes[0], self.job.view.height
        bands = [(o, min(o + rows, last) - 1) for o in range(0, last, rows)]
        return [self.job.windows.rows(a, b, size) for a, b in bands]

    @property
    def _most(self) -> tuple[int, int]:
        """The sizes of the largest adaptive window."""
        v, out = self.job.view, self.job.sizes
        rows, columns = (
            max(cdiv((o + 1) * n, m) - o * n // m for o in range(min(m, WINDOWS)))
            for n, m in zip((v.height, v.width), out, strict=True)
        )
        return rows, columns

    @property
    def _walks(self) -> bool:
        """True if a thread computes several rows: if no places of maxima are saved."""
        if self.job.code:
            return False
        return not self.job.windows.out or math.prod(self._most) <= model.TASK_READS // 8

    def height(self, rows: int) -> int:
        """The rows of a task: all, or four to eight such that few are left over."""
        if not self._walks:
            return 1
        if rows <= 4:
            return rows
        v = self.job.view
        many = v.planes * rows * self.job.sizes[1] * v.inner >= 8 * self.target.threads
        fitting = [n for n in range(4, 9 if many else 5) if self._reads(n) <= model.TASK_READS]
        return min(fitting or [1], key=lambda n: (cdiv(rows, n) * n, -n))

    def _reads(self, height: int) -> int:
        """Elements that a task of so many rows reads."""
        w = self.job.windows
        if not self._walks:
            return self.job.taps
        if w.out:
            return height * math.prod(self._most)
        lines = {
            q * w.stride[0] + k * w.dilation[0] for q in range(height) for k in range(w.kernel[0])
        }
        return len(lines) * w.kernel[1]

    @property
    def _whole(self) -> bool:
        """True if no window has a column outside of the input."""
        w, (_, columns) = self.job.windows, self.job.sizes
        end = (columns - 1) * w.stride[1] + (w.kernel[1] - 1) * w.dilation[1] + 1
        return not w.out and w.padding[1] == 0 and end <= self.job.view.width

    def candidates(self, before: float) -> list[Candidate]:
        """One, or none; `before` is the time of a copy."""
        job, v = self.job, self.job.view
        if job.backward or v.planes >= 2**31:
            return []
        part = self._part()
        if part is None or (self._walks and self._reads(part.height) > model.TASK_READS):
            return []
        what = f"{part.planes} planes" if part.planes > 1 else f"{part.rows} rows"
        why = f"{what} per block, {part.height} places per thread, {job.moved:,} bytes"
        cost = before + self.target.launch + self._time(part)
        plan = functools.partial(self._plan, part)
        return [Candidate(f"{self.name} by {part.height}", cost, why, plan)]

    def _time(self, part: BlockPart) -> float:
        """That of the memory, of the instructions or of waiting; the first two overlap in part."""
        job, v, (rows, columns) = self.job, self.job.view, self.job.sizes
        read = v.planes * v.height * v.width * v.inner * int(job.dtype.itemsize)
        moving = (job.moved + read * (part.again - 1)) / self.target.bandwidth
        groups, reads = cdiv(part.rows, part.height), self._reads(part.height)
        bands = cdiv(rows, part.rows)
        tasks = v.planes * bands * groups * columns * v.inner
        cost = model.TASK_COSTS[job.name]
        instructions = model.TASK_INSTRUCTIONS + cost.read * reads + cost.result * part.height
        clocks = self.target.fp32 / 256  # of all multiprocessors, which issue four warps
        computing = cdiv(tasks, 32) * instructions / (4 * clocks)
        reading = cdiv(tasks, 32) * reads * self.conflicts(part) / clocks
        busy = max(computing, reading)
        turns = cdiv(part.planes * groups * columns * v.inner, BLOCK)
        turn = model.TASK_TIME + reads * (
            model.READ_TIME if self._walks else model.DEPENDENT_READ_TIME
        )
        waves = cdiv(bands * self._blocks(part), model.BLOCKS_PER_SM * self.target.sms)
        waiting = waves * (model.ARRIVAL_TIME + turns * turn)
        return model.START_TIME + max(moving + 0.25 * busy, busy + 0.5 * moving, waiting)

    def conflicts(self, part: BlockPart) -> int:
        """Cycles of a read of shared memory: words of a bank that a warp's first tasks read."""
        v, w, (rows, columns) = self.job.view, self.job.windows, self.job.sizes
        down, along = w.stride if not w.out else (v.height // rows, v.width // columns)
        banks: dict[int, set[int]] = {}
        for t in range(32):
            rest, c = divmod(t, v.inner)
            rest, column = divmod(rest, columns)
            plane, group = divmod(rest, cdiv(part.rows, part.height))
            at = (plane * self.input.plane + group * part.height * down * self.input.row
                  + column * along * self.input.column + c)  # fmt: skip
            word = at * self.job.dtype.itemsize // 4
            banks.setdefault(word % 32, set()).add(word)
        return max(map(len, banks.values()))

    def _plan(self, part: BlockPart) -> Plan:
        job, v, (rows, columns) = self.job, self.job.view, self.job.sizes
        code = [] if job.code is None else [job.code or "Nothing"]
        types = ", ".join([source.ctype(job.dtype), *code, job.axes])
        flags = ", ".join(str(b).lower() for b in (self._whole, self.input.column != 1))
        last = f"{part.height}, {flags}, {self.kind}"
        if job.windows.out and self._walks:
            last += ", {}, {}".format(*self._most)
        kernel = source.kernel("pool/forward.cu", f"{job.name}_staged<{types}, {last}>", **STRUCTS)
        groups, bands = cdiv(part.rows, part.height), cdiv(rows, part.rows)
        blocks = bands * self._blocks(part)
        shape = PoolShape(
            blocks, v.height, v.width, rows, columns, size_of(v.inner), size_of(columns),
            size_of(groups), v.planes,
        ).pack()  # fmt: skip
        args = (*job.pointers, *job.numbers, shape, self._chunk(part, bands))
        room = (part.span * job.dtype.itemsize + 31) // 16 * 16
        step = Step(kernel, (blocks,), (BLOCK,), args, room, early=True)
        return Plan((*job.before, step), job.outputs, job.scratch)

    def _blocks(self, part: BlockPart) -> int:
        """Blocks of all planes."""
        return cdiv(self.job.view.planes, part.planes)

    def _chunk(self, part: BlockPart, bands: int) -> bytes:
        """The C++ struct that describes a part."""
        return ChunkShape(*self.input, part.rows, part.planes, bands).pack()
