"""Describes an op that reduces: its operation, and the shape and dtype of its result."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

NORMS = {1.0: "Norm1", 2.0: "Norm2", math.inf: "NormInf"}
COMPUTED = {torch.float32: "float", torch.float16: "float", torch.bfloat16: "float",
            torch.float64: "double"}  # fmt: skip


@dataclass(frozen=True)
class Row:
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
    kept = [(1 if i in dims else s) for i, s in enumerate(shape)]
    return tuple(kept if keepdim else [s for i, s in enumerate(shape) if i not in dims])


def result_dtype(row: Row, dtype: torch.dtype) -> torch.dtype:
    """The dtype of the result."""
    if row.result in ("index", "count"):
        return torch.int64
    if row.result == "bool":
        return torch.bool
    if row.result == "wide" and not dtype.is_floating_point:
        return torch.int64
    return dtype


def computed(row: Row, dtype: torch.dtype) -> str:
    if dtype.is_floating_point:
        return COMPUTED[dtype]
    return "long long" if row.result == "wide" or dtype is torch.int64 else "int"
