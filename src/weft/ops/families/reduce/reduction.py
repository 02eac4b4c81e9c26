"""Reductions as data: the operation, and the shape and dtype of the result."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

NORMS = {1.0: "Norm1", 2.0: "Norm2", math.inf: "NormInf"}


@dataclass(frozen=True)
class Reduction:
    """One op.

    operation  the struct of reduce.cu
    single     the result for a single element a, as C++; s is the number of elements less the
               correction of `var`
    result     "same", "wide" (64-bit integers for integers), "float", "index", "count" or "bool"
    empty      True if the reduced dimensions may be empty
    one        True if a single dimension is reduced, as for argmax
    """

    name: str
    operation: str
    single: str
    doc: str
    result: str
    torch: Callable[..., Any]
    empty: bool = True
    one: bool = False
    extra: str = ""
    integers: bool = True


# ---- shapes and dtypes -------------------------------------------------------------------------
def reduced_dims(rank: int, dim: Any) -> tuple[int, ...]:
    """The reduced dimensions in order; all if none is named."""
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return tuple(range(rank))
    named = (dim,) if isinstance(dim, int) else tuple(dim)
    return tuple(sorted({d % max(rank, 1) for d in named})) if rank else ()


def result_shape(shape: Sequence[Any], dims: Sequence[int], keepdim: bool) -> tuple[Any, ...]:
    """The shape of the result."""
    if keepdim:
        return tuple(1 if i in dims else s for i, s in enumerate(shape))
    return tuple(s for i, s in enumerate(shape) if i not in dims)


def result_dtype(op: Reduction, dtype: torch.dtype) -> torch.dtype:
    """The dtype of the result."""
    if op.result in ("index", "count"):
        return torch.int64
    if op.result == "bool":
        return torch.bool
    if op.result == "wide" and not dtype.is_floating_point:
        return torch.int64
    return dtype


def computed(op: Reduction, dtype: torch.dtype) -> str:
    """The C++ type in which elements of a dtype are reduced."""
    if dtype.is_floating_point:
        return "double" if dtype is torch.float64 else "float"
    return "long long" if op.result == "wide" or dtype is torch.int64 else "int"
