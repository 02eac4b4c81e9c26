"""The memory of arrays: which allocation an array is in, and what kernels may access.

NumPy allocates the memory of arrays. Each allocation is registered with the current allocator,
so that pools count it, and with its address, so that kernels may be given the address alone.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from weft.device.base import Allocation
from weft.frontends.cupy.memory import Memory, MemoryPointer, alloc, exposed

_live: weakref.WeakValueDictionary[int, Memory] = weakref.WeakValueDictionary()
"""The memory of arrays, by the id of NumPy's array that owns it."""


def owner(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array that owns the memory of a view."""
    base: Any = array
    # `as_strided` puts an object of its own between a view and its array.
    while (base := getattr(base, "base", None)) is not None:
        if isinstance(base, np.ndarray):
            array = base
    return array


def memory_of(array: np.ndarray[Any, Any]) -> Memory:
    """Return the memory of an array; the allocator is asked when it is seen first."""
    root = owner(array)
    mem = _live.get(id(root))
    if mem is None:
        mem = alloc(root.nbytes).mem
        mem.adopt(root)
        _live[id(root)] = mem
    return mem


def register(mem: Memory) -> None:
    """Let arrays on this memory find it."""
    _live[id(owner(mem.bytes))] = mem


def pointer(array: np.ndarray[Any, Any], mem: Memory) -> MemoryPointer:
    """Return the address of an array's first element."""
    return MemoryPointer(mem, int(array.ctypes.data - mem.bytes.ctypes.data))


def behind(array: np.ndarray[Any, Any], mem: Memory) -> np.ndarray[Any, Any]:
    """View the memory from an array's first element to its last one, as a kernel sees it."""
    if array.flags.c_contiguous or not array.size:
        return array
    start = array.ctypes.data
    end = np.lib.array_utils.byte_bounds(array)[1]
    count = (end - start) // array.itemsize
    return np.ndarray(count, array.dtype, mem.bytes, start - mem.bytes.ctypes.data)


def at_address(address: int, dtype: str) -> np.ndarray[Any, Any] | None:
    """View the memory at an address that the program has read, to its end."""
    for mem in list(exposed.values()):
        offset = address - int(mem.bytes.ctypes.data)
        if 0 <= offset < mem.bytes.nbytes:
            kind = np.dtype(dtype)
            count = (mem.bytes.nbytes - offset) // kind.itemsize
            return np.ndarray(count, kind, mem.bytes, offset)
    return None


def known_by_address() -> list[Allocation]:
    """Return the memory whose address the program has read: kernels may find it in tables."""
    return [
        Allocation(int(m.bytes.ctypes.data), m.bytes.nbytes, True, "memory known by its address")
        for m in list(exposed.values())
    ]
