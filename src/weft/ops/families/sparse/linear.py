"""sparse_linear: a linear layer whose weight keeps two of each four elements along K."""

from __future__ import annotations

import functools
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import library, source
from weft.ops.core.bind.autocast import LOWER
from weft.ops.core.checks import check_dtype
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Plan, Pointer, Step
from weft.ops.families.sparse import pipelined
from weft.ops.families.sparse.call import OUT, SparseCall, SparseSizes, sparse_call
from weft.ops.families.sparse.model import WARP_TILES, SparseWarpTile
from weft.ops.families.sparse.places import check_metadata

DTYPES = (torch.float16, torch.bfloat16)
CAPABILITY = (8, 0)
"""The first GPUs whose tensor cores take sparse operands."""


def candidates(request: Request) -> list[Candidate]:
    """Candidates for a call of `sparse_linear`."""
    gpu = request.target
    if gpu.capability < CAPABILITY:
        raise ArgumentError(
            "weft.ops.sparse_linear: the tensor cores of this GPU take no sparse operands",
            got=f"{gpu.name}, compute capability {gpu.capability[0]}.{gpu.capability[1]}",
            allowed="compute capability 8.0 and later",
            next="multiply by the whole weight: weft.ops.linear(x, weight.dense())",
        )
    call = sparse_call(request)
    if 0 in call.size[:2]:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (call.out,)))]
    found = pipelined.candidates(call, gpu)
    for tile in WARP_TILES:
        if tile.shared <= gpu.shared_per_block:
            why = f"{tile.works(call.size)} tiles for {gpu.sms} SMs"
            build = functools.partial(warp_plan, call, tile)
            found.append(Candidate(tile.name, call.cost + tile.time(call.size, gpu), why, build))
    return found


def warp_plan(call: SparseCall, tile: SparseWarpTile) -> Plan:
    """The plan for a tile of mma.sp."""
    words = (tile.bm, tile.bn, tile.wm, tile.wn, tile.stages)
    name = source.template("by_warps", source.ctype(call.out.dtype), *words)
    kernel = source.kernel("sparse/warps.cu", name, **SparseSizes.define())
    grid = (tile.works(call.size),)
    args = (*call.operands, Pointer(OUT), call.sizes)
    return call.plan(Step(kernel, grid, (tile.threads,), args, tile.shared))


def _check(x: Any, values: Any, metadata: Any, bias: Any) -> None:
    for name, tensor in (("x", x), ("values", values)):
        check_dtype("sparse_linear", name, tensor, DTYPES)
    check_metadata("sparse_linear", "values", values, metadata, 2 * values.shape[-1])
    if x.dtype is not values.dtype:
        raise ArgumentError(
            "weft.ops.sparse_linear: x and values have different dtypes",
            got=f"x {x.dtype}, values {values.dtype}",
            allowed="float16 or bfloat16, the same for both",
            next="convert it: x.to(values.dtype)",
        )
    if x.dim() == 0 or x.shape[-1] != 2 * values.shape[1]:
        raise ArgumentError(
            "weft.ops.sparse_linear: x and values have incompatible shapes",
            got=f"x {list(x.shape)}, values {list(values.shape)}",
            allowed="x […, K], values [N, K / 2]",
        )
    if bias is not None and (tuple(bias.shape) != (values.shape[0],) or bias.dtype is not x.dtype):
        raise ArgumentError(
            "weft.ops.sparse_linear: bias has another shape or dtype than the features",
            got=f"{list(bias.shape)} {bias.dtype}",
            allowed=f"[{values.shape[0]}] {x.dtype}",
        )


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    x, values, metadata, _ = inputs
    ctx.save_for_backward(x, values, metadata)


def _backward(ctx: Any, grad: Any) -> Any:
    """Products with the whole weight: those of the transposed one are not 2:4 sparse."""
    x, values, metadata = ctx.saved_tensors
    wants = (*ctx.needs_input_grad, False)  # torch leaves out an argument with a default
    rows, flat = grad.reshape(-1, grad.shape[-1]), x.reshape(-1, x.shape[-1])
    of_x = of_values = None
    if wants[0]:
        whole = library.call("sparse_expand")(values, metadata)
        of_x = library.call("matmul")(grad, whole)
    if wants[1]:
        of_whole = library.call("matmul")(rows.t(), flat)
        of_values = library.call("sparse_select")(of_whole, metadata)
    return of_x, of_values, None, library.call("sum")(rows, 0) if wants[3] else None


DEFINITIONS = (
    Definition(
        name="sparse_linear",
        schema="(Tensor x, Tensor values, Tensor metadata, Tensor? bias=None) -> Tensor",
        doc="""x weightᵀ + bias for a weight that keeps two of each four elements along K.

        values [N, K / 2] and metadata are those of weft.sparse.compress(weight); x is […, K], and
        K a multiple of 16. Elements are float16 or bfloat16; sums are float32. It needs tensor
        cores that take sparse operands: GPUs from compute capability 8.0 on. There are gradients
        for x, values and bias; they are products with the whole weight.
        """,
        fake=lambda x, values, metadata, bias=None: x.new_empty((*x.shape[:-1], values.shape[0])),
        candidates=candidates,
        check=_check,
        setup=_setup,
        backward=_backward,
        autocast=LOWER,
    ),
)
