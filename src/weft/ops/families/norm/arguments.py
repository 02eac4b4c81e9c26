"""Checks of the arguments of normalisation ops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import checks

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
LONGEST = 2**31 - 64
"""The most elements of a row: kernels count them, and a vector more, in 32 bits."""


def check_dtype(name: str, x: Any) -> None:
    """Raise for a dtype that no kernel takes."""
    checks.check_dtype(name, "input", x, DTYPES, next="convert it: input.float()")


def check_rows(name: str, x: Any, normalized_shape: Any, **weights: Any) -> None:
    """Raise unless x's shape ends with `normalized_shape`, which is also that of all weights."""
    check_dtype(name, x)
    shape = sizes(normalized_shape)
    if not shape or tuple(x.shape[-len(shape) :]) != shape:
        raise ArgumentError(
            f"weft.ops.{name}: 'normalized_shape' must be the last dimensions of input",
            got=f"{list(shape)} for input of shape {list(x.shape)}",
            allowed="at least one dimension, each of input's size",
        )
    if math.prod(shape) > LONGEST:
        raise ArgumentError(
            f"weft.ops.{name}: a row has too many elements",
            got=str(math.prod(shape)),
            allowed=f"at most {LONGEST}",
        )
    check_weights(name, x, shape, **weights)


def check_weights(name: str, x: Any, shape: tuple[int, ...], **weights: Any) -> None:
    """Raise unless all weights have this shape, and x's dtype or float32."""
    given = {n: w for n, w in weights.items() if w is not None}
    for which, w in given.items():
        if tuple(w.shape) != shape:
            raise ArgumentError(
                f"weft.ops.{name}: {which} has shape {list(w.shape)}, expected {list(shape)}"
            )
        if w.dtype not in {x.dtype, torch.float32}:
            raise ArgumentError(
                f"weft.ops.{name}: '{which}' has a dtype that does not fit input",
                got=f"{w.dtype} for input of {x.dtype}",
                allowed=f"{x.dtype} or torch.float32",
            )
    if len({w.dtype for w in given.values()}) > 1:
        raise ArgumentError(
            f"weft.ops.{name}: {' and '.join(map(repr, given))} must have one dtype",
            got=", ".join(str(w.dtype) for w in given.values()),
            allowed=f"both {x.dtype}, or both torch.float32",
        )


def sizes(shape: int | Sequence[int]) -> tuple[int, ...]:
    """A shape as a tuple; torch takes a number for a shape of one dimension."""
    return (shape,) if isinstance(shape, int) else tuple(shape)
