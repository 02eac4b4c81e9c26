"""Convolutions whose stride is the size of the filter, as matrix products with patches."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

import torch

from weft.kernels import cdiv
from weft.kernels.structs import Int, LongLong, Struct
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import Buffer, Layout, Map, Plan, Pointer, Step
from weft.ops.families.conv import pack
from weft.ops.families.conv.implicit import INDEX
from weft.ops.families.conv.job import ConvJob, Tensor
from weft.ops.families.conv.tma.products import preceded
from weft.ops.families.elementwise.copies import contiguous
from weft.ops.families.matmul.product import Bias, Operand, Product

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
MOST_SHARED = 48 << 10
"""Bytes of the patches of a block."""
LEAST_BLOCKS = 4
"""Blocks for each SM, where there are as many patches."""
COPY_REACH = 0.6
"""Share of the memory's rate that the copies reach; not fitted to a record."""


@dataclass(frozen=True)
class Patches(Struct):
    """Images as patches: see patches.cu. Strides are in elements."""

    P: Annotated[Int, "rows of patches of an image"]
    Q: Int
    across: Annotated[Int, "patches of a block"]
    parts: Annotated[Int, "blocks beside each other"]
    line: Annotated[Int, "elements of a line in shared memory"]
    pitch: Annotated[Int, "elements of a row of the matrix"]
    blocks: Annotated[Int, "that have patches"]
    image: LongLong
    channel: LongLong
    row: LongLong


def applies(job: ConvJob) -> bool:
    """True for windows that touch but do not overlap."""
    g = job.geometry
    if g.groups > 1 or g.taps == 1 or g.stride != (g.r, g.s) or g.pad != (0, 0):
        return False
    rows = g.n * g.p * g.q
    small = max(rows, g.k) * _pitch(job) < INDEX and _smallest(job) <= MOST_SHARED
    return g.dilation == (1, 1) and job.out.dtype in DTYPES and small and not job.before


def _pitch(job: ConvJob) -> int:
    """Elements of a row of the matrix."""
    g, each = job.geometry, pack.vector(job)
    return cdiv(g.c * g.taps, each) * each


def _smallest(job: ConvJob) -> int:
    """Bytes of one patch in shared memory."""
    return _room(job, 1)


@dataclass(frozen=True)
class Matrix:
    """The matrix of patches of images.

    images        in memory
    last          True if their channels are innermost, which their filters may have otherwise
    across        patches of a block
    """

    job: ConvJob
    images: Tensor
    last: bool
    filters_last: bool
    across: int

    @property
    def shape(self) -> tuple[int, int]:
        g = self.job.geometry
        return g.n * g.p * g.q, _pitch(self.job)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def blocks(self) -> int:
        g = self.job.geometry
        return g.n * g.p * cdiv(g.q, self.across)

    @property
    def cost(self) -> float:
        """Seconds of a copy into, or from, the matrix."""
        gpu = self.job.gpu
        return gpu.launch + 2 * self._size * self.size / (gpu.bandwidth * COPY_REACH)

    @property
    def buffer(self) -> Buffer:
        return Buffer(self.shape, self.job.out.dtype)

    def operand(self, place: Pointer, batch: int = 0) -> Operand:
        """The matrix with rows along M or N, and elements of filters along K."""
        return Operand(place, self.shape[1], 1, batch, 16)

    def _line(self) -> int:
        g, vector = self.job.geometry, pack.vector(self.job)
        each = self.across * g.s * (g.c if self.last else 1)
        return cdiv(each, vector) * vector + vector  # lines begin in other banks

    def _wide(self) -> int:
        """Elements of lines that are aligned together."""
        g, (image, channel, row, _) = self.job.geometry, self.images.images.strides
        each, vector = g.s * (g.c if self.last else 1), pack.vector(self.job)
        lengths = (each, g.r * row, row, image, vector if self.last else channel)
        wide = math.gcd(vector, *lengths)
        while wide * self._size > self.images.images.aligned:
            wide //= 2
        return wide

    @property
    def _size(self) -> int:
        """Bytes of an element."""
        return int(self.job.out.dtype.itemsize)

    def step(self, kernel: str, more: int, *args: Any) -> Step:
        """A launch, with so many blocks of filters."""
        g, strides = self.job.geometry, self.images.images.strides
        name = source.template(
            kernel, source.ctype(self.job.out.dtype), g.c, g.r, g.s, self.last, self.filters_last,
            self._wide(),
        )  # fmt: skip
        made = source.kernel("conv/patches.cu", name, **Patches.define())
        problem = Patches(
            g.p, g.q, self.across, cdiv(g.q, self.across), self._line(), self.shape[1], self.blocks,
            *strides[:3],
        )  # fmt: skip
        shared = self._size * self._line() * g.r * (1 if self.last else g.c)
        grid = (self.blocks + more,)
        return Step(made, grid, (256,), (*args, problem.pack()), shared, early=True)


