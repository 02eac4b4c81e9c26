"""Pooling through shared memory for tensors of any strides: `StridedChunk` of staged.cuh.

A block has planes of some channels of some images, and copies them in the order of memory: no
copy of the tensor is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Layout
from weft.ops.core.target import Target
from weft.ops.families.pool import model
from weft.ops.families.pool.kernels import PoolJob
from weft.ops.families.pool.staged import WINDOWS, BlockPart, Pitches, Staged
from weft.ops.families.pool.structs import StridedShape, size_of


class ChunkDim(NamedTuple):
    """A dimension of a chunk: its size, and its stride in memory."""

    name: str
    size: int
    stride: int


@dataclass(frozen=True)
class ChunkLayout:
    """A chunk in memory: segments of `run` neighbours along up to three dimensions.

    pitch  elements between the dimensions of `outer`, innermost first, in shared memory
    wide   bytes of an access: distances of segments are multiples
    """

    run: int
    outer: tuple[ChunkDim, ...]
    pitch: tuple[int, ...]
    wide: int
    steps: dict[str, int]

    @property
    def segments(self) -> int:
        return math.prod(d.size for d in self.outer)

    @property
    def span(self) -> int:
        return self.pitch[-1]


def chunk_layout(sizes: list[ChunkDim], itemsize: int, pad: int) -> ChunkLayout | None:
    """The layout of a chunk in memory; None if its innermost elements are no neighbours.

    pad  vectors that are left free behind a segment in shared memory
    """
    rest = sorted((d for d in sizes if d.size > 1), key=lambda d: d.stride)
    run, steps = 1, {d.name: 0 for d in sizes}
    while rest and rest[0].stride == run:
        inner = rest.pop(0)
        steps[inner.name] = run
        run *= inner.size
    if len(rest) > 3:
        return None
    low = math.gcd(16, *(d.stride * itemsize for d in rest))
    vector = max(1, low // itemsize)
    pitch = [(cdiv(run + vector - 1, vector) + pad) * vector]
    for d in rest:
        steps[d.name] = pitch[-1]
        pitch.append(pitch[-1] * d.size)
    return ChunkLayout(run, tuple(rest), tuple(pitch), low, steps)


@dataclass(frozen=True)
class StridedStaged(Staged):
    """A pooling by blocks that copy a chunk of the input."""

    x: Layout
    high: int
    counts: tuple[int, int]
    chosen: BlockPart
    memory: ChunkLayout

    @property
    def name(self) -> str:
        return "strided"

    @property
    def kind(self) -> str:
        return f"StridedChunk<{self.memory.wide}>"

    def _part(self) -> BlockPart | None:
        return self.chosen

    def _blocks(self, part: BlockPart) -> int:
        images, channels = self.x.shape[:2]
        return cdiv(channels, self.counts[0]) * cdiv(images, self.counts[1])

    def _time(self, part: BlockPart) -> float:
        vectors = cdiv(self.memory.run * self.x.itemsize, self.memory.wide)
        lanes = 1 << min(5, (vectors - 1).bit_length())
        blocks = self._blocks(part) * cdiv(self.job.sizes[0], part.rows)
        each = model.SEGMENT_INSTRUCTIONS * self.memory.segments * lanes * cdiv(vectors, lanes) / 32
        if self.memory.wide < 4:
            each = model.COPY_INSTRUCTIONS * self.memory.segments * self.memory.run / 32
        # The ends of a run are parts of sectors.
        again = part.again * (1 + model.SECTOR / (self.memory.run * self.x.itemsize))
        time = super()._time(replace(part, again=again))
        return time + blocks * each / (4 * self.target.fp32 / 256)

    def _chunk(self, part: BlockPart, bands: int) -> bytes:
        m, (images, channels), (sn, sc, sh, _) = self.memory, self.x.shape[:2], self.x.strides
        first, second = (size_of(n) for n in (*(d.size for d in m.outer[:2]), 1, 1)[:2])
        vectors = cdiv(m.run * self.x.itemsize, m.wide) + 1
        lanes = 1 << min(5, (vectors - 1).bit_length())
        pitch = (*m.pitch[:-1], 0, 0, 0)[:3]
        apart = (*(d.stride for d in m.outer), 0, 0, 0)[:3]
        return StridedShape(
            self.input.row, self.input.column, part.rows, bands, self.high,
            (m.steps["c"], m.steps["n"]), self.counts, (channels, images),
            cdiv(channels, self.counts[0]), size_of(self.counts[0]), size_of(m.run), first, second,
            m.segments, lanes, pitch, sh, (sc, sn), apart,
        ).pack()  # fmt: skip


def strided_candidates(job: PoolJob, x: Layout, target: Target) -> list[Candidate]:
    """The candidate, or none."""
    if len(x.shape) != 4 or job.view.inner > 1:
        return []
    largest = _largest(job, x, target)
    return largest.candidates(0.0) if largest else []


def _largest(job: PoolJob, x: Layout, target: Target) -> StridedStaged | None:
    """The largest chunk that fits, in blocks enough for the GPU."""
    v, (rows, columns), size = job.view, job.sizes, x.itemsize
    if job.windows.out and max(rows, columns) > WINDOWS:
        return None
    plain = Staged(job, Pitches(v.height * v.width, v.width, 1), target)
    height = plain.height(rows)
    goal = x.numel * size // (4 * target.sms)  # short runs cost more than few blocks
    most = max(model.CHUNK_MIN_BYTES, min(model.CHUNK_BYTES, goal)) // size
    least = _least(x)
    count, high = cdiv(rows, height), v.height
    while least * high * v.width > most and count > 1:
        count = max(1, min(count - 1, count * most // (least * high * v.width)))
        high = max(plain.spans(count * height))
    again = sum(plain.spans(count * height)) / v.height if count * height < rows else 1.0
    counts = _counts(x, max(1, most // (high * v.width)), least, rows * columns * size)
    part = BlockPart(height, count * height, math.prod(counts), 0, again)
    found = []
    for pad in range(4):
        dims = [ChunkDim("c", counts[0], x.strides[1]), ChunkDim("n", counts[1], x.strides[0])]
        dims += [ChunkDim("h", high, x.strides[2]), ChunkDim("w", v.width, x.strides[3])]
        made = chunk_layout(dims, size, pad)
        if made is None or made.span * size > model.CHUNK_BYTES * 5 // 4:
            continue
        pitches = Pitches(made.steps["c"] or made.steps["n"], made.steps["h"], made.steps["w"])
        whole = replace(part, span=made.span)
        found.append(StridedStaged(job, pitches, target, x, high, counts, whole, made))
    return min(found, key=lambda b: b.conflicts(b.chosen), default=None)


def _near(x: Layout) -> int:
    """The number of the dimension that is closer in memory: 0 for channels, 1 for images."""
    (images, channels), (sn, sc) = x.shape[:2], x.strides[:2]
    return int(channels == 1 or (images > 1 and sn < sc))


def _least(x: Layout) -> int:
    """Planes along the closer dimension that a block needs for runs of some length."""
    near = _near(x)
    step, planes = max(1, x.strides[1 - near]), x.shape[1 - near]
    each = step if step <= max(x.shape[2:]) else model.RUN_BYTES
    return min(planes, cdiv(model.RUN_BYTES // 2, each * x.itemsize))


def _counts(x: Layout, planes: int, least: int, result: int) -> tuple[int, int]:
    """Channels and images of a chunk of so many planes; `result` has the bytes of a plane's."""
    near, (images, channels) = _near(x), x.shape[:2]
    closer, farther = (images, channels) if near else (channels, images)
    some = min(closer, planes)
    # Results of channels are neighbours: short ones are written together.
    if near and result < model.RUN_BYTES:
        some = min(some, max(least, planes // farther))
    other = min(farther, max(1, planes // some))
    return (other, some) if near else (some, other)
