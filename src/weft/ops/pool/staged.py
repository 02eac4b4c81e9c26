"""Pooling through shared memory: the kernels of `cuda/pool/staged.cuh`.

A block copies one interval of memory, which has whole planes or some rows of one. It needs neither
aligned rows nor rows of a size that vectors divide, and reads what windows share once. Rows may
have gaps: such a tensor is read as it is.
"""

from __future__ import annotations

import functools
import struct
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from weft.kernels import cdiv
from weft.ops import source
from weft.ops.choose import Candidate
from weft.ops.layouts import dense_strides, divisor
from weft.ops.plan import Layout, Plan, Step
from weft.ops.pool.kernels import BLOCK, Job
from weft.ops.pool.windows import LAST, is_last
from weft.ops.target import Target

LEAST, MOST = 4096, 24 * 1024
"""Bytes of a block's interval: eight blocks of the most bytes share a multiprocessor."""
WINDOWS = 64
"""The most adaptive windows of a block along a dimension, as in staged.cuh."""
UNROLLED = 256
"""The most reads of a task."""
TASK, READ, RESULT, PLACE = 40, 3, 14, 12
"""Instructions of a task, of a read, of a result, and of a read that keeps its place."""
STARTING = 2e-6
"""Seconds until the first block computes."""


class Pitches(NamedTuple):
    """Elements between planes, rows and columns of an input in memory."""

    plane: int
    row: int
    column: int


def pitches(x: Layout, rank: int) -> Pitches | None:
    """Those of a tensor whose planes are equally far apart, and whose rows have no gaps inside."""
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
class Part:
    """What a block has.

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

    job: Job
    input: Pitches
    target: Target
    name: ClassVar[str] = "staged"
    kind: ClassVar[str] = "Chunk"

    def _part(self) -> Part | None:
        """The largest part that fits, in blocks enough for the GPU; None if a row is too large."""
        job, v, (rows, columns) = self.job, self.job.view, self.job.sizes
        height = self.height(rows)
        goal = v.planes * self.input.plane * job.dtype.itemsize // (8 * self.target.sms)
        most = max(LEAST, min(MOST, goal)) // job.dtype.itemsize
        whole = (v.height - 1) * self.input.row + (v.width - 1) * self.input.column + v.inner
        if job.windows.out and columns > WINDOWS:
            return None
        if whole <= most and (rows <= WINDOWS or not job.windows.out):
            planes = 1 + max(0, most - whole) // max(self.input.plane, whole)
            planes = min(planes, v.planes)
            span = whole + (planes - 1) * self.input.plane
            return Part(
                height, rows, planes, span, self.input.plane / (v.height * v.width * v.inner)
            )
        count = cdiv(min(rows, WINDOWS) if job.windows.out else rows, height)
        while (need := max(self.spans(count * height)) * self.input.row) > most and count > 1:
            count = max(1, min(count - 1, count * most // need))
        if need * job.dtype.itemsize > MOST:
            return None
        count = cdiv(cdiv(rows, height), cdiv(rows, count * height))  # blocks of equal sizes
        spans = self.spans(count * height)
        again = sum(spans) / v.height * self.input.row / (v.width * v.inner)
        return Part(height, count * height, 1, max(spans) * self.input.row, again)

    def spans(self, rows: int) -> list[int]:
        """Rows of the input that each block needs, if it has so many of the result."""
        last, size = self.job.sizes[0], self.job.view.height
        bands = [(o, min(o + rows, last) - 1) for o in range(0, last, rows)]
        return [self.job.windows.rows(a, b, size) for a, b in bands]

    @property
    def _walks(self) -> bool:
        """True if a thread computes several rows: where no places of maxima are kept."""
        return not self.job.windows.out and not self.job.code

    def height(self, rows: int) -> int:
        """The rows of a task: all, or four to six such that few are left over."""
        if not self._walks:
            return 1
        return rows if rows <= 4 else min((4, 5, 6), key=lambda n: (cdiv(rows, n) * n, n))

    @property
    def _reads(self) -> int:
        """Elements that a task reads."""
        w, height = self.job.windows, self.height(self.job.sizes[0])
        if not self._walks:
            return self.job.taps
        lines = {q * w.stride[0] + k * w.dilation[0] for q in range(height)
                 for k in range(w.kernel[0])}  # fmt: skip
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
        if job.backward or v.planes >= 2**31 or (self._walks and self._reads > UNROLLED):
            return []
        part = self._part()
        if part is None:
            return []
        what = f"{part.planes} planes" if part.planes > 1 else f"{part.rows} rows"
        return [
            Candidate(f"{self.name} by {part.height}", before + self.target.launch + self._time(part),
                      f"{what} per block, {part.height} places per thread, {job.moved:,} bytes",
                      functools.partial(self._plan, part))
        ]  # fmt: skip

    def _time(self, part: Part) -> float:
        job, v, (rows, columns) = self.job, self.job.view, self.job.sizes
        size = int(job.dtype.itemsize)
        read = v.planes * v.height * v.width * v.inner * size
        moving = (job.moved + read * (part.again - 1)) / self.target.bandwidth
        tasks = v.planes * cdiv(rows, part.height) * columns * v.inner
        each = READ if self._walks else PLACE
        instructions = TASK + each * self._reads + RESULT * part.height
        clocks = self.target.fp32 / 256  # of all multiprocessors, which issue four warps
        computing = cdiv(tasks, 32) * instructions / (4 * clocks)
        reading = cdiv(tasks, 32) * self._reads * self.conflicts(part) / clocks
        busy = max(computing, reading)
        return STARTING + max(moving, busy) + 0.2 * min(moving, busy)

    def conflicts(self, part: Part) -> int:
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

    def _plan(self, part: Part) -> Plan:
        job, v, (rows, columns) = self.job, self.job.view, self.job.sizes
        code = [] if job.code is None else [job.code or "Nothing"]
        types = ", ".join([source.ctype(job.dtype), *code, job.axes])
        flags = ", ".join(str(b).lower() for b in (self._whole, self.input.column != 1))
        last = f"{part.height}, {flags}, {self.kind}"
        kernel = source.kernel("pool/pool.cu", f"{job.name}_staged<{types}, {last}>")
        groups, bands = cdiv(part.rows, part.height), cdiv(rows, part.rows)
        sizes = [n for size in (v.inner, columns, groups) for n in (size, *divisor(size, 32))]
        planes, others = self._counts
        blocks = bands * cdiv(planes, part.planes) * others
        shape = struct.pack("<q4i10I", blocks, v.height, v.width, rows, columns, *sizes, planes)
        args = (*job.pointers, *job.numbers, shape, self._chunk(part, bands))
        room = (part.span * job.dtype.itemsize + 31) // 16 * 16
        step = Step(kernel, (blocks,), (BLOCK,), args, room)
        return Plan((*job.before, step), job.outputs, job.scratch)

    @property
    def _counts(self) -> tuple[int, int]:
        """Planes, and how often there are so many."""
        return self.job.view.planes, 1

    def _chunk(self, part: Part, bands: int) -> bytes:
        """The C++ struct that describes a part."""
        return struct.pack("<q4iI4x", *self.input, part.rows, part.planes, bands)
