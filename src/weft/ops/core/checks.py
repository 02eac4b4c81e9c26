"""Checks of arguments that ops of several families share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core.source import CTYPES


def check_dtype(
    op: str, name: str, tensor: Any, allowed: Iterable[torch.dtype] = CTYPES, next: str = ""
) -> None:
    """Raise unless a tensor, the argument `name` of an op, has one of these dtypes."""
    if tensor.dtype not in allowed:
        raise ArgumentError(
            f"weft.ops.{op}: '{name}' has a dtype that no kernel takes",
            got=str(tensor.dtype),
            allowed=", ".join(str(d).removeprefix("torch.") for d in allowed),
            next=next,
        )


def check_dim(op: str, rank: int, dim: int) -> None:
    """Raise unless a tensor of this rank has the dimension."""
    if not -rank <= dim < rank:
        raise ArgumentError(
            f"weft.ops.{op}: there is no such dimension",
            got=f"dim {dim} of {rank} dimensions",
            allowed=f"{-rank} to {rank - 1}" if rank else "none: a number has no dimensions",
        )
