"""Reductions along one dimension, several or all."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import torch

from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case, Compute, Draw, sums, terms
from weft.ops.sweep.draw import Call


def _reduced(
    name: str, one: bool = False, floats: bool = True, contents: str = "plain", **extra: Any
) -> Draw:
    def drawn(rng: random.Random, most: int) -> Call:
        shape = draw.shape(rng, (1, 2, 2, 3, 4), most)
        dtype = rng.choice(FLOATS if floats else (*FLOATS, "int32", "int64", "uint8", "bool"))
        chance = rng.random()
        dim: Any = None
        if chance < 0.35:
            dim = len(shape) - 1
        elif chance < 0.6:
            dim = rng.randrange(len(shape))
        elif chance < 0.8 and not one:
            dim = tuple(d for d in range(len(shape)) if rng.random() < 0.5) or (0,)
        options = {"dim": dim, "keepdim": rng.random() < 0.3, **extra}
        tensor = dataclasses.replace(draw.tensor(rng, shape, dtype), contents=contents)
        return Call(name, (tensor,), options)

    return drawn


def _means(x: Any, call: Call) -> float:
    return sums(x, call) / max(1, terms(call))


def _product(x: Any, dim: int | None, keepdim: bool) -> Any:
    """torch's product; it has no `keepdim` for all dimensions."""
    if dim is not None:
        return torch.prod(x, dim, keepdim)
    return torch.prod(x).reshape((1,) * x.dim()) if keepdim else torch.prod(x)


def _truth(name: str) -> Compute:
    function = getattr(torch, name)
    return lambda x, dim, keepdim: function(
        x, dim if dim is not None else tuple(range(x.dim())), keepdim
    )


CASES = (
    Case("sum", _reduced("sum", floats=False), torch.sum, depth=terms, scale=sums),
    Case("mean", _reduced("mean"), torch.mean, depth=terms, scale=_means, shared=True),
    Case(
        "amax",
        _reduced("amax", floats=False),
        lambda x, dim, keepdim: torch.amax(x, dim if dim is not None else (), keepdim),
        exact=True,
        shared=True,
    ),
    Case("argmax", _reduced("argmax", one=True), torch.argmax, exact=True, shared=True),
    Case(
        "amin",
        _reduced("amin", floats=False),
        lambda x, dim, keepdim: torch.amin(x, dim if dim is not None else (), keepdim),
        exact=True,
        shared=True,
    ),
    Case("argmin", _reduced("argmin", one=True), torch.argmin, exact=True, shared=True),
    Case(
        "prod",
        _reduced("prod", one=True, contents="near one"),
        _product,
        # Each rounding of a product counts in full; those of small partial sums count less.
        depth=lambda call: 4 * terms(call),
        shared=True,
    ),
    Case(
        "norm",
        _reduced("norm", ord=2.0),
        lambda x, dim, keepdim, ord: torch.linalg.vector_norm(x, ord, dim, keepdim),
        depth=terms,
        shared=True,
    ),
    Case(
        "var",
        _reduced("var", correction=1),
        lambda x, dim, keepdim, correction: torch.var(
            x, dim, correction=correction, keepdim=keepdim
        ),
        depth=terms,
        shared=True,
    ),
    *(
        Case(name, _reduced(name, floats=False), _truth(name), exact=True, shared=True)
        for name in ("any", "all")
    ),
    Case(
        "count_nonzero",
        _reduced("count_nonzero", floats=False),
        lambda x, dim, keepdim: (x != 0).sum(dim, keepdim),
        exact=True,
        shared=True,
    ),
)
