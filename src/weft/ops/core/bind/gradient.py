"""The derivative of an op: a formula, another op or a kernel, and the values saved for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core.bind.body import Body
from weft.ops.core.bind.options import Options, names

Formula = Callable[..., Any]
"""(ctx, *gradients of the results) -> gradients of the arguments."""


class Saved(SimpleNamespace):
    """The context of a formula: arguments and results by name, and `needs_input_grad`."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"'{name}' is not saved for backward; ctx has {', '.join(vars(self))}")


Derivative = tuple[Formula, Callable[..., None] | None]
"""torch's pair: backward, and the function that saves values for it."""


def derivative(op: str, body: Body, options: Options, formula: Formula | None) -> Derivative | None:
    """The derivative to register with torch; without a formula, backward raises."""
    if body.schema.mutated and formula is not None:
        raise ArgumentError(
            f"{op}: an op that writes to its arguments has no derivative",
            got=body.schema.text,
            next="make it return a new tensor, or leave backward= out",
        )
    if body.schema.mutated:
        return None
    if not options.differentiable:
        return _none, _mark
    if formula is None:
        return _refuse(op), None
    if options.setup_context is not None:
        return _completed(op, body, formula), options.setup_context
    return _by_name(op, body, formula, _kept(op, body, options))


def _completed(op: str, body: Body, formula: Formula) -> Formula:
    return lambda ctx, *grads: _complete(op, body, formula(ctx, *grads))


def _by_name(op: str, body: Body, formula: Formula, kept: Sequence[str]) -> Derivative:
    """Save arguments and results, which the formula accesses by name."""

    def setup(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any = None) -> None:
        values = body.schema.bind(inputs, keyword_only_inputs or {})
        outputs = output if isinstance(output, tuple | list) else (output,)
        values |= dict(zip(body.results, outputs, strict=True))
        tensors = {n: values[n] for n in kept if isinstance(values[n], torch.Tensor)}
        ctx.save_for_backward(*tensors.values())
        ctx.tensor_names = tuple(tensors)
        ctx.others = {n: values[n] for n in kept if n not in tensors}

    def backward(ctx: Any, *grads: Any) -> Any:
        tensors = dict(zip(ctx.tensor_names, ctx.saved_tensors, strict=True))
        saved = Saved(**tensors, **ctx.others, needs_input_grad=ctx.needs_input_grad)
        return _complete(op, body, formula(saved, *grads))

    return backward, setup


def op_formula(forward: str, body: Body, backward: Any) -> Formula:
    """The formula that calls another op.

    Arguments with names of the forward op's arguments and results get these; the others get the
    gradients of the results, in order.
    """
    names = {*body.schema.names, *body.results}
    wanted = [a.name for a in backward.body.schema.arguments]
    gradients = [n for n in wanted if n not in names]
    if len(gradients) != len(body.results):
        raise ArgumentError(
            f"{forward}: {backward.name} does not take the gradients of the results",
            got=f"{', '.join(wanted)}; {', '.join(gradients) or 'none'} of these is new",
            allowed=f"{len(body.results)} that are not among {', '.join(sorted(names))}",
            next=f"call it grad_{next(iter(body.results), 'y')}",
        )

    def formula(ctx: Any, *grads: Any) -> Any:
        # The gradient of a sum is one expanded number: kernels need contiguous memory.
        grads_by_name = dict(zip(gradients, (g.contiguous() for g in grads), strict=True))
        return backward(
            *(grads_by_name[n] if n in grads_by_name else getattr(ctx, n) for n in wanted)
        )

    return formula


def saved(body: Body, backward: Any) -> tuple[str, ...]:
    """The arguments and results of the forward op that another op needs."""
    names = (*body.schema.names, *body.results)
    return tuple(n for n in names if n in backward.body.schema.names)


def _kept(op: str, body: Body, options: Options) -> tuple[str, ...]:
    available = (*body.schema.names, *body.results)
    if options.save is None:
        return available
    for name in names(options.save):
        if name not in available:
            raise ArgumentError(
                f"{op}: save names '{name}', which is neither argument nor result",
                allowed=", ".join(available),
            )
    return names(options.save)


def _complete(op: str, body: Body, result: Any) -> tuple[Any, ...]:
    """One gradient per argument; None for arguments that are not tensors."""
    gradients: Sequence[Any] = result if isinstance(result, tuple | list) else (result,)
    arguments = body.schema.arguments
    if len(gradients) == len(arguments):
        return tuple(gradients)
    if len(gradients) == len(body.schema.tensors):
        left = iter(gradients)
        return tuple(next(left) if a.is_tensor else None for a in arguments)
    raise ArgumentError(
        f"{op}: backward does not give a gradient for each tensor",
        got=f"{len(gradients)} values",
        allowed=f"{len(body.schema.tensors)}, for {', '.join(body.schema.tensors)}",
        next="return None for a tensor that has no gradient",
    )


def _refuse(op: str) -> Formula:
    def backward(ctx: Any, *grads: Any) -> Any:
        raise ArgumentError(
            f"{op} has no backward",
            got="a tensor among its arguments that requires a gradient",
            allowed="backward=lambda ctx, grad: ..., an op of weft or a kernel",
            next="say it when the op is made; differentiable=False where there is no derivative",
        )

    return backward


def _mark(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any = None) -> None:
    ctx.mark_non_differentiable(*(output if isinstance(output, tuple | list) else (output,)))
    ctx.count = len(inputs)


def _none(ctx: Any, *grads: Any) -> Any:
    return (None,) * ctx.count
