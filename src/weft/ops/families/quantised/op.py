"""linear_quantised: a linear layer whose weight is stored in four or eight bits."""

from __future__ import annotations

from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import library
from weft.ops.core.checks import check_dtype
from weft.ops.core.function import Definition
from weft.ops.families.quantised import dequantised, plans
from weft.ops.families.quantised.job import CONSTANT, FORMATS

NAME = "linear_quantised"
GROUP = "products"
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
LEAST = 32
"""The least number of weights that share a scale, and what it is a multiple of."""


def _check(x: Any, weight: Any, scale: Any, zero: Any, bias: Any) -> None:
    check_dtype(NAME, "x", x, DTYPES, next="convert it: x.bfloat16()")
    _check_weight(NAME, weight, scale, zero, x.dtype)
    n, k = _sizes(weight)
    if not x.dim() or x.shape[-1] != k:
        raise ArgumentError(
            f"weft.ops.{NAME}: x and weight have incompatible shapes",
            got=f"x {list(x.shape)}, weight {list(weight.shape)} {weight.dtype}",
            allowed=f"x […, {k}]: an element for each weight of a row",
        )
    if bias is not None and (tuple(bias.shape) != (n,) or bias.dtype is not x.dtype):
        raise ArgumentError(
            f"weft.ops.{NAME}: bias has another shape or dtype than the result",
            got=f"{list(bias.shape)} {bias.dtype}",
            allowed=f"[{n}] {x.dtype}",
            next="convert it: bias.to(x.dtype)",
        )


def _sizes(weight: Any) -> tuple[int, int]:
    """N and K of a weight."""
    return weight.shape[0], weight.shape[1] * (2 if weight.dtype is torch.uint8 else 1)


def _check_weight(op: str, weight: Any, scale: Any, zero: Any, dtype: torch.dtype) -> None:
    """Raise unless the three are a quantised weight for x of this dtype."""
    check_dtype(op, "weight", weight, FORMATS, next="weft.quant.quantise makes such weights")
    if weight.dim() != 2 or (0 not in weight.shape and weight.shape[1] > 1 < weight.stride(1)):
        raise ArgumentError(
            f"weft.ops.{op}: weight is no matrix of contiguous rows",
            got=f"shape {list(weight.shape)}, strides {list(weight.stride())}",
            allowed="[N, K], or [N, K // 2] for two weights in a byte",
            next="weight.contiguous()",
        )
    check_dtype(op, "scale", scale, (torch.float32, dtype))
    n, k = _sizes(weight)
    if scale.dim() != 2 or not _fits(tuple(scale.shape), n, k):
        raise ArgumentError(
            f"weft.ops.{op}: scale has a shape of no groups",
            got=f"{list(scale.shape)} for {n} rows of {k} weights",
            allowed=f"[1, 1], [{n}, 1], or [{n}, G] where K / G is a multiple of {LEAST}",
        )
    if zero is not None and (zero.shape != scale.shape or zero.dtype is not scale.dtype):
        raise ArgumentError(
            f"weft.ops.{op}: zero has another shape or dtype than scale",
            got=f"{list(zero.shape)} {zero.dtype}",
            allowed=f"{list(scale.shape)} {scale.dtype}",
        )


def _fits(shape: tuple[int, int], n: int, k: int) -> bool:
    rows, groups = shape
    if groups == 1:
        return rows in (1, n)
    return rows == n and groups > 1 and k > 0 and k % groups == 0 and k // groups % LEAST == 0


def _fake(x: Any, weight: Any, scale: Any, zero: Any = None, bias: Any = None) -> Any:
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


# ---- gradients ---------------------------------------------------------------------------------
def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    x, weight, scale, zero, _ = inputs
    ctx.dtype = x.dtype
    ctx.save_for_backward(weight, scale, zero)


def _backward(ctx: Any, grad: Any) -> Any:
    weight, scale, zero = ctx.saved_tensors
    wants = (*ctx.needs_input_grad, *(False,) * 4)  # torch leaves out arguments with defaults
    for name, wanted in zip(("weight", "scale", "zero"), wants[1:4], strict=True):
        if wanted:
            raise ArgumentError(
                f"weft.ops.{NAME}: there is no gradient of {name}",
                got=f"{name}.requires_grad is True",
                allowed="gradients of x and bias",
                next=f"pass {name}.detach()",
            )
    of_x = of_bias = None
    if wants[0]:
        matrix = library.call("dequantised_weight")(weight, scale, zero, ctx.dtype)
        of_x = library.call("matmul")(grad, matrix)
    if wants[4]:
        of_bias = library.call("sum")(grad.reshape(-1, grad.shape[-1]), 0)
    return of_x, None, None, None, of_bias


def _check_conversion(weight: Any, scale: Any, zero: Any, dtype: torch.dtype) -> None:
    _check_weight("dequantised_weight", weight, scale, zero, dtype)


DEFINITIONS = (
    Definition(
        name=NAME,
        schema=(
            "(Tensor x, Tensor weight, Tensor scale, Tensor? zero=None, Tensor? bias=None)"
            " -> Tensor"
        ),
        doc="""x Wᵀ + bias, where W[n, k] = (weight[n, k] - zero[n, g]) * scale[n, g] is quantised.

        weight is int8 [N, K], float8_e4m3fn or float8_e5m2 [N, K], or uint8 [N, K // 2] with two
        weights of four bits in a byte: that of the even k in the lower bits, each stored plus 8.
        Its rows are contiguous. scale is [N, G] for G groups of K / G weights, a multiple of 32;
        [N, 1] for rows of any length; or [1, 1]. zero has its shape and dtype, and counts in units
        of the weights, -8 to 7 or -128 to 127; None: 0. Both are float32, or have the dtype of x.

        x is [..., K] of float16, bfloat16 or float32; the result and bias [N] have its dtype.
        Products are exact and sums are in float32, except where a call with many tokens converts
        the weight to the dtype of x first. x and bias have gradients.
        """,
        fake=_fake,
        candidates=plans.candidates,
        check=_check,
        setup=_setup,
        backward=_backward,
        autocast=None,
    ),
    Definition(
        name=CONSTANT,
        schema=(
            "(Tensor x, Tensor weight, Tensor scale, Tensor? zero=None, Tensor? bias=None)"
            " -> Tensor"
        ),
        doc="""linear_quantised for inference, whose weight no kernel shortly before writes.

        Kernels may read the weight before those that write x have ended.
        """,
        fake=_fake,
        candidates=plans.candidates,
        check=_check,
        autocast=None,
        public=False,
    ),
    Definition(
        name="dequantised_weight",
        schema="(Tensor weight, Tensor scale, Tensor? zero, ScalarType dtype) -> Tensor",
        doc="The weight of linear_quantised as a matrix of this dtype.",
        fake=lambda weight, scale, zero, dtype: weight.new_empty(_sizes(weight), dtype=dtype),
        candidates=dequantised.op_candidates,
        check=_check_conversion,
        autocast=None,
        public=False,
    ),
)
