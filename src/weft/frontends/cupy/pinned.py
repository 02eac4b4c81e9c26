"""Pinned memory of the host, which is ordinary memory here, and arrays of NumPy in it."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from typing import Any

import numpy as np


class PinnedMemoryPointer(mmap.mmap):
    """Pinned memory. It is a buffer, so `numpy.frombuffer` makes arrays of it."""

    def __new__(cls, size: int) -> PinnedMemoryPointer:
        return super().__new__(cls, -1, max(size, 1))

    @property
    def ptr(self) -> int:
        return ctypes.addressof(ctypes.c_char.from_buffer(self))

    @property
    def mem(self) -> PinnedMemoryPointer:
        return self

    def __int__(self) -> int:
        return self.ptr

    def size(self) -> int:
        return len(self)


PinnedMemory = PinnedMemoryPointer


class PinnedMemoryPool:
    """A pool of pinned memory that keeps nothing: free memory is the system's."""

    def __init__(self, allocator: Callable[[int], Any] = PinnedMemoryPointer) -> None:
        self._allocate = allocator

    def malloc(self, size: int) -> Any:
        return self._allocate(size)

    def free_all_blocks(self) -> None:
        """Return at once: there are no free blocks."""

    def n_free_blocks(self) -> int:
        return 0


_pool = PinnedMemoryPool()
_allocator: Callable[[int], Any] = _pool.malloc


def get_default_pinned_memory_pool() -> PinnedMemoryPool:
    return _pool


def set_pinned_memory_allocator(allocator: Callable[[int], Any] | None = None) -> None:
    """Choose the allocator of pinned memory; None: without a pool."""
    global _allocator
    _allocator = allocator or PinnedMemoryPointer


def alloc_pinned_memory(size: int) -> Any:
    """Allocate pinned memory."""
    return _allocator(size)


def is_pinned(array: Any) -> bool:
    """True if the memory of an array of NumPy is pinned."""
    base: Any = array
    while isinstance(base, np.ndarray | memoryview):
        base = base.obj if isinstance(base, memoryview) else base.base
    return isinstance(base, PinnedMemoryPointer)


def _pinned(like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array with the layout of another; the memory of that one is never touched."""
    mem = alloc_pinned_memory(like.nbytes)
    return np.ndarray(like.shape, like.dtype, mem, strides=like.strides)


def empty_pinned(shape: Any, dtype: Any = float, order: str = "C") -> np.ndarray[Any, Any]:
    """Return an array of NumPy in pinned memory."""
    return _pinned(np.empty(shape, dtype, order))  # type: ignore[call-overload]


def zeros_pinned(shape: Any, dtype: Any = float, order: str = "C") -> np.ndarray[Any, Any]:
    """Return an array of zeros in pinned memory."""
    made = empty_pinned(shape, dtype, order)
    made.fill(0)
    return made


def empty_like_pinned(
    a: Any, dtype: Any = None, order: str = "K", subok: object = None, shape: Any = None
) -> np.ndarray[Any, Any]:
    """Return an array in pinned memory, of the layout and dtype of another."""
    if subok is not None:
        raise TypeError("subok is not supported yet")
    host = getattr(a, "_host", a)
    return _pinned(np.empty_like(host, dtype, order, False, shape))  # type: ignore[call-overload]


def zeros_like_pinned(a: Any, *args: Any, **options: Any) -> np.ndarray[Any, Any]:
    """Return an array of zeros in pinned memory, of the layout and dtype of another."""
    made = empty_like_pinned(a, *args, **options)
    made.fill(0)
    return made
