"""NumPy's functions under CuPy's names. Arrays have CuPy's additional methods."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np


class ndarray(np.ndarray[Any, Any]):
    """A NumPy array with the methods that CuPy adds."""

    def get(self, stream: object = None, order: str = "C", out: Any = None) -> np.ndarray[Any, Any]:
        """A copy as a plain NumPy array."""
        if out is not None:
            out[...] = self
            return np.asarray(out)
        return np.array(self, subok=False)

    def set(self, values: Any, stream: object = None) -> None:
        """Copies a NumPy array to this one."""
        self[...] = values


def wrapped(value: Any) -> Any:
    """The same value, with arrays as `ndarray`."""
    if isinstance(value, np.ndarray):
        return value.view(ndarray)
    if isinstance(value, tuple | list) and any(isinstance(each, np.ndarray) for each in value):
        return type(value)(wrapped(each) for each in value)
    return value


def asnumpy(a: Any, stream: object = None, order: str = "C", out: Any = None) -> Any:
    """A copy of an array as a plain NumPy array."""
    return np.array(a, subok=False)


def of_numpy(name: str) -> Any:
    """NumPy's attribute; functions return `ndarray`."""
    found = getattr(np, name)
    # Types, dtypes and constants are NumPy's own; ufuncs keep the type of their arguments.
    if isinstance(found, type | np.ufunc) or not callable(found):
        return found

    @functools.wraps(found)
    def call(*args: Any, **options: Any) -> Any:
        return wrapped(found(*args, **options))

    return call
