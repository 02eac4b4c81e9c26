"""Pinned memory of the host, which is ordinary memory here, and arrays of NumPy in it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np


class PinnedMemoryPointer(bytearray):
    """Pinned memory. It is a buffer, so `numpy.frombuffer` makes arrays of it."""

    @property
    def ptr(self) -> int:
        return ctypes.addressof(ctypes.c_char.from_buffer(self))

    @property
    def mem(self) -> PinnedMemoryPointer:
        return self

    def size(self) -> int:
        return len(self)


PinnedMemory = PinnedMemoryPointer


class PinnedMemoryPool:
    """A pool of pinned memory, which keeps nothing: Python's own allocator does."""

    def malloc(self, size: int) -> PinnedMemoryPointer:
        return PinnedMemoryPointer(size)

    def free_all_blocks(self) -> None:
        """Return at once: there are no free blocks."""

    def n_free_blocks(self) -> int:
        return 0


_pool = PinnedMemoryPool()
_allocator: Callable[[int], Any] = _pool.malloc


def get_default_pinned_memory_pool() -> PinnedMemoryPool:
    return _pool


def set_pinned_memory_allocator(allocator: Callable[[int], Any] | None = None) -> None:
    """Choose the allocator of pinned memory; None: the default one."""
    global _allocator
    _allocator = allocator or PinnedMemoryPointer


def alloc_pinned_memory(size: int) -> Any:
    """Allocate pinned memory."""
    return _allocator(size)


def empty_pinned(shape: Any, dtype: Any = float, order: str = "C") -> np.ndarray[Any, Any]:
    """Return an array of NumPy in pinned memory."""
    kind, count = np.dtype(dtype), int(np.prod(shape, dtype=np.int64))
    flat = np.frombuffer(alloc_pinned_memory(max(count * kind.itemsize, 1)), kind, count)
    return flat.reshape(shape, order=order)  # type: ignore[call-overload,no-any-return]


def zeros_pinned(shape: Any, dtype: Any = float, order: str = "C") -> np.ndarray[Any, Any]:
    """Return an array of zeros in pinned memory."""
    made = empty_pinned(shape, dtype, order)
    made.fill(0)
    return made


def empty_like_pinned(
    a: Any, dtype: Any = None, order: str = "K", subok: object = None, shape: Any = None
) -> np.ndarray[Any, Any]:
    """Return an array in pinned memory, of the shape and dtype of another."""
    fortran = order == "F" or (order in "AK" and a.flags.f_contiguous and not a.flags.c_contiguous)
    dims = a.shape if shape is None else shape
    return empty_pinned(dims, dtype or a.dtype, "F" if fortran else "C")


def zeros_like_pinned(a: Any, *args: Any, **options: Any) -> np.ndarray[Any, Any]:
    """Return an array of zeros in pinned memory, of the shape and dtype of another."""
    made = empty_like_pinned(a, *args, **options)
    made.fill(0)
    return made
