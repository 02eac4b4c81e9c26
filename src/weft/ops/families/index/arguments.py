"""Checks the arguments of the ops by index."""

from __future__ import annotations

from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import source
from weft.ops.core.checks import check_dim, check_dtype

INDICES = (torch.int64, torch.int32)


def check_dtypes(op: str, index: Any, **tensors: Any) -> None:
    """Raise for a dtype that no kernel takes."""
    for name, tensor in {**tensors, "index": index}.items():
        allowed = INDICES if name == "index" else tuple(source.CTYPES)
        check_dtype(op, name, tensor, allowed)


def check_gather(x: Any, dim: int, index: Any) -> None:
    """Raise unless index has a place in input for each element of the result."""
    check_dtypes("gather", index, input=x)
    check_dim("gather", max(x.dim(), 1), dim)
    if index.numel():
        _check_rank("gather", index, input=x)
        _check_lines("gather", x, dim, index)


def check_index_select(x: Any, dim: int, index: Any) -> None:
    """Raise unless index is a vector of places along the dimension."""
    check_dtypes("index_select", index, input=x)
    check_dim("index_select", max(x.dim(), 1), dim)
    if index.dim() > 1 or (x.dim() == 0 and index.numel() != 1):
        raise ArgumentError(
            "weft.ops.index_select: 'index' must be a vector",
            got=f"shape {list(index.shape)}",
            allowed="one dimension" if x.dim() else "one element, because input is a number",
        )


def check_scatter_add(x: Any, dim: int, index: Any, src: Any) -> None:
    """Raise unless index has a place in input for elements of src."""
    check_dtypes("scatter_add", index, input=x, src=src)
    check_dim("scatter_add", max(x.dim(), 1), dim)
    if x.dtype is not src.dtype:
        raise ArgumentError(
            "weft.ops.scatter_add: 'src' must have the dtype of input",
            got=f"{src.dtype} for input of {x.dtype}",
            allowed=str(x.dtype),
            next="convert it: src.to(input.dtype)",
        )
    if not index.numel():
        return
    _check_rank("scatter_add", index, input=x, src=src)
    _check_lines("scatter_add", x, dim, index)
    if any(a > b for a, b in zip(index.shape, src.shape, strict=bool(src.dim() and index.dim()))):
        raise ArgumentError(
            "weft.ops.scatter_add: 'index' must not be larger than src",
            got=f"index {list(index.shape)}, src {list(src.shape)}",
            allowed="sizes of src, or smaller ones",
        )


def _check_rank(op: str, index: Any, **others: Any) -> None:
    """Raise unless all have as many dimensions; a number counts as a vector of one element."""
    for name, x in others.items():
        if max(x.dim(), 1) != max(index.dim(), 1):
            raise ArgumentError(
                f"weft.ops.{op}: 'index' must have as many dimensions as {name}",
                got=f"{index.dim()} and {x.dim()}",
                allowed=str(x.dim()),
            )


def _check_lines(op: str, x: Any, dim: int, index: Any) -> None:
    if x.dim() < 2:
        sizes = []
    else:
        sizes = [d for d in range(x.dim()) if d != dim % x.dim() and index.shape[d] > x.shape[d]]
    if sizes:
        raise ArgumentError(
            f"weft.ops.{op}: 'index' must not be larger than input, except along dim",
            got=f"index {list(index.shape)}, input {list(x.shape)}, dim={dim}",
            allowed=f"at most {x.shape[sizes[0]]} in dimension {sizes[0]}",
        )
    if not x.numel():
        raise ArgumentError(
            f"weft.ops.{op}: 'input' has no elements for the index", got=f"shape {list(x.shape)}"
        )
