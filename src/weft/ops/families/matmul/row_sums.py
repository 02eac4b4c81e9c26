"""matmul_row_sums: a product and the sums of the rows of its left operand.

Gradients of a linear layer's weight and bias, dYᵀ X and the sums of dYᵀ, read dY once so.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import library
from weft.ops.core.bind.autocast import LOWER
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Argument, Map, Plan, Pointer, Step
from weft.ops.families.matmul import pipelined
from weft.ops.families.matmul.matmul import MATMUL, candidates_of, check_operands
from weft.ops.families.matmul.product import product_of

INPUTS, OUTPUTS = 2, 2
SUMS = Pointer(INPUTS + 1)
"""The second output."""
MOST = 4
"""Products that are candidates with a launch for the sums after them."""


def _candidates(request: Request) -> list[Candidate]:
    """A product on Hopper that sums in the same launch, or any product and a reduction."""
    made = product_of(request, MATMUL)
    a = request.first
    options = {"dim": [1], "keepdim": False}
    sums = library.function("sum").definition.candidates(
        Request("sum", (a,), options, request.target)
    )
    last = min(sums, key=lambda c: c.cost)
    products = sorted(candidates_of(made, request), key=lambda c: c.cost)[:MOST]
    found = [
        Candidate(f"{c.name}; sums {last.name}", c.cost + last.cost, c.why,
                  functools.partial(_both, c, last))
        for c in products
    ]  # fmt: skip
    # Operands that are copied first have other numbers.
    if a.dtype is torch.float32 or made.batch > 1 or made.scratch or 0 in (made.m, made.n):
        return found
    beside = pipelined.candidates(made, request.target, SUMS)
    return found + [
        replace(c, name=f"{c.name}, with sums", build=functools.partial(_beside, c, a.shape[0]))
        for c in beside
    ]


def _beside(product: Candidate, rows: int) -> Plan:
    """The plan of a product that sums."""
    plan = product.build()
    (c,) = plan.outputs
    return replace(plan, outputs=(c, c._replace(shape=(rows,), strides=None)))


def _both(product: Candidate, sums: Candidate) -> Plan:
    """The plan of a product, then of a reduction of its first operand."""
    first, second = product.build(), sums.build()
    scratch = INPUTS + OUTPUTS
    more = scratch + len(first.scratch)
    steps = [
        _renumbered(s, {INPUTS + 1 + i: scratch + i for i in range(len(first.scratch))})
        for s in first.steps
    ]
    numbers = {1: SUMS.number} | {2 + i: more + i for i in range(len(second.scratch))}
    steps += [_renumbered(s, numbers) for s in second.steps]
    return Plan(tuple(steps), (*first.outputs, *second.outputs), (*first.scratch, *second.scratch))


def _renumbered(step: Step, numbers: dict[int, int]) -> Step:
    """The step with other numbers of tensors."""

    def changed(argument: Argument) -> Argument:
        if isinstance(argument, Map):
            pointer = changed(argument.pointer)
            assert isinstance(pointer, Pointer)
            return argument._replace(pointer=pointer)
        if isinstance(argument, Pointer):
            return argument._replace(number=numbers.get(argument.number, argument.number))
        return argument

    return replace(step, args=tuple(map(changed, step.args)))


def _check(a: Any, b: Any, precision: str) -> None:
    check_operands("matmul_row_sums", a, b, precision)
    if a.dim() != 2 or b.dim() != 2:
        raise ArgumentError(
            "weft.ops.matmul_row_sums: an operand is no matrix",
            got=f"a {list(a.shape)}, b {list(b.shape)}",
            allowed="a[M, K] and b[K, N]",
        )


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:2])
    ctx.precision = inputs[2]


def _backward(ctx: Any, grad: Any, grad_sums: Any) -> Any:
    a, b = ctx.saved_tensors
    product = functools.partial(library.call("matmul"), precision=ctx.precision)
    wants = ctx.needs_input_grad
    return (
        product(grad, b.t()) + grad_sums[:, None] if wants[0] else None,
        product(a.t(), grad) if wants[1] else None,
        None,
    )


DEFINITIONS = (
    Definition(
        name="matmul_row_sums",
        schema='(Tensor a, Tensor b, str precision="fp32") -> (Tensor, Tensor)',
        doc="The product of two matrices, and the sums of the rows of a.",
        fake=lambda a, b, precision="fp32": (
            a.new_empty((a.shape[0], b.shape[1])),
            a.new_empty(a.shape[:1]),
        ),
        candidates=_candidates,
        check=_check,
        setup=_setup,
        backward=_backward,
        autocast=LOWER,
        public=False,
    ),
)
