"""One pass of a convolution for the planners: tensors, their places, and copies made before it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from weft.ops.core import source
from weft.ops.core.choose import Request
from weft.ops.core.plan import Argument, Buffer, Layout, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.conv.geometry import (
    Geometry,
    Images,
    dense_strides,
    geometry,
    images,
    is_inside,
    is_last,
)
from weft.ops.families.elementwise.copies import contiguous


@dataclass(frozen=True)
class Tensor:
    """A tensor of a pass: its address and its layout in memory."""

    pointer: Pointer
    layout: Layout
    images: Images


class FusedEpilogue(NamedTuple):
    """A norm of the results, a residual and ReLU: see cuda/epilogue.cuh.

    types  C++ types of the statistics and of the parameters
    args   the arguments of kernels in the place of a bias
    """

    types: tuple[str, ...]
    args: tuple[Argument, ...]


@dataclass(frozen=True)
class ConvJob:
    """A pass: reads `first` and `second`, writes `out`.

    forward          x, weight -> y
    backward input   dy, weight -> dx
    backward weight  dy, x -> dweight

    stored  the dtype of the result; None: that of the operands
    """

    geometry: Geometry
    gpu: Target
    precision: str
    first: Tensor
    second: Tensor
    bias: Pointer | None
    out: Buffer
    result: Tensor
    before: tuple[Step, ...] = ()
    scratch: tuple[Buffer, ...] = ()
    cost: float = 0.0
    fused: FusedEpilogue | None = None
    stored: torch.dtype | None = None

    @property
    def epilogue(self) -> tuple[Argument, ...]:
        """The arguments of kernels that complete results."""
        return self.fused.args if self.fused else (self.bias,)

    def kernel(self, name: str, *words: object) -> str:
        """The instance of a kernel's template that completes results so."""
        kind, types = ("fused_", self.fused.types) if self.fused else ("", ())
        return source.template(f"{kind}{name}", source.ctype(self.out.dtype), *types, *words)

    def scratch_at(self, more: int = 0) -> Pointer:
        """The next scratch buffer, or one after it."""
        return Pointer(self.result.pointer.number + 1 + len(self.scratch) + more)

    def cleared(self, back: bool) -> ConvJob:
        """The job with zeros in its result where no tap of a backward pass writes pixels."""
        if not (back and self.geometry.sparse):
            return self
        moved = self.result.layout.numel * self.result.layout.itemsize
        more = self.gpu.launch + moved / self.gpu.bandwidth
        return replace(self, out=self.out._replace(zeroed=True), cost=self.cost + more)

    def thinned(self, x: Tensor) -> tuple[Geometry, Tensor]:
        """A convolution of one tap with a stride as one without: of a view of x."""
        g = self.geometry
        if not g.sparse:
            return g, x
        sn, sc, sh, sw = x.images.strides
        strides = (sn, sc, sh * g.stride[0], sw * g.stride[1])
        layout = Layout(x.layout.dtype, (g.n, g.c, g.p, g.q), strides, x.layout.aligned)
        view = Tensor(x.pointer, layout, Images(strides, x.images.aligned))
        return replace(g, h=g.p, w=g.q, stride=(1, 1)), view

    def plan(self, *steps: Step, scratch: tuple[Buffer, ...] = ()) -> Plan:
        out = self.out._replace(dtype=self.stored or self.out.dtype)
        return Plan((*self.before, *steps), (out,), (*self.scratch, *scratch))


