"""Lists the candidates of reductions along rows, columns and arbitrary strides."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import Buffer, Layout, Plan, Pointer, Step
from weft.ops.families.elementwise.copies import after_copy, contiguous
from weft.ops.families.elementwise.jobs import Job, Operand, Way
from weft.ops.families.elementwise.pointwise import ways as ways_of
from weft.ops.families.reduce import plans
from weft.ops.families.reduce.columns import of_columns, of_folded, of_strides
from weft.ops.families.reduce.row import Row, computed, reduced_dims, result_dtype, result_shape
from weft.ops.families.reduce.rows import of_rows, of_small_planes
from weft.ops.families.reduce.views import View, dense_rows, view_of

NARROW = 128
"""Columns of a plane below which a block may have columns of several planes."""


# ---- candidates --------------------------------------------------------------------------------
def candidates(row: Row, request: Request) -> list[Candidate]:
    """The candidates for a reduction."""
    x, options = request.first, request.options
    dims = reduced_dims(len(x.shape), options["dim"])
    out = Buffer(result_shape(x.shape, dims, options["keepdim"]), result_dtype(row, x.dtype))
    if math.prod(out.shape) == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    kept = [d for d in range(len(x.shape)) if d not in dims]
    n = math.prod(x.shape[d] for d in dims)
    if n == 1:
        return _of_single(row, request, kept, out)
    # Of an empty tensor, whatever its strides, nothing is read.
    view = view_of(x, dims, ordered=row.one) if n else dense_rows(math.prod(out.shape), 0)
    if view is not None:
        ways = _of_view(row, request, view, out, Pointer(0), x.aligned, ())
        # Blocks of few columns have few threads with work: columns of several planes share one.
        narrow = 1 < view.inner < NARROW and view.outer > 1
        return [*ways, *(of_strides(row, request, kept, dims, out) if narrow else ())]
    order = [*kept, *dims]
    turned = Layout(
        x.dtype, tuple(x.shape[d] for d in order), tuple(x.strides[d] for d in order), x.aligned
    )
    copy = contiguous(turned, Pointer(0), Pointer(2), request.target)
    dense = dense_rows(x.numel // n, n)
    ways = _of_view(row, request, dense, out, Pointer(2), 16, copy.steps)
    scratch = Buffer(turned.shape, x.dtype)
    return [*of_strides(row, request, kept, dims, out), *after_copy(copy, ways, scratch)]


def _of_single(row: Row, request: Request, kept: Sequence[int], out: Buffer) -> list[Candidate]:
    """Candidates for one element along the reduced dimensions: an expression of it."""
    x, options = request.first, request.options
    ctype, out_ctype = source.ctype(x.dtype), source.ctype(out.dtype)
    operand = Operand(ctype, x.itemsize, tuple(x.strides[d] for d in kept), x.aligned, Pointer(0))
    less = max(0, 1 - options["correction"]) if row.name == "var" else 0
    job = Job(
        row.single, computed(row, x.dtype), tuple(x.shape[d] for d in kept), (operand,),
        out_ctype, out.dtype.itemsize, Pointer(1), (less, 0),
    )  # fmt: skip

    def built(way: Way) -> Plan:
        return Plan((way.build(),), (out,))

    return [
        Candidate(f"single, {way.name}", way.cost, way.why, functools.partial(built, way))
        for way in ways_of(job, request.target)
    ]


def _of_view(
    row: Row, request: Request, view: View, out: Buffer, x: Pointer, aligned: int,
    before: tuple[Step, ...],
) -> list[Candidate]:  # fmt: skip
    make = functools.partial(plans.reduced, row, request, view, out, x, before)
    if view.inner == 1 and view.row_stride == 1:
        return [
            *of_small_planes(row, request, view, out, x, aligned, before),
            *of_rows(row, request, view, make),
        ]
    return [
        *of_columns(request, view, out, aligned, make),
        *of_small_planes(row, request, view, out, x, aligned, before),
        *of_folded(row, request, view, out, x, aligned, before),
    ]
