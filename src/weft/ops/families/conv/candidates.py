"""The candidates of a pass of a convolution: those of every kind of kernel that takes it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import torch

from weft.ops.core.choose import Candidate, Request
from weft.ops.core.composition import Composition
from weft.ops.core.layouts import permuted
from weft.ops.core.plan import Buffer, Layout, Plan, Pointer
from weft.ops.families.conv import (
    direct,
    fourier,
    gathered,
    implicit,
    job,
    pointwise,
    skinny,
    strips,
    taps,
    tensor,
    warpgroup,
    winograd,
)
from weft.ops.families.conv.depthwise import channels as depthwise_channels
from weft.ops.families.conv.depthwise import rows as depthwise_rows
from weft.ops.families.conv.depthwise import tiles as depthwise_tiles
from weft.ops.families.conv.tma import gradients as box_gradients
from weft.ops.families.conv.tma import patches, products
from weft.ops.families.conv.tma import windows as boxes
from weft.ops.families.elementwise import copies
from weft.ops.families.elementwise.conversions import converted_after

INPUTS = 2
"""Inputs of a backward pass."""
SCRATCH = INPUTS + 1
"""Number of its first buffer."""
WIDE = torch.float32
MOST = 4
"""Passes that are candidates with conversions after them."""
LARGE = 64
"""Taps of a filter from which on convolutions by Fourier transforms are considered."""


def _empty(made: job.ConvJob) -> list[Candidate]:
    """Nothing is summed: no results, or zeros."""
    out = made.out._replace(zeroed=True)
    return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]


def _kinds(made: job.ConvJob) -> tuple[bool, bool]:
    """(True if products of single precision, True if those of tensor cores are candidates)."""
    fits, single = implicit.fits(made), made.out.dtype is torch.float32
    return fits and single, fits and (not single or made.precision == "tf32")


def _has_large_filters(made: job.ConvJob) -> bool:
    """True where Fourier transforms are candidates. They spread an infinity over its image."""
    return made.geometry.taps >= LARGE


def _windows(make: Callable[..., job.ConvJob], back: bool, request: Request) -> list[Candidate]:
    made = make(request)
    if made.result.layout.numel == 0 or made.first.layout.numel == 0:
        return _empty(made)
    single, tensors = _kinds(made)
    made, raw = (make(request, rows=rows).cleared(back) for rows in (True, False))
    dense = raw.second.layout.contiguous
    by_boxes = boxes.windows(raw, back) if tensors else []
    return [
        *direct.windows(made, back),
        *gathered.windows(raw if dense else made, back),
        *depthwise_rows.windows(made, back),
        *depthwise_channels.windows(raw, back),
        *depthwise_tiles.windows(raw, back),
        *skinny.windows(made, back),
        *strips.windows(made, back),
        *(implicit.windows(made, back) if single else ()),
        *(winograd.windows(made, back) if single else ()),
        *(tensor.windows(raw, back) if tensors else ()),
        *(taps.windows(raw, back) if tensors else ()),
        # Boxes are faster wherever they apply.
        *(by_boxes or (warpgroup.windows(raw, back) if tensors else ())),
        *(pointwise.windows(raw, back) if tensors else ()),
        *(products.windows(raw, request, back) if tensors else ()),
        *(_patches(raw, request, back) if single or tensors else ()),
        *(fourier.windows(raw, back) if _has_large_filters(raw) else ()),
    ]


def _patches(made: job.ConvJob, request: Request, back: bool) -> list[Candidate]:
    return patches.backward_input(made, request) if back else patches.forward(made, request)


def forward(dims: int, request: Request, preserve_format: bool = True) -> list[Candidate]:
    """The forward pass; `preserve_format`: channels_last tensors have a channels_last result."""
    make = functools.partial(job.forward, dims=dims, preserve_format=preserve_format)
    return _windows(make, False, request)


def backward_input(request: Request) -> list[Candidate]:
    """The backward pass to the data."""
    return _windows(job.backward_input, True, request)


def backward_weight(request: Request) -> list[Candidate]:
    """The backward pass to the weight."""
    if not request.options["channels_last"]:
        return _gradients(request)
    made = job.backward_weight(request, rows=False)
    size = made.result.layout.shape
    dense = replace(request, options=request.options | {"channels_last": False})
    if made.geometry.taps == 1:  # both orders are one
        return [
            replace(c, build=functools.partial(_renamed, c, made.out)) for c in _gradients(dense)
        ]
    stage, out = Pointer(SCRATCH), made.result.pointer
    layout = Layout(made.out.dtype, size, Buffer(size, made.out.dtype).steps, 16)
    copy = copies.contiguous(permuted(layout, (0, 2, 3, 1)), stage, out, request.target)
    by_boxes = box_gradients.gradients(made) if _kinds(made)[1] and layout.numel else []
    return [*by_boxes, *(_reordered(c, made.out, copy) for c in _gradients(dense))]


def backward_weight_wide(request: Request) -> list[Candidate]:
    """The backward pass of 16-bit operands to the weight, stored in float32."""
    dtype = request.first.dtype
    narrow = backward_weight(request)
    made = replace(job.backward_weight(request, rows=False), stored=WIDE)
    out = made.out._replace(dtype=WIDE)
    cheapest = sorted(narrow, key=lambda c: c.cost)[:MOST]
    found = [converted_after(c, INPUTS, dtype, (out,), request.target) for c in cheapest]
    if 0 in (made.result.layout.numel, made.first.layout.numel, made.second.layout.numel):
        return _empty(replace(made, out=out))
    if not _kinds(made)[1]:
        return found
    direct = (*box_gradients.gradients(made), *products.gradients(made, request))
    return [*found, *(replace(c, name=f"{c.name}, 32 bits") for c in direct)]


def _renamed(candidate: Candidate, out: Buffer) -> Plan:
    """The plan of a candidate with other strides of its result, which has the same memory."""
    plan = candidate.build()
    return replace(plan, outputs=(out._replace(zeroed=plan.outputs[0].zeroed),))


def _reordered(candidate: Candidate, out: Buffer, copy: copies.CopyPlan) -> Candidate:
    """A candidate whose result is copied into another order."""

    def build() -> Plan:
        plan = candidate.build()
        whole = Composition(INPUTS, (out,))
        stage = whole.buffer(plan.outputs[0])
        whole.run(plan, [Pointer(i) for i in range(INPUTS)], [stage])
        whole.steps += copy.steps
        return whole.plan()

    cost = candidate.cost + copy.cost
    return Candidate(f"{candidate.name}, reordered", cost, candidate.why, build)


def _gradients(request: Request) -> list[Candidate]:
    """The backward pass to the weight, to a contiguous result."""
    made = job.backward_weight(request)
    if 0 in (made.result.layout.numel, made.first.layout.numel, made.second.layout.numel):
        return _empty(made)
    single, tensors = _kinds(made)
    raw = job.backward_weight(request, rows=False)
    return [
        *direct.gradients(made),
        *depthwise_rows.gradients(made),
        *depthwise_channels.gradients(raw),
        *depthwise_tiles.gradients(raw),
        *(implicit.gradients(made) if single else ()),
        *(winograd.gradients(made) if single else ()),
        *(tensor.gradients(raw) if tensors else ()),
        *(taps.gradients(raw) if tensors else ()),
        *(warpgroup.gradients(raw) if tensors else ()),
        *(box_gradients.gradients(raw) if tensors else ()),
        *(pointwise.gradients(raw) if tensors else ()),
        *(products.gradients(raw, request) if tensors else ()),
        *(patches.backward_weight(raw, request) if single or tensors else ()),
        *(fourier.gradients(raw) if _has_large_filters(raw) else ()),
    ]
