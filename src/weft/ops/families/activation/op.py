"""Activations, forward and backward. The kernels are those of the elementwise family."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import library
from weft.ops.core.checks import check_dtype
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.source import CTYPES
from weft.ops.families.activation.functions import ACTIVATIONS, GELU, Activation
from weft.ops.families.elementwise import op as elementwise

Variants = Mapping[str, Activation]
"""An activation by the value of its option `approximate`; "" without this option."""


def _variant(variants: Variants, options: tuple[Any, ...]) -> tuple[Activation, tuple[Any, ...]]:
    """The activation that the options of a call choose, and its numbers."""
    if len(variants) == 1:
        return variants[""], options
    (approximate,) = options
    if approximate not in variants:
        raise ArgumentError(
            f"weft.ops.{next(iter(variants.values())).name}: approximate is {approximate!r}",
            allowed=", ".join(map(repr, variants)),
        )
    return variants[approximate], ()


def _check(variants: Variants, x: Any, *options: Any) -> None:
    activation, numbers = _variant(variants, options)
    if not activation.integers:
        floats = [d for d in CTYPES if d.is_floating_point]
        check_dtype(activation.name, "input", x, floats, next="convert it: input.float()")
    elementwise.check(activation.rows[0], x, *numbers)


def _candidates(variants: Variants, backward: bool, request: Request) -> list[Candidate]:
    activation, _ = _variant(variants, tuple(request.options.values()))
    return elementwise.candidates(activation.rows[backward], request)


def _fake(variants: Variants, backward: bool, *args: Any) -> Any:
    # torch omits options that have their defaults; the result does not depend on them.
    activation, count = next(iter(variants.values())), 2 if backward else 1
    return elementwise.fake(
        activation.rows[backward], *args[:count], *(0.0 for _ in activation.numbers)
    )


# ---- gradients ---------------------------------------------------------------------------------
def _setup(variants: Variants, ctx: Any, inputs: Any, output: Any) -> None:
    x, *ctx.options = inputs
    activation, _ = _variant(variants, tuple(ctx.options))
    ctx.save_for_backward(output if activation.of_output else x)


def _backward(name: str, ctx: Any, grad: Any) -> Any:
    (saved,) = ctx.saved_tensors
    return library.call(f"{name}_backward")(grad, saved, *ctx.options), *(None for _ in ctx.options)


def _setup_second(ctx: Any, inputs: Any, output: Any) -> None:
    grad, saved, *ctx.options = inputs
    ctx.save_for_backward(grad, saved)


def _backward_second(name: str, variants: Variants, ctx: Any, v: Any) -> Any:
    """The second derivative, for the gradient and for the saved tensor."""
    grad, saved = ctx.saved_tensors
    activation, numbers = _variant(variants, tuple(ctx.options))
    first = library.call(f"{name}_backward")(v, saved, *ctx.options)
    second = v * grad * activation.bend(saved, *numbers) if activation.bend else None
    return first, second, *(None for _ in ctx.options)


# ---- definitions -------------------------------------------------------------------------------
def _definitions(variants: Variants) -> tuple[Definition, Definition]:
    first = next(iter(variants.values()))
    forward, backward = first.rows
    options = [f", float {n}={v}" for n, v in first.numbers]
    if len(variants) > 1:
        options = [f', str approximate="{next(iter(variants))}"']
    bare = "".join(o.split("=")[0] for o in options)
    return (
        Definition(
            name=first.name,
            schema=f"(Tensor input{''.join(options)}) -> Tensor",
            doc=f"{first.doc}, for each element.",
            fake=functools.partial(_fake, variants, False),
            candidates=functools.partial(_candidates, variants, False),
            check=functools.partial(_check, variants),
            setup=functools.partial(_setup, variants),
            backward=functools.partial(_backward, first.name),
            vmap=functools.partial(elementwise.batched, forward),
            autocast=torch.float32 if first.name == "softplus" else None,  # as PyTorch
        ),
        Definition(
            name=backward.name,
            schema=f"(Tensor dy, Tensor {first.saved}{bare}) -> Tensor",
            doc=f"The gradient of {first.name}'s input, from that of its result and its "
            f"{first.saved}.",
            fake=functools.partial(_fake, variants, True),
            candidates=functools.partial(_candidates, variants, True),
            setup=_setup_second,
            backward=functools.partial(_backward_second, first.name, variants),
            vmap=functools.partial(elementwise.batched, backward),
            autocast=None,
            public=False,
        ),
    )


GROUP = "elementwise"
DEFINITIONS = tuple(
    d for variants in (*({"": a} for a in ACTIVATIONS), GELU) for d in _definitions(variants)
)
