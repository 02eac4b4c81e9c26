"""Pooling through shared memory for tensors of any strides: the boxes of `cuda/pool/staged.cuh`.

A block has planes that are neighbours along the dimension, N or C, that is closer in memory. It
reads them element by element in the order of memory, so that no copy of the tensor is needed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from weft.kernels import cdiv
from weft.ops.choose import Candidate
from weft.ops.layouts import divisor
from weft.ops.plan import Layout
from weft.ops.pool.kernels import Job
from weft.ops.pool.staged import LEAST, MOST, WINDOWS, Part, Pitches, Staged
from weft.ops.target import Target

RUN, SECTOR = 64, 32
"""Bytes that are neighbours in memory: so many at least, and those that are read or written."""
COPYING = 20
"""Instructions to copy an element."""


class Axes(NamedTuple):
    """The strides of an input, and its planes along the closer dimension and along the other.

    each, beside  planes of the result from one plane to the next, along either dimension
    """

    height: int
    width: int
    along: int
    other: int
    planes: int
    others: int
    each: int
    beside: int


def axes(x: Layout) -> Axes:
    """Those of a tensor of four dimensions."""
    (n, c, _, _), (sn, sc, sh, sw) = x.shape, x.strides
    if c == 1 or (n > 1 and sn < sc):
        return Axes(sh, sw, sn, sc, n, c, c, 1)
    return Axes(sh, sw, sc, sn, c, n, 1, c)


@dataclass(frozen=True)
class Boxed(Staged):
    """A pooling by blocks that copy a box of the input.

    order  the sizes of a box and their strides, innermost first
    """

    axes: Axes
    high: int
    chosen: Part
    order: tuple[tuple[int, int], ...]
    pitch: tuple[int, int]
    name: ClassVar[str] = "boxes"
    kind: ClassVar[str] = "Box"

    def _part(self) -> Part | None:
        return self.chosen

    @property
    def _counts(self) -> tuple[int, int]:
        return self.axes.planes, self.axes.others

    def _time(self, part: Part) -> float:
        elements = self.job.view.planes * self.job.view.height * self.job.view.width
        clocks = self.target.fp32 / 256
        copying = elements * part.again / 32 * COPYING / (4 * clocks)
        size, (rows, columns) = int(self.job.dtype.itemsize), self.job.sizes
        run = rows * columns * size if self.axes.each > 1 else SECTOR
        apart = self.job.view.planes * max(0, SECTOR - run) / self.target.bandwidth
        return super()._time(part) + 0.5 * copying + apart

    def _chunk(self, part: Part, bands: int) -> bytes:
        a = self.axes
        sizes = [n for size, _ in self.order[:2] for n in (size, *divisor(size, 32))]
        count = self.order[0][0] * self.order[1][0] * self.order[2][0]
        return struct.pack(
            "<5i2Ii2I3q6I3i4x3q", *self.input, part.rows, part.planes, bands, a.others, self.high,
            a.each, a.beside, a.height, a.along, a.other, *sizes, count, *self.pitch,
            *(stride for _, stride in self.order),
        )  # fmt: skip


def boxed(job: Job, x: Layout, target: Target) -> list[Candidate]:
    """The candidate, or none."""
    if len(x.shape) != 4 or job.view.inner > 1:
        return []
    found = _box(job, axes(x), target)
    return found.candidates(0.0) if found else []


def _box(job: Job, a: Axes, target: Target) -> Boxed | None:
    """The largest box that fits, in blocks enough for the GPU."""
    v, (rows, columns), size = job.view, job.sizes, int(job.dtype.itemsize)
    plain = Staged(job, Pitches(v.height * v.width, v.width, 1), target)
    height = plain.height(rows)
    goal = v.planes * v.height * v.width * size // (8 * target.sms)
    most = max(LEAST, min(MOST, goal)) // size
    least = 1 if min(a.height, a.width) == 1 else min(a.planes, RUN // size)
    if job.windows.out and max(rows, columns) > WINDOWS:
        return None
    count, high = cdiv(rows, height), v.height
    while least * high * v.width > most and count > 1:
        count = max(1, min(count - 1, count * most // (least * high * v.width)))
        high = max(plain.spans(count * height))
    planes = min(a.planes, max(least, most // (high * v.width)))
    if planes * high * v.width * size > MOST:
        return None
    again = sum(plain.spans(count * height)) / v.height if count * height < rows else 1.0
    part = Part(height, min(count * height, cdiv(rows, height) * height), planes, 0, again)
    boxes = (_padded(plain, a, high, part, pad * max(1, 4 // size)) for pad in range(8))
    return min(boxes, key=lambda b: b.conflicts(b.chosen))


def _padded(plain: Staged, a: Axes, high: int, part: Part, pad: int) -> Boxed:
    """The box with `pad` elements left free before each step of its outermost size."""
    width = plain.job.view.width
    sizes = sorted([(a.along, part.planes, 0), (a.height, high, 1), (a.width, width, 2)])
    middle = sizes[0][1]
    outer = middle * sizes[1][1] + pad
    pitch = [0, 0, 0]
    for step, (_, _, which) in zip((1, middle, outer), sizes, strict=True):
        pitch[which] = step
    order = tuple((n, stride) for stride, n, _ in sizes)
    part = replace(part, span=outer * sizes[2][1])
    return Boxed(plain.job, Pitches(*pitch), plain.target, a, high, part, order, (middle, outer))
