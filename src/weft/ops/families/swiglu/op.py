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


# ---- other activations -------------------------------------------------------------------------
GATED = "gated"


def _gated_setup(ctx: Any, inputs: Any, output: Any) -> None:
    packed, _, *ctx.options = inputs
    ctx.save_for_backward(packed)


def _gated_backward(ctx: Any, grad: Any) -> Any:
    (packed,) = ctx.saved_tensors
    found, _ = library.call(f"{GATED}_backward")(grad.to(packed.dtype), packed, None, *ctx.options)
    return found, None, None, None


_GATED = (
    Definition(
        name=GATED,
        schema="(Tensor packed, Tensor? up, str activation, bool gate_first) -> Tensor",
        doc="""activation(gate) * up of the halves of rows, in one launch; `up` is None.

        activation is "silu", "gelu" or "gelu_tanh". gate_first: the gate is the first half.
        """,
        fake=lambda packed, up, activation, gate_first: _fake(packed),
        candidates=functools.partial(candidates, False),
        setup=_gated_setup,
        backward=_gated_backward,
        autocast=None,
        public=False,
    ),
    Definition(
        name=f"{GATED}_backward",
        schema="(Tensor dy, Tensor packed, Tensor? up, str activation, bool gate_first)"
        " -> (Tensor, Tensor)",
        doc="The first result is the gradient of the packed tensor.",
        fake=lambda dy, packed, up, activation, gate_first: (
            packed.new_empty(packed.shape),
            packed.new_empty((0,)),
        ),
        candidates=functools.partial(candidates, True),
        autocast=None,
        public=False,
    ),
)

DEFINITIONS = (
    *_GATED,
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
