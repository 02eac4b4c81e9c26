"""Plan convolutions with large filters by Fourier transforms.

`windows(job, back)` offers candidates for the forward pass of a convolution and for its backward
pass to the data, `gradients(job)` for the backward pass to the weight. They take float32 tensors of
any strides, stride 1, dilation 1, any padding and groups. They return no candidate for other jobs,
and for images whose transforms do not fit in a block.

Both tensors are transformed along rows, then along columns. One kernel multiplies the spectra, sums
over channels and transforms columns back, another one transforms rows back and writes the window
that the convolution keeps. A transform is circular: it is as long as needed for the values that
wrap around to stay out of this window.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Plan, Step
from weft.ops.families.conv.job import ConvJob
from weft.ops.families.conv.job import Tensor as Image
from weft.ops.families.conv.model import FOURIER
from weft.ops.families.fft import tables
from weft.ops.families.fft.banks import room
from weft.ops.families.fft.lengths import Stages, convenient, of_one_block
from weft.ops.families.fft.passes import Input, Output, Pass, Side, room_word, stages_word
from weft.ops.families.fft.structs import STRUCTS, Product
from weft.ops.families.fft.workspace import Workspace, WorkspaceTensor

SECTOR = 4
"""Complex numbers in a sector: rows of spectra begin at one."""
THREADS = 512
"""Threads of a block that multiplies spectra."""


@dataclass(frozen=True)
class Spectra:
    """Spectra to multiply: images (i, g, j) of the result sum over s < terms.

    a, b      images of a and b between two values of i, g, j and s
    counts    of i, g and j; images of the result are in this order
    of_a, of_b, of_result  the batch and the channels of each tensor
    """

    a: tuple[int, int, int, int]
    b: tuple[int, int, int, int]
    counts: tuple[int, int, int]
    terms: int
    conjugate: bool
    of_a: tuple[int, int]
    of_b: tuple[int, int]
    of_result: tuple[int, int]


@dataclass(frozen=True)
class Axis:
    """Lengths along one dimension: of a, b, the result, and the circular transform."""

    a: int
    b: int
    result: int
    shift: int
    n: int


def windows(job: ConvJob, back: bool) -> list[Candidate]:
    """The candidate of the forward pass, or of the backward pass to the data."""
    g = job.geometry
    c, k = g.c // g.groups, g.k // g.groups
    if back:
        axes = [
            _convolved(p, r, x, pad)
            for p, r, x, pad in ((g.p, g.r, g.h, g.pad[0]), (g.q, g.s, g.w, g.pad[1]))
        ]
        made = Spectra(
            (g.k, k, 0, 1), (0, k * c, 1, c), (g.n, g.groups, c), k, False,
            (g.n, g.k), (g.k, c), (g.n, g.c),
        )  # fmt: skip
    else:
        axes = [
            _correlated(x, r, p, p + r - 1, pad)
            for x, r, p, pad in ((g.h, g.r, g.p, g.pad[0]), (g.w, g.s, g.q, g.pad[1]))
        ]
        made = Spectra(
            (g.c, c, 0, 1), (0, k * c, c, 1), (g.n, g.groups, k), c, True,
            (g.n, g.c), (g.k, c), (g.n, g.k),
        )  # fmt: skip
    return _candidates(job, job.first, job.second, made, axes)


def gradients(job: ConvJob) -> list[Candidate]:
    """The candidate of the backward pass to the weight."""
    g = job.geometry
    c, k = g.c // g.groups, g.k // g.groups
    axes = [
        _correlated(x, p, r, p + r - 1, pad)
        for x, p, r, pad in ((g.h, g.p, g.r, g.pad[0]), (g.w, g.q, g.s, g.pad[1]))
    ]
    # In the order of the weight: i is the group, g the filter in it.
    made = Spectra(
        (c, 0, 1, g.c), (k, 1, 0, g.k), (g.groups, k, c), g.n, True,
        (g.n, g.c), (g.n, g.k), (g.k, c),
    )  # fmt: skip
    return _candidates(job, job.second, job.first, made, axes)


def _correlated(a: int, b: int, result: int, reach: int, pad: int) -> Axis:
    """result[i] = sum of a[i + j - pad] b[j]; a is read from -pad to reach - pad - 1."""
    return Axis(a, b, result, pad, max(a + pad, reach - pad, a, b, result))


def _convolved(a: int, b: int, result: int, pad: int) -> Axis:
    """result[i] = sum of a[j] b[i + pad - j]."""
    return Axis(a, b, result, -pad, max(a + b - 1 - pad, result + pad, a, b))


# ---- candidates --------------------------------------------------------------------------------
def _candidates(
    job: ConvJob, a: Image, b: Image, made: Spectra, axes: list[Axis]
) -> list[Candidate]:
    g = job.geometry
    plain = g.stride == g.dilation == (1, 1)
    if not plain or job.out.dtype is not torch.float32 or g.taps == 1:
        return []
    rows = 1 if axes[0].n == 1 else convenient(axes[0].n)
    columns = 2 * convenient(cdiv(axes[1].n, 2))
    if of_one_block(rows) is None or of_one_block(columns // 2) is None:
        return []
    plan = Convolution(job, a, b, made, axes[0], axes[1], rows, columns)
    why = f"spectra of {rows} x {columns // 2 + 1}"
    return [Candidate("fourier", plan.cost(), why, plan.build)]


@dataclass(frozen=True)
class Convolution:
    """A convolution by transforms of `rows` x `columns` elements."""

    job: ConvJob
    a: Image
    b: Image
    spectra: Spectra
    vertical: Axis
    horizontal: Axis
    rows: int
    columns: int

    @property
    def width(self) -> int:
        """Elements of a row of a spectrum."""
        return self.columns // 2 + 1

    @property
    def pitch(self) -> int:
        return cdiv(self.width, SECTOR) * SECTOR

    @property
    def images(self) -> int:
        i, g, j = self.spectra.counts
        return i * g * j

    def cost(self) -> float:
        gpu, spectrum = self.job.gpu, 8 * self.rows * self.pitch
        inputs = math.prod(self.spectra.of_a) + math.prod(self.spectra.of_b)
        products = 2 * self.images * self.spectra.terms
        near = (inputs + self.images) * spectrum < gpu.l2
        moved = (4 * (inputs + self.images) + products) * spectrum
        work = 4 * products * self.rows * self.width / (FOURIER.reach * gpu.fp32)
        bandwidth = gpu.bandwidth * (FOURIER.l2_rate if near else 1.0)
        return self.job.cost + FOURIER.launches * gpu.launch + max(moved / bandwidth, work)

    def build(self) -> Plan:
        job, spectra = self.job, self.spectra
        work = Workspace(job.gpu, job.scratch_at().number)
        a = self.transformed(self.a, self.vertical.a, self.horizontal.a, spectra.of_a, work)
        b = self.transformed(self.b, self.vertical.b, self.horizontal.b, spectra.of_b, work)
        y = work.buffer((self.images, self.vertical.result, self.pitch))
        work.steps.append(self.product(a, b, y))
        work.steps.append(self.cropped(y))
        return job.plan(*work.steps, scratch=tuple(work.scratch))

    def transformed(
        self, x: Image, height: int, width: int, images: tuple[int, int], work: Workspace
    ) -> WorkspaceTensor:
        """The spectra of the images of x. Rows that x does not have are never stored."""
        z = work.buffer((math.prod(images), self.rows, self.pitch))
        n, c, row, column = x.images.strides
        even = all(s % 2 == 0 for s in (n, c, row))
        paired = column == 1 and x.images.aligned >= 8 and even
        size, half = self.rows * self.pitch, self.columns // 2
        along = Pass(
            half, _stages(half), height, images[1], images[0],
            Side(x.pointer, 2 * column, row, c, n, False, column, paired),
            Side(z.pointer, 1, self.pitch, size, images[1] * size),
            Input("PAIRS", width, "float"), Output("UNFOLDED"),
        )  # fmt: skip
        work.steps.append(along.step(work.target))
        if self.rows > 1:
            place = Side(z.pointer, self.pitch, 1, 0, size, True)
            down = Pass(
                self.rows, _stages(self.rows), self.width, 1, math.prod(images), place, place,
                Input("COMPLEX", height), Output("ALL"),
            )  # fmt: skip
            work.steps.append(down.step(work.target))
        return z

    def product(self, a: WorkspaceTensor, b: WorkspaceTensor, y: WorkspaceTensor) -> Step:
        """The step that multiplies spectra, and transforms the columns back."""
        s, spectra = _stages(self.rows), self.spectra
        columns = max(1, min(1 << (THREADS // s.threads).bit_length() - 1, 128))
        while columns > 1 and 9 * s.n * columns > self.job.gpu.shared_per_sm // 2:
            columns //= 2
        made = room(s, columns, True, True)
        tiles = cdiv(self.width, columns)
        _, groups, inner = spectra.counts
        size, axis = self.rows * self.pitch, self.vertical
        a_steps, b_steps = (tuple(size * step for step in s) for s in (spectra.a, spectra.b))
        problem = Product(
            a_steps, b_steps, self.pitch, self.width, tiles, groups, inner, spectra.terms,
            axis.result, axis.shift % self.rows, 1.0,
        ).pack()  # fmt: skip
        words = (stages_word(s), room_word(made), spectra.conjugate)
        kernel = source.kernel("fft/convolution.cu", source.template("product", *words), **STRUCTS)
        args = (a.pointer, b.pointer, y.pointer, problem, tables.stage_roots(s))
        shared = made.bytes if len(s.radices) > 1 else 0
        return Step(kernel, (tiles * self.images,), (s.threads * columns,), args, shared)

    def cropped(self, x: WorkspaceTensor) -> Step:
        """The step that transforms rows back, and writes the window of the result."""
        half, axis = self.columns // 2, self.horizontal
        n, c, row, column = self.job.result.images.strides
        rows, (batch, channels) = self.vertical.result, self.spectra.of_result
        size = rows * self.pitch
        last = Pass(
            half, _stages(half), rows, channels, batch,
            Side(x.pointer, 1, self.pitch, size, channels * size),
            Side(self.job.result.pointer, column, row, c, n),
            Input("FOLDED", self.width, swap=True),
            Output("SPLIT", scale=1 / (self.rows * self.columns)),
        )  # fmt: skip
        made = last.room(self.job.gpu)
        words = (stages_word(last.stages), room_word(made), last.load())
        tiles = cdiv(rows, made.columns)
        args = (
            last.source.pointer, last.result.pointer, last.problem(tiles, axis.result),
            tables.stage_roots(last.stages), last.turns(), self.job.bias,
            axis.shift % self.columns,
        )  # fmt: skip
        kernel = source.kernel("fft/convolution.cu", source.template("cropped", *words), **STRUCTS)
        block = (last.stages.threads * made.columns,)
        shared = made.bytes if last.exchanges else 0
        return Step(kernel, (tiles * channels * batch,), block, args, shared)


def _stages(n: int) -> Stages:
    made = of_one_block(n)
    assert made is not None and made.n == n  # lengths are chosen to be smooth
    return made