def _matrix(job: ConvJob, images: Tensor, filters_last: bool) -> Matrix | None:
    """The matrix of images whose rows, or pixels, are neighbours; None for others."""
    g, (_, channel, _, column) = job.geometry, images.images.strides
    last = channel == 1 and column == g.c
    if not last and column != 1:
        return None
    across = g.q
    wanted = LEAST_BLOCKS * job.gpu.sms
    while across > 1 and (
        _room(job, across) > MOST_SHARED or g.n * g.p * cdiv(g.q, across) < wanted
    ):
        across = cdiv(across, 2)
    return Matrix(job, images, last, filters_last, across)


def _room(job: ConvJob, across: int) -> int:
    """Bytes of so many patches in shared memory: lines of at most two vectors more."""
    g = job.geometry
    return int(job.out.dtype.itemsize) * across * g.c * g.taps + 32 * g.c * g.r


def _filters_last(weight: Tensor) -> bool:
    """True if the channels of filters are innermost."""
    return weight.images.strides[1] == 1 and not weight.layout.contiguous


@dataclass(frozen=True)
class Filters:
    """The filters as a matrix with whole vectors: as they are, or copied beside the patches."""

    operand: Operand
    buffers: tuple[Buffer, ...]

    @property
    def copied(self) -> bool:
        return bool(self.buffers)


def _filters(job: ConvJob, place: Pointer) -> Filters:
    g, pitch = job.geometry, _pitch(job)
    if g.c * g.taps == pitch and job.second.images.aligned == 16:
        return Filters(Operand(job.second.pointer, pitch, 1, 0, 16), ())
    return Filters(Operand(place, pitch, 1, 0, 16), (Buffer((g.k, pitch), job.out.dtype),))


class Pixels(NamedTuple):
    """dy as rows of a matrix, pixels with their channels: as it is, or copied."""

    pointer: Pointer
    buffers: tuple[Buffer, ...]
    cost: float
    steps: Callable[[], tuple[Step, ...]]


def _pixels(job: ConvJob, place: Pointer) -> Pixels | None:
    """The pixels of dy, at `place` if they are copied; None if channels are no whole vectors."""
    g, dtype = job.geometry, job.out.dtype
    sn, sc, sh, sw = job.first.images.strides
    view = Layout(dtype, (g.n, g.p, g.q, g.k), (sn, sh, sw, sc), job.first.images.aligned)
    if dtype is not torch.float32:  # a packed float32 would be rounded to tf32
        if g.k % pack.vector(job):
            return None
        dy = pack.images(job, job.first, g.y, place)
        if dy.size:
            packing = pack.Packing(job, (dy,))
            return Pixels(place, packing.buffers, packing.cost, packing.steps)
    if view.contiguous and view.aligned == 16:
        return Pixels(job.first.pointer, (), 0.0, tuple)
    copy = contiguous(view, job.first.pointer, place, job.gpu)  # images with gaps between them
    return Pixels(place, (Buffer((view.numel,), dtype),), copy.cost, lambda: tuple(copy.steps))


