"""Elementwise ops, with operands of equal shapes and broadcast ones; copies in any order."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import torch

from weft.ops.core import library
from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case, Draw
from weft.ops.sweep.draw import Between, Call

POSITIVE = Between(0.125, 8.0)
EXPRESSION = "a * sigmoid(b) + c"
ALPHA = 2.5


def _elementwise(name: str, operands: int, contents: str | Between = "plain") -> Draw:
    def drawn(rng: random.Random, most: int) -> Call:
        shape, dtype = draw.shape(rng, (1, 2, 3, 4), most), rng.choice(FLOATS)
        shapes = [shape]
        for _ in range(operands - 1):
            chance = rng.random()
            if chance < 0.7:
                shapes.append(shape)
            elif chance < 0.85:
                shapes.append(shape[-1:])
            else:
                shapes.append(tuple(1 if rng.random() < 0.5 else s for s in shape))
        tensors = (draw.tensor(rng, s, dtype) for s in shapes)
        filled = tuple(dataclasses.replace(t, contents=contents) for t in tensors)
        return Call(name, filled, {})

    return drawn


def _choice(rng: random.Random, most: int) -> Call:
    """A call of where: a condition, and two operands that may be broadcast."""
    call = _elementwise("where", 3)(rng, most)
    first, *others = call.tensors
    assert first is not None
    return Call("where", (dataclasses.replace(first, dtype="bool"), *others), {})


def _vectors(rng: random.Random, most: int) -> Call:
    """Two vectors whose outer product has at most so many elements."""
    m, n = (*draw.shape(rng, (2,), most), 1)[:2]
    dtype = rng.choice(FLOATS)
    return Call("ger", (draw.tensor(rng, (m,), dtype), draw.tensor(rng, (n,), dtype)), {})


def _unary(name: str, contents: str | Between = "plain", exact: bool = False) -> Case:
    return Case(
        name, _elementwise(name, 1, contents), getattr(torch, name), exact=exact, shared=True
    )


def _binary(name: str, contents: str | Between = "plain") -> Case:
    return Case(
        name, _elementwise(name, 2, contents), getattr(torch, name), exact=True, shared=True
    )


def _chain(a: Any, b: Any, c: Any) -> Any:
    return a * torch.sigmoid(b) + c


ANY = (*FLOATS, "int64", "int16", "uint8")
"""Dtypes of every size, for copies."""


def _permute(rng: random.Random, most: int) -> Call:
    shape, dtype = draw.shape(rng, (2, 2, 3, 4, 5), most), rng.choice(ANY)
    dims = list(range(len(shape)))
    rng.shuffle(dims)
    return Call("permute", (draw.tensor(rng, shape, dtype, plain=0.8),), {"dims": tuple(dims)})


def _transpose(rng: random.Random, most: int) -> Call:
    shape, dtype = draw.shape(rng, (2, 2, 3), most), rng.choice(ANY)
    dim0 = rng.randrange(len(shape) - 1)
    options = {"dim0": dim0, "dim1": rng.randrange(dim0 + 1, len(shape))}
    return Call("transpose", (draw.tensor(rng, shape, dtype, plain=0.8),), options)


def _contiguous(rng: random.Random, most: int) -> Call:
    """Tensors that are not contiguous yet: in another order, or with gaps."""
    shape, dtype = draw.shape(rng, (2, 3, 4), most), rng.choice(ANY)
    tensor = draw.Tensor(shape, dtype, tuple(range(len(shape))), gap=rng.choice((1, 3, 8, 32)))
    if rng.random() < 0.6:
        tensor = draw.Tensor(shape, dtype, tuple(rng.sample(tensor.order, len(shape))))
    return Call("contiguous", (tensor,), {})


def _copied(x: Any) -> Any:
    return x.clone(memory_format=torch.contiguous_format)


CASES = (
    Case("add", _elementwise("add", 2), lambda a, b: a + b),
    Case("mul", _elementwise("mul", 2), lambda a, b: a * b, shared=True),
    Case("fma", _elementwise("fma", 3), lambda a, b, c: a * b + c),
    Case("div", _elementwise("div", 2), lambda a, b: a / b),
    Case("maximum", _elementwise("maximum", 2), torch.maximum, exact=True),
    Case("less", _elementwise("less", 2), torch.less, exact=True),
    Case("where", _choice, torch.where, exact=True),
    Case("exp", _elementwise("exp", 1), torch.exp),
    Case("tanh", _elementwise("tanh", 1), torch.tanh),
    Case("sub", _elementwise("sub", 2), lambda a, b: a - b, shared=True),
    Case("pow", _elementwise("pow", 2, POSITIVE), torch.pow, roundings=8, shared=True),
    _binary("minimum"),
    *map(_binary, ("less_equal", "greater", "greater_equal", "not_equal")),
    Case("equal", _elementwise("equal", 2, "bytes"), torch.eq, exact=True, shared=True),
    *(_binary(name, "skewed") for name in ("logical_and", "logical_or")),
    _unary("logical_not", "skewed", exact=True),
    _unary("neg", exact=True),
    _unary("abs", exact=True),
    *(_unary(name, POSITIVE) for name in ("log", "sqrt", "rsqrt", "reciprocal")),
    _unary("sin"),
    _unary("cos"),
    Case(
        "axpy", _elementwise("axpy", 2), lambda x, y: torch.add(y, x, alpha=ALPHA), shared=True,
        weft=lambda x, y: library.call("axpy")(ALPHA, x, y),
    ),
    Case("ger", _vectors, torch.outer, shared=True),
    Case(
        "elementwise", _elementwise("elementwise", 3), _chain, shared=True,
        weft=lambda a, b, c: library.call("elementwise")(EXPRESSION, a, b, c),
    ),
    Case("permute", _permute, lambda x, dims: _copied(x.permute(dims)), exact=True),
    Case(
        "transpose", _transpose, lambda x, dim0, dim1: _copied(x.transpose(dim0, dim1)), exact=True
    ),
    Case("contiguous", _contiguous, _copied, exact=True),
)  # fmt: skip