class Builder:
    """Collect the tensors of a request, and copy those that no kernel reads as they are."""

    def __init__(self, request: Request, dims: int) -> None:
        self.request, self.dims = request, dims
        self.steps: list[Step] = []
        self.scratch: list[Buffer] = []
        self.cost = 0.0

    def tensor(self, number: int, dense: bool = False) -> Tensor:
        """An input; copied where it has to be contiguous."""
        pointer, layout = self._placed(number, dense)
        return Tensor(pointer, layout, images(layout, self.dims))

    def vector(self, number: int) -> Pointer | None:
        """An optional input of one dimension; copied if its elements are not adjacent."""
        return None if self.request.inputs[number] is None else self._placed(number, True)[0]

    def _placed(self, number: int, dense: bool) -> tuple[Pointer, Layout]:
        x = self.request.inputs[number]
        assert x is not None
        if x.contiguous or not dense:
            return Pointer(number), x
        end = Pointer(len(self.request.inputs) + 1 + len(self.scratch))
        copy = contiguous(x, Pointer(number), end, self.request.target)
        buffer = Buffer(x.shape, x.dtype)
        self.steps += copy.steps
        self.scratch.append(buffer)
        self.cost += copy.cost
        return end, Layout(x.dtype, x.shape, buffer.steps, 16)

    def job(
        self, shape: Geometry, first: Tensor, second: Tensor, bias: Pointer | None, out: Buffer
    ) -> ConvJob:
        made = Layout(out.dtype, out.shape, out.steps, 16)
        result = Tensor(Pointer(len(self.request.inputs)), made, images(made, self.dims))
        return ConvJob(
            shape, self.request.target, self.request.options["precision"], first, second, bias,
            out, result, tuple(self.steps), tuple(self.scratch), self.cost,
        )  # fmt: skip


def _reads_rows(x: Layout) -> bool:
    """True if adjacent elements of a row are adjacent in memory, so that warps read whole lines."""
    return x.shape[-1] == 1 or x.strides[-1] == 1 or x.numel == 0


def forward(
    request: Request, dims: int, rows: bool = True, preserve_format: bool = True
) -> ConvJob:
    """The forward pass of the first three inputs to the tensor after all inputs.

    rows             tensors whose rows are not contiguous are copied
    preserve_format  the result is channels_last where an input is; else it is contiguous
    """
    x, weight = request.inputs[:2]
    assert x is not None and weight is not None
    shape = geometry(x.shape, weight.shape, request.options)
    spatial = (shape.q,) if dims == 1 else (shape.p, shape.q)
    lead = (shape.n,) if len(x.shape) == dims + 2 else ()
    size = (*lead, shape.k, *spatial)
    last = preserve_format and (is_last(x) or is_last(weight))
    builder = Builder(request, dims)
    source = builder.tensor(0, rows and not _reads_rows(x))
    weights = builder.tensor(1, dense=rows or not is_last(weight))
    out = Buffer(size, x.dtype, strides=dense_strides(size, last=True) if last and lead else None)
    return builder.job(shape, source, weights, builder.vector(2), out)


def backward_input(request: Request, rows: bool = True) -> ConvJob:
    """The backward pass to the data."""
    dy, weight = request.inputs
    assert dy is not None and weight is not None
    size = tuple(request.options["input_size"])
    dims = len(weight.shape) - 2
    shape = geometry(size, weight.shape, request.options)
    last = len(size) == 4 and (is_inside(dy.shape, dy.strides) or is_last(weight))
    builder = Builder(request, dims)
    source = builder.tensor(0, rows and not _reads_rows(dy))
    weights = builder.tensor(1, dense=rows or not is_last(weight))
    out = Buffer(size, dy.dtype, strides=dense_strides(size, last=True) if last else None)
    return builder.job(shape, source, weights, None, out)


def backward_weight(request: Request, rows: bool = True) -> ConvJob:
    """The backward pass to the weight."""
    dy, x = request.inputs
    assert dy is not None and x is not None
    size = tuple(request.options["weight_size"])
    dims = len(size) - 2
    shape = geometry(x.shape, size, request.options)
    builder = Builder(request, dims)
    gradient = builder.tensor(0, rows and not _reads_rows(dy))
    source = builder.tensor(1, rows and not _reads_rows(x))
    last = request.options["channels_last"]
    out = Buffer(size, x.dtype, strides=dense_strides(size, last=True) if last else None)
    return builder.job(shape, gradient, source, None, out)
