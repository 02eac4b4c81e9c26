"""Ops that copy: any permutation, of elements of any size."""

from __future__ import annotations

import random
from typing import Any

import torch

from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case
from weft.ops.sweep.draw import Call

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
    Case("permute", _permute, lambda x, dims: _copied(x.permute(dims)), exact=True),
    Case(
        "transpose", _transpose, lambda x, dim0, dim1: _copied(x.transpose(dim0, dim1)), exact=True
    ),
    Case("contiguous", _contiguous, _copied, exact=True),
)
