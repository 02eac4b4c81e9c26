"""Losses of pairs of numbers: mse, l1, smooth l1, huber, binary cross-entropy, kl_div."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import library
from weft.ops.core.bind.derive import derive
from weft.ops.core.function import Definition
from weft.ops.core.plan import Layout
from weft.ops.families.loss.classes import DTYPES, REDUCTIONS
from weft.ops.families.loss.pairs import LOSSES, Loss, candidates, result

_DOCS = {
    "mse_loss": "The squared difference of input and target.",
    "l1_loss": "The absolute difference of input and target.",
    "smooth_l1_loss": "Squared up to a difference of beta, and absolute above.",
    "huber_loss": "Squared up to a difference of delta, and linear above.",
    "binary_cross_entropy": """The cross-entropy of probabilities and targets from 0 to 1.

An input that is no probability fails an assertion of the kernel, as in PyTorch; on the simulated
GPU that is weft.AssertFailed.""",
    "binary_cross_entropy_with_logits": "The cross-entropy of sigmoid(input) and targets.",
    "kl_div": "The Kullback-Leibler divergence of target and of input, which is a logarithm.",
}
_OPTIONS = {
    "smooth_l1_loss": ", float beta=1.0",
    "huber_loss": ", float delta=1.0",
    "kl_div": ", bool log_target=False",
}


def _order(loss: Loss) -> list[str]:
    """The arguments after input and target, in the order of torch.nn.functional."""
    before = ["weight"] if "weight" in loss.weights else []
    after = ["pos_weight"] if "pos_weight" in loss.weights else []
    return [*before, "reduction", *after, *([loss.option] if loss.option else [])]


def _schema(loss: Loss) -> str:
    words = {
        "weight": "Tensor? weight=None",
        "pos_weight": "Tensor? pos_weight=None",
        "reduction": 'str reduction="mean"',
        loss.option: _OPTIONS.get(loss.name, "").removeprefix(", "),
    }
    rest = ", ".join(words[name] for name in _order(loss))
    return f"(Tensor input, Tensor target, {rest}) -> Tensor"


def _schema_backward(loss: Loss) -> str:
    weights = "".join(f", Tensor? {name}" for name in loss.weights)
    option = _OPTIONS.get(loss.name, "").partition("=")[0]
    tensors = f"Tensor dy, Tensor input, Tensor target{weights}"
    return f"({tensors}, str reduction{option}, bool of_target) -> Tensor"


def _check(loss: Loss, input: Any, target: Any, *rest: Any) -> None:
    named = dict(zip(_order(loss), rest, strict=True))
    tensors = {"input": input, "target": target, **{n: named[n] for n in loss.weights}}
    for name, x in tensors.items():
        if x is not None and (x.dtype not in DTYPES or x.dtype is not input.dtype):
            raise ArgumentError(
                f"weft.ops.{loss.name}: '{name}' has a dtype that no kernel takes",
                got=f"{x.dtype}, input {input.dtype}",
                allowed="float32, float16 or bfloat16, the same for all",
                next=f"convert it: {name}.to(input.dtype)",
            )
    if input.shape != target.shape:
        raise ArgumentError(
            f"weft.ops.{loss.name}: each element of 'input' needs a target",
            got=f"input {list(input.shape)}, target {list(target.shape)}",
            allowed="equal shapes",
            next="expand one: target.expand_as(input)",
        )
    for name in loss.weights:
        _check_weight(loss, name, named[name], input)
    allowed = (*REDUCTIONS, "batchmean") if loss.name == "kl_div" else REDUCTIONS
    if named["reduction"] not in allowed:
        raise ArgumentError(
            f"weft.ops.{loss.name}: reduction is {named['reduction']!r}",
            allowed=", ".join(map(repr, allowed)),
        )
    limit = named.get(loss.option) if loss.option in ("beta", "delta") else 1.0
    if limit is None or not limit >= 0 or (loss.option == "delta" and limit == 0):
        raise ArgumentError(
            f"weft.ops.{loss.name}: {loss.option} is {limit}",
            allowed="a positive number" if loss.option == "delta" else "0 or a positive number",
        )


def _check_weight(loss: Loss, name: str, weight: Any, input: Any) -> None:
    if weight is None:
        return
    try:
        fits = torch.broadcast_shapes(weight.shape, input.shape) == input.shape
    except RuntimeError:
        fits = False
    if not fits:
        raise ArgumentError(
            f"weft.ops.{loss.name}: '{name}' does not broadcast to 'input'",
            got=f"{name} {list(weight.shape)}, input {list(input.shape)}",
        )


# ---- gradients ---------------------------------------------------------------------------------
def _arguments(loss: Loss, rest: Any) -> tuple[list[Any], list[Any]]:
    """(weights, options) in the order of the backward op."""
    named = dict(zip(_order(loss), rest, strict=True))
    options = [named["reduction"], *([named[loss.option]] if loss.option else [])]
    return [named[name] for name in loss.weights], options


def _setup(loss: Loss, ctx: Any, inputs: Any, output: Any) -> None:
    weights, ctx.options = _arguments(loss, inputs[2:])
    ctx.save_for_backward(*inputs[:2], *weights)


def _backward(loss: Loss, ctx: Any, grad: Any) -> Any:
    if any(ctx.needs_input_grad[2:]):
        raise ArgumentError(
            f"weft.ops.{loss.name}: there is no gradient of a weight",
            got="a weight that requires a gradient",
            next="weight.detach()",
        )
    call = functools.partial(
        library.call(f"{loss.name}_backward"), grad, *ctx.saved_tensors, *ctx.options
    )
    wants = ctx.needs_input_grad
    return (
        call(False) if wants[0] else None,
        call(True) if wants[1] else None,
        *(None for _ in _order(loss)),
    )


def _setup_backward(loss: Loss, ctx: Any, inputs: Any, output: Any) -> None:
    count = 3 + len(loss.weights)
    ctx.save_for_backward(*inputs[:count])
    *ctx.options, ctx.of_target = inputs[count:]


def _second(loss: Loss, ctx: Any, v: Any) -> Any:
    """The second derivative, by torch's formulas."""
    grad, x, t, *weights = ctx.saved_tensors
    named = dict(zip(loss.weights, weights, strict=True))
    named["reduction"] = ctx.options[0]
    if loss.option:
        named[loss.option] = ctx.options[1]

    def first(grad: Any, x: Any, t: Any) -> Any:
        value = getattr(torch.nn.functional, loss.name)(x, t, **named)
        return torch.autograd.grad(value, t if ctx.of_target else x, grad, create_graph=True)

    return (*derive(first, [grad, x, t], [v]), *(None for _ in (*weights, *ctx.options, 0)))


