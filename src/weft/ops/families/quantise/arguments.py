"""Arguments of quantise: checks, and fake results."""

from __future__ import annotations

from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core.checks import check_dtype
from weft.ops.families.quantise.plans import TYPES, outputs_of

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
LEAST_GROUP = 32


def check(op: str, name: str, x: Any, n: int, dtype: Any, group: int | None) -> None:
    """Raise unless rows of n elements of `x`, the argument `name` of an op, can be quantised."""
    check_dtype(op, name, x, DTYPES, next=f"convert it: {name}.float()")
    if dtype not in TYPES:
        raise ArgumentError(
            f"weft.ops.{op}: dtype is none that elements are quantised to",
            got=str(dtype),
            allowed=", ".join(str(d).removeprefix("torch.") for d in TYPES),
        )
    if not n:
        raise ArgumentError(
            f"weft.ops.{op}: {name} must have rows of at least one element",
            got=f"shape {list(x.shape)}",
            allowed="[…, K], K at least 1",
        )
    if group is not None and (group < LEAST_GROUP or n % group):
        raise ArgumentError(
            f"weft.ops.{op}: a row does not consist of such groups",
            got=f"group {group}, rows of {n}",
            allowed=f"a divisor of the row's length from {LEAST_GROUP} on, or None for whole rows",
        )


def fake(x: Any, n: int, dtype: Any, group: int | None) -> tuple[Any, Any]:
    """The results for rows of n elements, without contents."""
    made = outputs_of((*x.shape[:-1], n), dtype, group)
    q, scale = (x.new_empty(buffer.shape, dtype=buffer.dtype) for buffer in made)
    return q, scale
