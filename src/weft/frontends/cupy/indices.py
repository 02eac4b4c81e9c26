"""Indices of arrays as CuPy reads them: arrays of integers wrap around, one item is a view."""

from __future__ import annotations

from typing import Any

import numpy as np


def within(key: Any, array: np.ndarray[Any, Any]) -> Any:
    """Return the index for NumPy that selects the same items."""
    if isinstance(key, str) or (isinstance(key, list) and key and isinstance(key[0], str)):
        return key  # fields of a structure
    parts = list(key) if isinstance(key, tuple) else [key]
    parts = [_array(part) if isinstance(part, list | tuple) else part for part in parts]
    used = sum(map(_axes, parts))
    axis, out = 0, []
    for part in parts:
        if part is Ellipsis:
            axis += array.ndim - used
        elif _is_integers(part) and axis < array.ndim and array.shape[axis]:
            # CuPy does not check such indices: they are taken modulo the length of the axis.
            part = part.astype(np.int64) % array.shape[axis]
        axis += _axes(part)
        out.append(part)
    if not any(part is Ellipsis for part in out):
        out.append(Ellipsis)  # a single item is a view then, not a copy
    return tuple(out)


def _array(part: Any) -> Any:
    """Return a list of indices as an array; an empty one has indices, not a mask."""
    made = np.asarray(part)
    return made if made.size else made.astype(np.int64)


def _is_integers(part: Any) -> bool:
    return isinstance(part, np.ndarray) and part.dtype.kind in "iu" and part.ndim > 0


def _axes(part: Any) -> int:
    """Count the axes that one part of an index selects from."""
    if part is None or part is Ellipsis or isinstance(part, bool | np.bool_):
        return 0
    if isinstance(part, np.ndarray) and part.dtype.kind == "b":
        return part.ndim
    return 1
