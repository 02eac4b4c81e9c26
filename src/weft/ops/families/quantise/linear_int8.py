"""linear_int8: rows quantised as they come, then a product with a weight of int8."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import library
from weft.ops.core.checks import check_dtype
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.composition import Composition
from weft.ops.core.function import Definition
from weft.ops.core.plan import Buffer, Layout, Plan, Pointer
from weft.ops.families.matmul import scaled
from weft.ops.families.quantise import plans

NAME = "linear_int8"
X, WEIGHT, SCALE, BIAS = range(4)
"""Numbers of the inputs."""
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def _check(x: Any, weight: Any, scale: Any, bias: Any) -> None:
    check_dtype(NAME, "x", x, DTYPES, next="convert it: x.float()")
    check_dtype(NAME, "weight", weight, (torch.int8,), next="weft.ops.quantise makes it")
    check_dtype(NAME, "scale", scale, (torch.float32,), next="convert it: scale.float()")
    fits = x.dim() > 0 and weight.dim() == 2 and x.shape[-1] == weight.shape[1] > 0
    if not fits:
        raise ArgumentError(
            f"weft.ops.{NAME}: x and weight have incompatible shapes",
            got=f"x {list(x.shape)}, weight {list(weight.shape)}",
            allowed="x […, K], weight [N, K], K at least 1",
        )
    n, k = weight.shape
    if 0 not in weight.shape and k > 1 and weight.stride(1) != 1:
        raise ArgumentError(
            f"weft.ops.{NAME}: the rows of weight are not contiguous",
            got=f"strides {list(weight.stride())}",
            allowed="[…, 1]",
            next="weight.contiguous()",
        )
    if tuple(scale.shape) not in ((n, 1), (1, 1)):
        raise ArgumentError(
            f"weft.ops.{NAME}: scale has a shape of no scaling",
            got=str(list(scale.shape)),
            allowed=f"[{n}, 1] for rows of the weight, [1, 1] for all of it",
        )
    if bias is not None and (tuple(bias.shape) != (n,) or bias.dtype is not x.dtype):
        raise ArgumentError(
            f"weft.ops.{NAME}: bias has another shape or dtype than the columns of the result",
            got=f"{list(bias.shape)} {bias.dtype}",
            allowed=f"[{n}] {x.dtype}",
            next="convert it: bias.to(x.dtype)",
        )


def _candidates(request: Request) -> list[Candidate]:
    """The kernels of the product, each after the best one that quantises."""
    x, weight, scale, bias = request.inputs
    assert x is not None and weight is not None and scale is not None
    rows, (n, k) = math.prod(x.shape[:-1]), weight.shape
    outputs = (Buffer((*x.shape[:-1], n), x.dtype),)
    if 0 in (rows, n):
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), outputs))]
    options: dict[str, Any] = {"dtype": torch.int8, "group": None}
    first = plans.candidates(Request("quantise", (x,), options, request.target))
    best = min(first, key=lambda c: c.cost)
    # Buffers of a call are aligned.
    left = Layout(torch.int8, (rows, k), (k, 1), 16)
    of_rows = Layout(torch.float32, (rows, 1), (1, 1), 16)
    tensors = (left, _transposed(weight), of_rows, _transposed(scale), bias)
    options = {"out_dtype": x.dtype, "use_fast_accum": True}
    products = scaled.candidates(Request("scaled_mm", tensors, options, request.target))
    return [
        Candidate(
            c.name,
            best.cost + c.cost,
            f"{c.why}; quantised by {best.name}",
            functools.partial(_plan, outputs, (rows, k), best, c),
        )
        for c in products
    ]


def _transposed(x: Layout) -> Layout:
    return x._replace(shape=x.shape[::-1], strides=x.strides[::-1])


def _plan(
    outputs: tuple[Buffer, ...], shape: tuple[int, int], first: Candidate, product: Candidate
) -> Plan:
    made = Composition(4, outputs)
    q = made.buffer(Buffer(shape, torch.int8))
    of_rows = made.buffer(Buffer((shape[0], 1), torch.float32))
    made.run(first.build(), [Pointer(X)], [q, of_rows])
    inputs = [q, Pointer(WEIGHT), of_rows, Pointer(SCALE), Pointer(BIAS)]
    made.run(product.build(), inputs, [made.output(0)])
    return made.plan()


def _fake(x: Any, weight: Any, scale: Any, bias: Any = None) -> Any:
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    _, weight, scale, _ = inputs
    ctx.save_for_backward(weight, scale)


def _backward(ctx: Any, grad: Any) -> Any:
    weight, scale = ctx.saved_tensors
    wants = (*ctx.needs_input_grad, False)  # torch leaves out arguments with defaults
    of_x = None
    if wants[X]:
        dequantised = (weight.float() * scale).to(grad.dtype)
        of_x = library.call("matmul")(grad, dequantised)
    of_bias = library.call("sum")(grad.reshape(-1, grad.shape[-1]), 0) if wants[BIAS] else None
    return of_x, None, None, of_bias


DEFINITIONS = (
    Definition(
        name=NAME,
        schema="(Tensor x, Tensor weight, Tensor scale, Tensor? bias=None) -> Tensor",
        doc="""x @ (weight * scale)ᵀ + bias, with the rows of x quantised to int8 first.

        x is […, K] in float32, float16 or bfloat16, weight is int8 [N, K] with contiguous rows,
        scale float32 [N, 1], or [1, 1] for all of the weight, and bias [N] of x's dtype, which is
        that of the result. The rows of x are quantised as by `quantise`, and the product is that of
        `scaled_mm`: its sums are exact. The gradient of x is that of a product with the dequantised
        weight, as if nothing had been rounded; weight and scale have none.
        """,
        fake=_fake,
        candidates=_candidates,
        check=_check,
        setup=_setup,
        backward=_backward,
        autocast=None,
        traceable=False,
    ),
)