def _fake(loss: Loss, input: Any, target: Any, *rest: Any, **named: Any) -> Any:
    values = {**dict(zip(_order(loss), rest, strict=False)), **named}
    if values.get("reduction", "mean") != "none":
        return input.new_empty(())
    return _pairs(input, target, None, [values.get(name) for name in loss.weights])


def _fake_backward(loss: Loss, dy: Any, input: Any, target: Any, *rest: Any) -> Any:
    count = len(loss.weights)
    return _pairs(input, target, dy if rest[count] == "none" else None, rest[:count])


def _pairs(input: Any, target: Any, upstream: Any, weights: Sequence[Any]) -> Any:
    layouts = [
        None if t is None else Layout(t.dtype, tuple(t.shape), tuple(t.stride()), 16)
        for t in (input, target, upstream, *weights)
    ]
    assert layouts[0] is not None and layouts[1] is not None
    made = result(layouts[0], layouts[1], layouts[2], layouts[3:])
    return input.new_empty_strided(made.shape, made.steps)


def _definitions(loss: Loss) -> tuple[Definition, Definition]:
    return (
        Definition(
            name=loss.name,
            schema=_schema(loss),
            doc=f"{_DOCS[loss.name]}\n\nAs torch.nn.functional.{loss.name}.",
            fake=functools.partial(_fake, loss),
            candidates=functools.partial(candidates, loss, False),
            check=functools.partial(_check, loss),
            setup=functools.partial(_setup, loss),
            backward=functools.partial(_backward, loss),
        ),
        Definition(
            name=f"{loss.name}_backward",
            schema=_schema_backward(loss),
            doc=f"The gradient of {loss.name}'s input, or of its target.",
            fake=functools.partial(_fake_backward, loss),
            candidates=functools.partial(candidates, loss, True),
            setup=functools.partial(_setup_backward, loss),
            backward=functools.partial(_second, loss),
            public=False,
        ),
    )


DEFINITIONS = tuple(d for loss in LOSSES for d in _definitions(loss))
