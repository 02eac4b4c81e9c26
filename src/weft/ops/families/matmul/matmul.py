"""Matrix products of float32, float16 and bfloat16: matmul; addmm with bias and activation."""

from __future__ import annotations

import functools
from typing import Any

import torch

import weft.ops  # its ops are registered when they are asked for
from weft.errors import ArgumentError
from weft.ops.core.bind.autocast import LOWER
from weft.ops.core.bind.derive import derive
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Plan
from weft.ops.families.matmul import (
    aligned_copy,
    half,
    pipelined,
    short_k,
    skinny_m,
    tf32,
    tf32x3,
    tiled,
)
from weft.ops.families.matmul.panels import plans as panels
from weft.ops.families.matmul.product import ACTIVATIONS, Product, Roles, product_of

ALL = 1000
"""More candidates than there are."""
ORDERS = (pipelined.ORDER, half.ORDER, tiled.ORDER)
"""Orders of sums of a whole K, the preferred one first."""
MATMUL, ADDMM = Roles(left=0, right=1), Roles(left=1, right=2, bias=0)


def _candidates(roles: Roles, request: Request) -> list[Candidate]:
    return candidates_of(product_of(request, roles), request)


def candidates_of(made: Product, request: Request) -> list[Candidate]:
    """Candidates for a product."""
    out = made.out
    if 0 in (made.batch, made.m, made.n):
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    if request.invariant:
        return _of_whole_k(made, request)
    if request.options.get("precision") == "3xtf32":
        return tf32x3.candidates(made, request.target)
    # A column is a row of the transposed product, and its neighbours are so as well.
    found = short_k.candidates(made if made.n > 1 else made.transposed(), request.target)
    found += short_k.skinny_candidates(made, request.target)
    if min(made.m, made.n) <= skinny_m.MOST:
        skinny = made if made.m <= made.n else made.transposed()
        found += skinny_m.candidates(skinny, request.target)
    if out.dtype is torch.float32:
        found += tiled.candidates(made, request.target)
        precision = request.options.get("precision")
        if precision != "ieee":
            found += tf32x3.split_candidates(made, request.target)
        return found + tf32.candidates(made, request.target) if precision == "tf32" else found
    for kind in (half, pipelined, panels, aligned_copy):
        found += kind.candidates(made, request.target)
    return found


def _of_whole_k(made: Product, request: Request) -> list[Candidate]:
    """Candidates that do not choose by the number of rows how they add."""
    gpu = request.target
    if made.out.dtype is torch.float32:
        return tiled.candidates(made, gpu, ALL)
    return pipelined.candidates(made, gpu) + half.candidates(made, gpu, ALL)


def _shape(a: Any, b: Any) -> tuple[Any, ...]:
    """The shape of a product, as torch.matmul defines it."""
    if a.dim() > 1 and b.dim() > 1:
        lead = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return (*lead, a.shape[-2], b.shape[-1])
    return (
        *(a.shape[:-1] if a.dim() > 1 else ()),
        *((*b.shape[:-2], b.shape[-1]) if b.dim() > 1 else ()),
    )


DTYPES = (torch.float32, torch.float16, torch.bfloat16)
PRECISIONS = ("fp32", "ieee", "tf32", "3xtf32")


def check_precision(name: str, dtype: torch.dtype, precision: str) -> None:
    """Raise unless the products of a dtype may be computed with this precision."""
    if precision not in PRECISIONS or (precision != "fp32" and dtype is not torch.float32):
        raise ArgumentError(
            f"weft.ops.{name}: unknown precision {precision!r} for {dtype}",
            allowed=", ".join(map(repr, PRECISIONS)) + "; 'fp32' for other dtypes than float32",
        )


def check_operands(name: str, a: Any, b: Any, precision: str) -> None:
    """Raise unless a and b can be multiplied."""
    check_precision(name, a.dtype, precision)
    for which, x in (("a", a), ("b", b)):
        if x.dtype not in DTYPES:
            raise ArgumentError(
                f"weft.ops.{name}: {which} has an unsupported dtype",
                got=str(x.dtype),
                allowed="float32, float16, bfloat16",
                next=f"convert it: {which}.float()",
            )
    if a.dtype is not b.dtype:
        raise ArgumentError(
            f"weft.ops.{name}: a and b have incompatible dtypes",
            got=f"a {a.dtype}, b {b.dtype}",
            allowed="equal dtypes",
            next="convert one: b.to(a.dtype)",
        )
    inner = (a.shape[-1] if a.dim() else None, b.shape[-2:][0] if b.dim() else None)
    try:
        fits = inner[0] is not None and inner[0] == inner[1]
        torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except RuntimeError:
        fits = False
    if not fits:
        raise ArgumentError(
            f"weft.ops.{name}: a and b have incompatible shapes",
            got=f"a {list(a.shape)}, b {list(b.shape)}",
            allowed="a[…, M, K] and b[…, K, N] with batches that broadcast; a vector is K long",
        )


