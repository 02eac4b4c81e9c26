"""Tracks the memory of tensors that kernels access only through raw addresses.

A kernel may be given addresses as numbers, e.g. a tensor of pointers for a grouped product. weft
cannot see which tensors they belong to, so the user declares them: `allow(*tensors)`. A script
under `weft run` need not: weft records every tensor that is asked for its address.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

from weft.device.base import Allocation

_allowed: dict[int, weakref.ref[Any]] = {}


def allow(*tensors: Any) -> None:
    """Let kernels access tensors that they know by address only, as long as the tensors live.

    A kernel may read addresses from a tensor of pointers. weft cannot see which tensors these
    belong to. Under `weft run` this is not needed.

    >>> import torch
    >>> table = torch.zeros(4)
    >>> weft.triton.allow(table)
    """
    for tensor in tensors:
        key = id(tensor)
        # Weak, so that tensors are freed as usual.
        _allowed[key] = weakref.ref(tensor, functools.partial(_forget, key))


def _forget(key: int, _: object) -> None:
    _allowed.pop(key, None)


def allowed() -> list[Allocation]:
    """The memory of all allowed tensors that still exist."""
    if not _allowed:
        return []
    held = [tensor for ref in list(_allowed.values()) if (tensor := ref()) is not None]
    return [extent(tensor, "a tensor whose address is known") for tensor in held]


def extent(tensor: Any, name: str) -> Allocation:
    """The memory from the first to the last element of a tensor."""
    size, dtype = int(tensor.element_size()), tensor.dtype
    # The shape is passed for dense tensors only: error messages then name the element.
    if tensor.is_contiguous():
        shape = tuple(tensor.shape)
        return Allocation(tensor.data_ptr(), size * tensor.numel(), True, name, dtype, shape)
    if tensor.numel() == 0:
        return Allocation(tensor.data_ptr(), 0, True, name)
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return Allocation(tensor.data_ptr(), size * (last + 1), True, name, dtype)
