"""linear: a product with a transposed weight, a bias and an activation, in one launch."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import library
from weft.ops.core.bind.autocast import LOWER
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.invariant import invariant
from weft.ops.families.matmul.matmul import DTYPES, ORDERS, candidates_of, check_precision
from weft.ops.families.matmul.product import ACTIVATIONS, Roles, product_of

_OPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "relu": ("relu", ()),
    "gelu": ("gelu", ("none",)),
    "gelu_tanh": ("gelu", ("tanh",)),
    "silu": ("silu", ()),
}
"""The ops of activations, and their options."""
_OF_INPUT = ("gelu", "gelu_tanh", "silu")
"""Activations whose gradient is computed from their input, not from their result."""


LARGE = 2**22
"""Elements of a gradient that both products copy first, if its rows begin anywhere."""


def _candidates(request: Request) -> list[Candidate]:
    roles = Roles(left=0, right=1, bias=2, transposed=True)
    return candidates_of(product_of(request, roles), request)


def _constant_candidates(request: Request) -> list[Candidate]:
    product = product_of(request, Roles(left=0, right=1, bias=2, transposed=True))
    constant = product.b._replace(constant=not product.before)
    return candidates_of(dataclasses.replace(product, b=constant), request)


def _check(input: Any, weight: Any, bias: Any, activation: str, precision: str) -> None:
    check_precision("linear", input.dtype, precision)
    tensors = {"input": input, "weight": weight, "bias": bias}
    for name, x in tensors.items():
        if x is not None and (x.dtype not in DTYPES or x.dtype is not input.dtype):
            raise ArgumentError(
                f"weft.ops.linear: {name} has an unsupported dtype",
                got=f"{x.dtype}, input {input.dtype}",
                allowed="float32, float16 or bfloat16, the same for all",
                next=f"convert it: {name}.to(input.dtype)",
            )
    fits = input.dim() > 0 and weight.dim() == 2 and input.shape[-1] == weight.shape[1]
    if not fits:
        raise ArgumentError(
            "weft.ops.linear: input and weight have incompatible shapes",
            got=f"input {list(input.shape)}, weight {list(weight.shape)}",
            allowed="input […, in], weight [out, in]",
        )
    if bias is not None and tuple(bias.shape) != (weight.shape[0],):
        raise ArgumentError(
            f"weft.ops.linear: bias has shape {tuple(bias.shape)}, expected {(weight.shape[0],)}",
            allowed="one number for each row of the weight",
        )
    if activation not in ACTIVATIONS:
        raise ArgumentError(
            f"weft.ops.linear: unknown activation {activation!r}",
            allowed=", ".join(map(repr, ACTIVATIONS)),
        )


# ---- gradients ---------------------------------------------------------------------------------
def _redirect(op: Callable[..., Any]) -> Callable[..., Any]:
    """Launch activations whose gradient needs their input separately if a gradient is wanted.

    Storing that input costs less than computing the product again.
    """

    def redirected(input: Any, weight: Any, bias: Any, activation: str, precision: str) -> Any:
        wanted = torch.is_grad_enabled() and any(
            t is not None and t.requires_grad for t in (input, weight, bias)
        )
        if not wanted or activation not in _OF_INPUT or torch.compiler.is_compiling():
            return NotImplemented
        name, options = _OPS[activation]
        made = library.call("linear")(input, weight, bias, "", precision)
        return library.call(name)(made, *options)

    return redirected


def _aligned(rows: Any) -> Any:
    """The gradient of a result whose columns are no whole vectors, such as that of a vocabulary,
    copied once: each of two large products would copy it.
    """
    large = rows.shape[0] * rows.shape[1] >= LARGE
    if rows.dtype is torch.float32 or rows.shape[1] % 8 == 0 or not large:
        return rows
    return library.call("aligned_rows")(rows.contiguous())[:, : rows.shape[1]]


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    input, weight, bias, ctx.activation, ctx.precision = inputs
    ctx.save_for_backward(input, weight, bias, output if ctx.activation == "relu" else None)


def _backward(ctx: Any, grad: Any) -> Any:
    input, weight, bias, output = ctx.saved_tensors
    if ctx.activation:
        name, options = _OPS[ctx.activation]
        known = output
        if known is None:
            known = library.call("linear")(input, weight, bias, "", ctx.precision)
        grad = library.call(f"{name}_backward")(grad, known, *options)
    product = functools.partial(library.call("matmul"), precision=ctx.precision)
    wants = (*ctx.needs_input_grad, False, False)  # torch leaves out arguments with defaults
    rows = grad.reshape(-1, grad.shape[-1])
    if wants[0] and wants[1]:
        aligned = _aligned(rows)
        if aligned is not rows:
            rows, grad = aligned, aligned.reshape(grad.shape)
    flat = input.reshape(-1, input.shape[-1])
    of_input = product(grad, weight) if wants[0] else None
    if wants[1] and wants[2]:
        both = library.call("matmul_row_sums")(rows.t(), flat, ctx.precision)
        return of_input, *both, None, None
    return (
        of_input,
        product(rows.t(), flat) if wants[1] else None,
        library.call("sum")(rows, 0) if wants[2] else None,
        None,
        None,
    )


CONSTANT = Definition(
    name="linear_constant",
    schema=(
        "(Tensor input, Tensor weight, Tensor? bias=None,"
        ' str activation="", str precision="fp32") -> Tensor'
    ),
    doc="""linear for inference, whose weight no kernel shortly before writes.

    Kernels may copy the weight before those that write input have ended.
    """,
    fake=lambda input, weight, bias=None, activation="", precision="fp32": input.new_empty(
        (*input.shape[:-1], weight.shape[0])
    ),
    candidates=_constant_candidates,
    check=_check,
    autocast=None,
    public=False,
)
DEFINITIONS = (
    Definition(
        name="linear",
        schema=(
            "(Tensor input, Tensor weight, Tensor? bias=None,"
            ' str activation="", str precision="fp32") -> Tensor'
        ),
        doc="""activation(input weightᵀ + bias), as torch.nn.functional.linear.

        activation is "relu", "gelu", "gelu_tanh", "silu" or none. It is computed in the launch of
        the product; except that of gelu and silu, if a gradient is wanted, which needs their input.
        Products of float16 and bfloat16 are computed on tensor cores and summed in float32.
        precision is that of matmul: "fp32", "ieee", "tf32" or "3xtf32".
        """,
        fake=lambda input, weight, bias=None, activation="", precision="fp32": input.new_empty(
            (*input.shape[:-1], weight.shape[0])
        ),
        candidates=_candidates,
        check=_check,
        setup=_setup,
        backward=_backward,
        autocast=LOWER,
        redirect=_redirect,
    ),
    CONSTANT,
    invariant(CONSTANT, ORDERS),
)
