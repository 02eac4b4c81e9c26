"""swiglu: definitions, argument checks and gradients."""

from __future__ import annotations

import functools
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import library
from weft.ops.core.bind.derive import derive
from weft.ops.core.checks import check_dtype
from weft.ops.core.function import Definition
from weft.ops.families.swiglu.plans import candidates

NAME = "swiglu"
GROUP = "elementwise"
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def _check(gate: Any, up: Any) -> None:
    check_dtype(NAME, "gate", gate, DTYPES, next="convert it: gate.float()")
    if up is None:
        if not gate.dim() or gate.shape[-1] % 2:
            raise ArgumentError(
                f"weft.ops.{NAME}: without 'up', the last dimension of gate must be even",
                got=f"shape {list(gate.shape)}",
                allowed="[…, 2 n]: n numbers of the gate, then n numbers that it multiplies",
            )
    elif up.shape != gate.shape or up.dtype is not gate.dtype or not gate.dim():
        raise ArgumentError(
            f"weft.ops.{NAME}: gate and up must have one shape and dtype",
            got=f"gate {list(gate.shape)} {gate.dtype}, up {list(up.shape)} {up.dtype}",
            allowed="at least one dimension",
        )


def _fake(gate: Any, up: Any = None) -> Any:
    n = gate.shape[-1] if up is not None else gate.shape[-1] // 2
    return gate.new_empty((*gate.shape[:-1], n))


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, grad: Any) -> Any:
    gate, up = ctx.saved_tensors
    dgate, dup = library.call(f"{NAME}_backward")(grad.to(gate.dtype), gate, up)
    return dgate, None if up is None else dup


def _second(ctx: Any, *grads: Any) -> Any:
    """The second derivative, by torch's formulas."""
    dy, gate, up = ctx.saved_tensors

    def first(dy: Any, gate: Any, up: Any = None) -> Any:
        parts = gate.chunk(2, -1) if up is None else (gate, up)
        y = torch.nn.functional.silu(parts[0]) * parts[1]
        inputs = [gate] if up is None else [gate, up]
        return torch.autograd.grad(y, inputs, dy, create_graph=True)

    given = [t for t in (dy, gate, up) if t is not None]
    found = derive(first, given, grads[: len(given) - 1])
    return (*found, *[None] * (3 - len(given)))


def _setup_backward(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)
    ctx.set_materialize_grads(False)


DEFINITIONS = (
    Definition(
        name=NAME,
        schema="(Tensor gate, Tensor? up=None) -> Tensor",
        doc="""silu(gate) * up, the gated activation of Llama's layers, in one launch.

        Without `up`, gate has shape […, 2 n]: the first half of each row is the gate, the second
        one what it multiplies, as one product for both gives them. The gradient is one launch.
        """,
        fake=_fake,
        candidates=functools.partial(candidates, False),
        check=_check,
        setup=_setup,
        backward=_backward,
        autocast=None,
    ),
    Definition(
        name=f"{NAME}_backward",
        schema="(Tensor dy, Tensor gate, Tensor? up) -> (Tensor, Tensor)",
        doc="The gradients of gate and up; of a packed tensor the first result.",
        fake=lambda dy, gate, up: (
            gate.new_empty(gate.shape),
            gate.new_empty((0,) if up is None else gate.shape),
        ),
        candidates=functools.partial(candidates, True),
        setup=_setup_backward,
        backward=_second,
        autocast=None,
        public=False,
    ),
)
