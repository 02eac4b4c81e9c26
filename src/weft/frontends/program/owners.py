"""Finds the owner of memory that kernels of a Python process know by its address only."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import numpy as np

from weft.frontends.program import process


def find(address: int) -> bool:
    """Adopt the memory of the tensor, or of the array of `weft.cupy`, that holds an address."""
    for each in gc.get_objects():
        owner, begin, size = _memory(each)
        if begin <= address < begin + size:
            library = process.start()
            library.weft_adopt(begin, size)
            weakref.finalize(owner, library.weft_disown, begin).atexit = False
            return True
    return False


def _memory(value: Any) -> tuple[Any, int, int]:
    """(object that owns memory, address, bytes); nothing for other objects."""
    # Its `__class__` could run code of the script: the type cannot.
    kind, torch = type(value), sys.modules.get("torch")
    cupy = sys.modules.get("weft.frontends.cupy.host_objects")
    if cupy is not None and issubclass(kind, cupy.HostObject):
        # The collector knows the array of the device, and not the array of NumPy in it.
        value = getattr(value, "_host", None)
        kind = type(value)
    if issubclass(kind, np.ndarray):
        while isinstance(value.base, np.ndarray):
            value = value.base
        begin, end = np.lib.array_utils.byte_bounds(value)
        return value, begin, end - begin
    if torch is not None and issubclass(kind, torch.Tensor) and value.layout is torch.strided:
        storage = value.untyped_storage()
        return value, storage.data_ptr(), storage.nbytes()
    return None, 0, 0
