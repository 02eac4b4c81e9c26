"""The candidates of reductions along rows, columns and arbitrary strides."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import Buffer, Layout, Plan, Pointer
from weft.ops.families.elementwise.copies import after_copy, contiguous
from weft.ops.families.elementwise.jobs import BroadcastOperand, ElementwiseJob, Strategy
from weft.ops.families.elementwise.pointwise import strategies
from weft.ops.families.reduce.columns import of_columns, of_folded, of_strides
from weft.ops.families.reduce.model import PLANE_COLUMNS
from weft.ops.families.reduce.plans import ReductionJob
from weft.ops.families.reduce.reduction import (
    Reduction,
    computed,
    reduced_dims,
    result_dtype,
    result_shape,
)
from weft.ops.families.reduce.rows import of_rows, of_small_planes
from weft.ops.families.reduce.views import dense_rows, view_of


# ---- candidates --------------------------------------------------------------------------------
def candidates(op: Reduction, request: Request) -> list[Candidate]:
    """The candidates for a reduction."""
    x, options = request.first, request.options
    dims = reduced_dims(len(x.shape), options["dim"])
    out = Buffer(result_shape(x.shape, dims, options["keepdim"]), result_dtype(op, x.dtype))
    if math.prod(out.shape) == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    remaining = [d for d in range(len(x.shape)) if d not in dims]
    n = math.prod(x.shape[d] for d in dims)
    if n == 1:
        return _of_single(op, request, remaining, out)
    # Nothing is read of an empty tensor, whatever its strides.
    view = view_of(x, dims, ordered=op.one) if n else dense_rows(math.prod(out.shape), 0)
    if view is not None:
        found = _of_view(ReductionJob(op, request, view, out, Pointer(0), x.aligned))
        # Columns of several planes share a block that would have too few of one plane.
        several = 1 < view.inner < PLANE_COLUMNS and view.outer > 1
        return [*found, *(of_strides(op, request, remaining, dims, out) if several else ())]
    order = [*remaining, *dims]
    permuted = Layout(
        x.dtype, tuple(x.shape[d] for d in order), tuple(x.strides[d] for d in order), x.aligned
    )
    copy = contiguous(permuted, Pointer(0), Pointer(2), request.target)
    dense = dense_rows(x.numel // n, n)
    found = _of_view(ReductionJob(op, request, dense, out, Pointer(2), 16, copy.steps))
    scratch = Buffer(permuted.shape, x.dtype)
    return [*of_strides(op, request, remaining, dims, out), *after_copy(copy, found, scratch)]


def _of_single(
    op: Reduction, request: Request, remaining: Sequence[int], out: Buffer
) -> list[Candidate]:
    """Candidates for one element along the reduced dimensions: an expression of it."""
    x, options = request.first, request.options
    ctype, out_ctype = source.ctype(x.dtype), source.ctype(out.dtype)
    operand = BroadcastOperand(
        ctype, x.itemsize, tuple(x.strides[d] for d in remaining), x.aligned, Pointer(0)
    )
    less = max(0, 1 - options["correction"]) if op.name == "var" else 0
    job = ElementwiseJob(
        op.single, computed(op, x.dtype), tuple(x.shape[d] for d in remaining), (operand,),
        out_ctype, out.dtype.itemsize, Pointer(1), (less, 0),
    )  # fmt: skip

    def built(strategy: Strategy) -> Plan:
        return Plan((strategy.build(),), (out,))

    return [
        Candidate(
            f"single, {strategy.name}",
            strategy.cost,
            strategy.why,
            functools.partial(built, strategy),
        )
        for strategy in strategies(job, request.target)
    ]


def _of_view(job: ReductionJob) -> list[Candidate]:
    if job.view.inner == 1 and job.view.row_stride == 1:
        return [*of_small_planes(job), *of_rows(job)]
    return [*of_columns(job), *of_small_planes(job), *of_folded(job)]
