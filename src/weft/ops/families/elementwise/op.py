"""Expressions of up to three operands, for each element, with broadcasting and type promotion."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import library, source
from weft.ops.core.checks import check_dtype
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.layouts import broadcast, dense_strides, memory_order
from weft.ops.core.plan import Buffer, Layout, Plan, Pointer
from weft.ops.families.elementwise import expressions, permute
from weft.ops.families.elementwise.expressions import (
    LETTERS,
    NUMBERS,
    NUMERALS,
    ROWS,
    WHERE,
    WHERE_NUMBERS,
    ElementwiseOp,
)
from weft.ops.families.elementwise.jobs import BroadcastOperand, ElementwiseJob, Strategy
from weft.ops.families.elementwise.pointwise import strategies


# ---- shapes ------------------------------------------------------------------------------------
def _tensors(row: ElementwiseOp, args: Sequence[Any]) -> list[Any]:
    return [a for a, letter in zip(args, row.operands, strict=True) if letter in LETTERS]


def _output(row: ElementwiseOp, args: Sequence[Any]) -> Buffer:
    """The result: dense, in the memory order that all full operands share, else row-major."""
    tensors = _tensors(row, args)
    shape = tuple(torch.broadcast_shapes(*(t.shape for t in tensors)))
    orders = {memory_order(_layout(t)) for t in tensors if tuple(t.shape) == shape}
    order = orders.pop() if len(orders) == 1 else None
    dtype = expressions.dtypes(row, args)[1]
    return Buffer(shape, dtype, strides=dense_strides(shape, order) if order else None)


def _layout(operand: Any) -> Layout:
    if isinstance(operand, Layout):
        return operand
    return Layout(operand.dtype, tuple(operand.shape), tuple(operand.stride()), 16)


def fake(row: ElementwiseOp, *args: Any) -> Any:
    out, first = _output(row, args), _tensors(row, args)[0]
    return first.new_empty(out.shape, dtype=out.dtype).as_strided(out.shape, out.steps)


def check(row: ElementwiseOp, *args: Any) -> None:
    for name, tensor, letter in zip(row.arguments, args, row.operands, strict=True):
        if letter in LETTERS:
            check_dtype(row.name, name, tensor)
    if row.condition and args[0].dtype is not torch.bool:
        raise ArgumentError(
            f"weft.ops.{row.name}: 'condition' must be boolean",
            got=str(args[0].dtype),
            allowed="torch.bool",
            next="compare it: condition != 0",
        )
    tensors = _tensors(row, args)
    try:
        torch.broadcast_shapes(*(t.shape for t in tensors))
    except RuntimeError:
        raise ArgumentError(
            f"weft.ops.{row.name}: the shapes cannot be broadcast together",
            got=", ".join(str(list(t.shape)) for t in tensors),
            allowed="sizes that are equal or 1, counted from the last dimension",
        ) from None


# ---- kernels -----------------------------------------------------------------------------------
def candidates(row: ElementwiseOp, request: Request) -> list[Candidate]:
    """The ways to compute a row; tensors that are left out come after all others."""
    tensors = [t for t in request.inputs if t is not None]
    remaining = iter(tensors)
    args = [
        next(remaining) if letter in LETTERS else request.options[name]
        for letter, name in zip(row.operands, row.arguments, strict=True)
    ]
    out = _output(row, args)
    if Layout(out.dtype, out.shape, out.steps, 16).numel == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    options = strategies(
        _job(row, args, tensors, out, Pointer(len(request.inputs))), request.target
    )
    return [Candidate(w.name, w.cost, w.why, functools.partial(_plan, w, out)) for w in options]


def _job(
    row: ElementwiseOp, args: Sequence[Any], tensors: Sequence[Layout], out: Buffer, result: Pointer
) -> ElementwiseJob:
    by_memory = sorted(range(len(out.shape)), key=lambda d: -out.steps[d])
    operands = []
    for i, t in enumerate(tensors):
        strides = broadcast(t, out.shape)
        reordered = tuple(strides[d] for d in by_memory)
        operands.append(
            BroadcastOperand(source.ctype(t.dtype), t.itemsize, reordered, t.aligned, Pointer(i))
        )
    compute = expressions.arithmetic(expressions.dtypes(row, args)[0])
    numbers = (args[row.operands.index(n)] if n in row.operands else 0 for n in NUMERALS)
    return ElementwiseJob(
        row.expression, compute, tuple(out.shape[d] for d in by_memory), tuple(operands),
        source.ctype(out.dtype), out.dtype.itemsize, result,
        tuple(expressions.constant(n, compute) for n in numbers),
    )  # fmt: skip


def _plan(strategy: Strategy, out: Buffer) -> Plan:
    return Plan((strategy.build(),), (out,))


# ---- definitions -------------------------------------------------------------------------------
def _setup(row: ElementwiseOp, ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*((output,) if row.by_result else _tensors(row, inputs)))
    ctx.numbers = [v for v, letter in zip(inputs, row.operands, strict=True) if letter in NUMERALS]


def _backward(row: ElementwiseOp, ctx: Any, grad: Any) -> Any:
    assert row.gradients is not None
    if row.by_result:
        return row.gradients(grad, *ctx.saved_tensors)[0]
    tensors, numbers = iter(ctx.saved_tensors), iter(ctx.numbers)
    args = [
        next(tensors)
        if letter in LETTERS
        else torch.scalar_tensor(next(numbers), dtype=grad.dtype, device=grad.device)
        for letter in row.operands
    ]
    gradients = iter(row.gradients(grad, *args))
    return tuple(
        _summed(next(gradients), a) if letter in LETTERS else None
        for a, letter in zip(args, row.operands, strict=True)
    )


def _summed(grad: Any, operand: Any) -> Any:
    """The gradient of an operand that was broadcast: summed over what repeated."""
    if grad is None:
        return None
    return grad.sum_to_size(operand.shape).to(operand.dtype)


def batched(row: ElementwiseOp, info: Any, in_dims: Any, *args: Any) -> Any:
    """A batch is one more dimension in front; smaller operands are broadcast behind it."""
    pairs = list(zip(args, in_dims, strict=True))
    ranks = [a.dim() - (d is not None) for a, d in pairs if isinstance(a, torch.Tensor)]

    def front(value: Any, dim: int | None) -> Any:
        if dim is None:
            return value
        moved = value.movedim(dim, 0)
        missing = max(ranks) - moved.dim() + 1
        return moved.reshape(moved.shape[0], *[1] * missing, *moved.shape[1:])

    op = library.call(row.name)
    return op(*(front(a, d) for a, d in pairs)), 0


_SINGLE = ("exp", "log", "pow", "reciprocal", "rsqrt")
"""Ops that torch.autocast computes in float32."""
_OPERANDS = {
    1: "",
    2: "; a or b may be a number. Operands are broadcast and promoted as in torch",
    3: "; operands are broadcast and promoted as in torch",
}
"""The documentation of operands, by their number."""


def _definition(row: ElementwiseOp, redirect: Any = None, public: bool = True) -> Definition:
    kinds = ["Tensor" if letter in LETTERS else "Scalar" for letter in row.operands]
    parameters = (f"{k} {n}" for k, n in zip(kinds, row.arguments, strict=True))
    return Definition(
        name=row.name,
        schema=f"({', '.join(parameters)}) -> Tensor",
        doc=f"{row.doc}, for each element{_OPERANDS[len(row.operands)]}.",
        fake=functools.partial(fake, row),
        candidates=functools.partial(candidates, row),
        check=functools.partial(check, row),
        setup=functools.partial(_setup, row) if row.gradients else None,
        backward=functools.partial(_backward, row) if row.gradients else None,
        vmap=functools.partial(batched, row),
        autocast=torch.float32 if row.name in _SINGLE else None,
        redirect=redirect,
        public=public,
    )


def _numbered(row: ElementwiseOp) -> list[Definition]:
    """The op, and the ops that its calls with a number go to."""
    if row.operands != "ab" or not row.numbers:
        return [_definition(row)]
    second, first = expressions.with_number(row, False), expressions.with_number(row, True)

    def redirect(op: Callable[..., Any]) -> Callable[..., Any]:
        with_second, with_first = library.call(second.name), library.call(first.name)

        def redirected(a: Any, b: Any) -> Any:
            if isinstance(b, NUMBERS):
                return with_second(a, b)
            return with_first(a, b) if isinstance(a, NUMBERS) else NotImplemented

        return redirected

    by_number = (_definition(r, public=False) for r in (second, first))
    return [_definition(row, redirect), *by_number]


def _where() -> list[Definition]:
    """The op, and those that its calls with numbers go to."""

    def redirect(op: Callable[..., Any]) -> Callable[..., Any]:
        last, second, both = (library.call(row.name) for row in WHERE_NUMBERS)

        def redirected(condition: Any, input: Any, other: Any) -> Any:
            if isinstance(input, NUMBERS):
                return (both if isinstance(other, NUMBERS) else second)(condition, input, other)
            return last(condition, input, other) if isinstance(other, NUMBERS) else NotImplemented

        return redirected

    by_number = (_definition(row, public=False) for row in WHERE_NUMBERS)
    return [_definition(WHERE, redirect), *by_number]


def _outer(request: Request) -> list[Candidate]:
    a, b = request.inputs
    assert a is not None and b is not None
    column = Layout(a.dtype, (*a.shape, 1), (*a.strides, 0), a.aligned)
    return candidates(_MUL, Request("mul", (column, b), {}, request.target))


def _check_outer(a: Any, b: Any) -> None:
    if a.dim() != 1 or b.dim() != 1:
        raise ArgumentError(
            "weft.ops.ger: both operands must be vectors",
            got=f"{list(a.shape)} and {list(b.shape)}",
            allowed="tensors of one dimension",
        )
    check(_MUL, a.unsqueeze(1), b)


def _outer_backward(ctx: Any, grad: Any) -> Any:
    a, b = ctx.saved_tensors
    return (grad @ b.to(grad.dtype)).to(a.dtype), (a.to(grad.dtype) @ grad).to(b.dtype)


_MUL = next(row for row in ROWS if row.name == "mul")
_GER = Definition(
    name="ger",
    schema="(Tensor a, Tensor b) -> Tensor",
    doc="The outer product of two vectors: a[i] * b[j].",
    fake=lambda a, b: fake(_MUL, a.unsqueeze(1), b),
    candidates=_outer,
    check=_check_outer,
    setup=functools.partial(_setup, _MUL),
    backward=_outer_backward,
    autocast=None,
)


# ---- expressions of the user -------------------------------------------------------------------
def _written(expression: str, *tensors: Any) -> tuple[ElementwiseOp, list[Any]]:
    """A user's expression as a row, and the tensors that it reads."""
    count = sum(t is not None for t in tensors)
    letters = LETTERS[:count]
    if any(t is None for t in tensors[:count]):
        raise ArgumentError(
            "weft.ops.elementwise: 'b' is left out and 'c' is not", next="pass the tensor as 'b'"
        )
    unknown = sorted(set(re.findall(r"\b[a-c]\b", expression)) - set(letters))
    if unknown or re.search(r"[;{}#\"'\\]", expression) or not expression.strip():
        raise ArgumentError(
            "weft.ops.elementwise: 'expression' is not an expression of the tensors",
            got=repr(expression),
            allowed=f"one C++ expression of {', '.join(letters)}, in C, the type of the arithmetic",
            next='for example "a * C(2) + b"',
        )
    doc = "an expression of the user's"
    return ElementwiseOp("elementwise", letters, expression, doc), list(tensors[:count])


def _written_candidates(request: Request) -> list[Candidate]:
    row, _ = _written(request.options["expression"], *request.inputs)
    return candidates(row, request)


def _check_written(expression: str, *tensors: Any) -> None:
    row, present = _written(expression, *tensors)
    check(row, *present)


def _fake_written(expression: str, *tensors: Any) -> Any:
    row, present = _written(expression, *tensors)
    return fake(row, *present)


_ELEMENTWISE = Definition(
    name="elementwise",
    schema="(str expression, Tensor a, Tensor? b=None, Tensor? c=None) -> Tensor",
    doc='A C++ expression of a, b and c, such as "a * b + sin(c)", for each element; operands are '
    "broadcast and promoted as in torch.",
    fake=_fake_written,
    candidates=_written_candidates,
    check=_check_written,
    vmap=functools.partial(batched, ElementwiseOp("elementwise", "", "", "")),
    autocast=None,
)
GROUP = "elementwise"
DEFINITIONS = (
    *(d for row in ROWS for d in _numbered(row)),
    *_where(),
    _GER,
    _ELEMENTWISE,
    *permute.DEFINITIONS,
)