def _check_addmm(bias: Any, a: Any, b: Any, activation: str, precision: str) -> None:
    check_operands("addmm", a, b, precision)
    want = (a.shape[0], b.shape[1]) if a.dim() == b.dim() == 2 else ()
    wrong = not want or bias.dim() > 2 or bias.dtype is not a.dtype
    have = (1,) * (2 - bias.dim()) + tuple(bias.shape)
    if wrong or any(h not in (1, w) for h, w in zip(have, want, strict=True)):
        raise ArgumentError(
            "weft.ops.addmm: bias, a and b have incompatible shapes or dtypes",
            got=f"bias {list(bias.shape)} {bias.dtype}, a {list(a.shape)}, b {list(b.shape)}",
            allowed="a[M, K], b[K, N] and a bias of their dtype that broadcasts to [M, N]",
        )
    if activation not in ACTIVATIONS:
        raise ArgumentError(
            f"weft.ops.addmm: unknown activation {activation!r}",
            allowed=", ".join(map(repr, ACTIVATIONS)),
        )


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:2])
    ctx.precision = inputs[2]


def _backward(ctx: Any, grad: Any) -> Any:
    a, b = ctx.saved_tensors
    product = functools.partial(weft.ops.matmul, precision=ctx.precision)
    left = a if a.dim() > 1 else a.unsqueeze(0)
    right = b if b.dim() > 1 else b.unsqueeze(1)
    g = grad if a.dim() > 1 else grad.unsqueeze(-1 if b.dim() == 1 else -2)
    g = g if b.dim() > 1 else g.unsqueeze(-1)
    wants_a, wants_b = ctx.needs_input_grad[:2]
    da = product(g, right.transpose(-1, -2)).sum_to_size(left.shape) if wants_a else None
    db = product(left.transpose(-1, -2), g).sum_to_size(right.shape) if wants_b else None
    return (
        None if da is None else da.reshape(a.shape),
        None if db is None else db.reshape(b.shape),
        None,
    )


def _setup_addmm(ctx: Any, inputs: Any, output: Any) -> None:
    bias, a, b, ctx.activation, ctx.precision = inputs
    ctx.save_for_backward(bias, a, b, output)


def _derived(name: str, before: Any, grad: Any) -> Any:
    """The gradient of an activation's input, by torch's formulas."""
    function = {
        "silu": torch.nn.functional.silu,
        "gelu": torch.nn.functional.gelu,
        "gelu_tanh": lambda v: torch.nn.functional.gelu(v, approximate="tanh"),
    }[name]
    return derive(function, [before], [grad])[0]


def _backward_addmm(ctx: Any, grad: Any) -> Any:
    bias, a, b, out = ctx.saved_tensors
    product = functools.partial(weft.ops.matmul, precision=ctx.precision)
    if ctx.activation == "relu":
        grad = grad * (out > 0)
    elif ctx.activation:
        grad = _derived(ctx.activation, product(a, b) + bias, grad)
    wants = ctx.needs_input_grad
    return (
        grad.sum_to_size(bias.shape) if wants[0] else None,
        product(grad, b.transpose(-1, -2)) if wants[1] else None,
        product(a.transpose(-1, -2), grad) if wants[2] else None,
        None,
        None,
    )


DEFINITIONS = (
    Definition(
        name="matmul",
        schema='(Tensor a, Tensor b, str precision="fp32") -> Tensor',
        doc="""The matrix product of a and b, as torch.matmul: vectors, matrices and batches.

        Products of float16 and bfloat16 are computed on tensor cores and summed in float32.
        Large ones of float32 are computed on Hopper's tensor cores by three products of tf32 for
        each, with an error like that of single precision; precision="ieee" excludes it.
        precision="tf32" allows products of float32 on tensor cores (Hopper) whose operands are
        rounded to 10 bits of fraction, as torch.backends.cuda.matmul.fp32_precision = "tf32" does
        for torch.matmul; weft reads this argument alone, not that setting.
        precision="3xtf32" computes by three products of tf32 whatever the size and the GPU.
        """,
        fake=lambda a, b, precision="fp32": a.new_empty(_shape(a, b)),
        candidates=functools.partial(_candidates, MATMUL),
        check=functools.partial(check_operands, "matmul"),
        setup=_setup,
        backward=_backward,
        autocast=LOWER,
    ),
    Definition(
        name="addmm",
        schema=(
            '(Tensor bias, Tensor a, Tensor b, str activation="", str precision="fp32") -> Tensor'
        ),
        doc="activation(a b + bias): relu, gelu, gelu_tanh, silu, or none.",
        fake=lambda bias, a, b, activation="", precision="fp32": a.new_empty(_shape(a, b)),
        candidates=functools.partial(_candidates, ADDMM),
        check=_check_addmm,
        setup=_setup_addmm,
        backward=_backward_addmm,
        autocast=LOWER,
    ),
)