def forward(job: ConvJob, request: Request) -> list[Candidate]:
    """Candidates of the forward pass."""
    g = job.geometry
    if not applies(job):
        return []
    made = _matrix(job, job.first, _filters_last(job.second))
    if made is None:
        return []
    filters = _filters(job, job.scratch_at(1))
    place, inputs = job.scratch_at(), len(request.inputs)
    scratch = (*job.scratch, made.buffer, *filters.buffers)
    rows, depth, pixels = made.shape[0], g.c * g.taps, g.p * g.q
    if job.result.images.strides[1] == 1 and g.k > 1:
        bias = Bias(job.bias, 0, 0, 1) if job.bias else None
        product = Product(
            1, rows, g.k, depth, made.operand(place), filters.operand, bias, g.k, 1, 0, job.out,
            scratch=scratch, inputs=inputs,
        )  # fmt: skip
    else:
        bias = Bias(job.bias, 0, 1, 0) if job.bias else None
        patches = made.operand(place, pixels * made.shape[1])
        product = Product(
            g.n, g.k, pixels, depth, filters.operand, patches, bias, pixels, 1, 0, job.out,
            scratch=scratch, inputs=inputs,
        )  # fmt: skip

    def gather() -> tuple[Step, ...]:
        args = (
            *((job.first.pointer, job.second.pointer, place)),
            filters.operand.pointer if filters.copied else None,
        )
        return (made.step("gather_patches", g.k if filters.copied else 0, *args),)

    return preceded("patches", product, request, job.cost + made.cost, gather)


def backward_input(job: ConvJob, request: Request) -> list[Candidate]:
    """Candidates of the backward pass to the data."""
    g = job.geometry
    if not applies(job):
        return []
    made = _matrix(job, job.result, _filters_last(job.second))
    if made is None:
        return []
    dy = _pixels(job, job.scratch_at())
    if dy is None:
        return []
    inputs = len(request.inputs)
    rows, depth = made.shape[0], g.c * g.taps
    sk = depth
    weight = Operand(job.second.pointer, 1, sk, 0, job.second.images.aligned)
    left = Operand(dy.pointer, g.k, 1, 0, 16)
    out = job.out
    if (g.p * g.r, g.q * g.s) != (g.h, g.w):  # pixels that no window reads
        out = out._replace(zeroed=True)
    # The product's result is a buffer: that of the pass is number `inputs`, others follow.
    product = Product(
        1, rows, depth, g.k, left, weight, None, made.shape[1], 1, 0, made.buffer,
        scratch=(*job.scratch, *dy.buffers), inputs=inputs,
    )  # fmt: skip

    def after(plan: Plan) -> Plan:
        steps = tuple(_moved(step, inputs) for step in plan.steps)
        last = made.step("scatter_patches", 0, Pointer(inputs + 1), Pointer(inputs))
        return Plan((*steps, last), (out,), (*plan.outputs, *plan.scratch))

    cost = job.cost + dy.cost + made.cost
    return preceded("patches", product, request, cost, dy.steps, after)


def backward_weight(job: ConvJob, request: Request) -> list[Candidate]:
    """Candidates of the backward pass to the weight, whose elements are [channel][row][column]."""
    g = job.geometry
    if not applies(job):
        return []
    made = _matrix(job, job.second, False)
    if made is None:
        return []
    dy = _pixels(job, job.scratch_at(1))
    if dy is None:
        return []
    place = job.scratch_at()
    left = Operand(dy.pointer, 1, g.k, 0, 16)
    patches = Operand(place, 1, made.shape[1], 0, 16)
    product = Product(
        1, g.k, g.c * g.taps, made.shape[0], left, patches, None, g.c * g.taps, 1, 0, job.out,
        scratch=(*job.scratch, made.buffer, *dy.buffers), inputs=len(request.inputs),
    )  # fmt: skip

    def before() -> tuple[Step, ...]:
        args = (job.second.pointer, None, place, None)
        return (*dy.steps(), made.step("gather_patches", 0, *args))

    return preceded("patches", product, request, job.cost + dy.cost + made.cost, before)


def _moved(step: Step, inputs: int) -> Step:
    """The launch if a result is put before those of its plan."""

    def moved(argument: Any) -> Any:
        if isinstance(argument, Map):
            return argument._replace(pointer=moved(argument.pointer))
        if isinstance(argument, Pointer) and argument.number >= inputs:
            return argument._replace(number=argument.number + 1)
        return argument

    return replace(step, args=tuple(moved(a) for a in step.args))
