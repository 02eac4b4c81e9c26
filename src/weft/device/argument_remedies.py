"""Suggestions in errors about arguments: what to pass instead of an array that does not fit."""

from __future__ import annotations

from typing import Any

from weft.device import arrays
from weft.device.ctypes_table import CType

_REMEDIES = {
    "contiguous": {"torch": "{x}.contiguous()", "cupy": "cupy.ascontiguousarray({x})",
                   "": "np.ascontiguousarray({x})"},
    "back": {"torch": "{x}.copy_(copy)", "": "{x}[...] = copy"},
    "copy": {"torch": "{x}.clone()", "": "{x}.copy()"},
    "dtype": {"torch": "{x}.to(torch.{dtype})", "": "{x}.astype('{dtype}')"},
}  # fmt: skip
"""Defect of an array -> its library -> an expression that fixes it; "" is any other library."""


def remedy(a: arrays.ArrayMemory, what: str, name: str, dtype: str = "") -> str:
    """An expression that fixes an array with the functions of its own library."""
    ways = _REMEDIES[what]
    return ways.get(a.library, ways[""]).format(x=name, dtype=dtype)


def as_array(value: Any, want: CType, name: str) -> str:
    """Code that makes a suitable array of a list; empty for other values."""
    known = [d for d in want.dtypes if d in arrays.BUILTIN]
    if not isinstance(value, list | tuple) or not known:
        return ""
    return f"make it an array, and keep it to see what is written: np.array({name}, np.{known[0]})"


def where(a: arrays.ArrayMemory) -> str:
    """The place of an array, as errors name it."""
    return "in host memory" if a.device is None else f"on gpu:{a.device}"
