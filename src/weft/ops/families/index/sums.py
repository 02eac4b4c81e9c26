"""Adds elements by index: chooses between a kernel and a sort before the kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from weft.ops.core import library
from weft.ops.families.index import model


def summed(index: Any, src: Any, shape: Sequence[int], dim: int, fixed: bool) -> Any:
    """Zeros of a shape to which src is added at the places of index along `dim`.

    fixed  True if the order of the additions must not depend on timing
    """
    if fixed and is_sorted(index, shape, dim):
        keys, sums = (library.call(n) for n in ("scatter_keys", "scatter_by_keys"))
        return by_sort(keys, sums, None, dim, index, src, shape)
    return library.call("scatter_sum")(index, src, list(shape), dim, fixed)


def is_sorted(index: Any, shape: Sequence[int], dim: int) -> bool:
    """True if the positions are sorted first."""
    count = index.numel()
    if count < model.LEAST_SORTED or not math.prod(shape):
        return False
    positions = index.shape[dim] if index.dim() else 1
    rows = shape[dim] if shape else 1
    return model.is_faster_sorted(count // positions, positions, rows)


def by_sort(
    keys: Any, sums: Any, base: Any, dim: int, index: Any, src: Any, shape: Sequence[int]
) -> Any:
    """The sums in the order of a stable sort; `keys` and `sums` are ops of the family."""
    full = list(shape) or [1]
    dim %= len(full)
    if src.shape != index.shape:
        src = src[tuple(slice(n) for n in index.shape)]
    others = [d for d in range(len(full)) if d != dim]
    rows = full[dim]
    # An index that is repeated for whole rows is sorted once for all of their elements.
    repeated = all(
        index.shape[d] == full[d] and (index.stride(d) == 0 or full[d] == 1) for d in others
    )
    if not repeated:
        places, order = torch.sort(keys(index, full, dim), stable=True)
        before = None if base is None else base.reshape(-1, 1)
        return sums(before, src.reshape(-1, 1), places, order, math.prod(full)).view(list(shape))
    line = index
    for d in reversed(others):
        line = line.select(d, 0)
    places, order = torch.sort(keys(line, [rows], 0), stable=True)
    before = None if base is None else base.movedim(dim, 0).reshape(rows, -1)
    made = sums(before, src.movedim(dim, 0).reshape(index.shape[dim], -1), places, order, rows)
    back = made.view([rows, *(full[d] for d in others)]).movedim(0, dim)
    return back.contiguous().view(list(shape))
