"""Memory of the device, memory pools, and allocators."""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from weft.device.models import GpuModel
from weft.frontends.cupy.current import model

_UNIT = 512
"""Sizes of a pool's blocks are multiples of it, as in CuPy."""


class OutOfMemoryError(MemoryError):
    """A pool has reached its limit."""


class Memory:
    """Memory of the device. Its pages are not used before they are written."""

    def __init__(self, size: int, pool: MemoryPool | None = None) -> None:
        self.size, self._pool = size, pool
        self._bytes: np.ndarray[Any, Any] | None = None
        self.device_id = 0

    def adopt(self, array: np.ndarray[Any, Any]) -> None:
        """Become the memory of an array, which is kept alive."""
        self._array, self._bytes = array, _flat_bytes(array)

    @property
    def bytes(self) -> np.ndarray[Any, Any]:
        """The memory as an array."""
        if self._bytes is None:
            self._bytes = np.empty(self.size, np.uint8)
        return self._bytes

    @property
    def ptr(self) -> int:
        exposed[id(self)] = self
        return int(self.bytes.ctypes.data)

    def __int__(self) -> int:
        return self.ptr

    def __del__(self) -> None:
        if self._pool is not None:
            self._pool._put(self.size)


class UnownedMemory(Memory):
    """Memory that another library owns; `owner` keeps it alive."""

    def __init__(self, ptr: int, size: int, owner: object, device_id: int = -1) -> None:
        super().__init__(size)
        self._owner = owner
        self._bytes = _at(ptr, size)


exposed: weakref.WeakValueDictionary[int, Memory] = weakref.WeakValueDictionary()
"""Memory whose address the program has read."""


class MemoryPointer:
    """An address in memory of the device."""

    def __init__(self, mem: Memory, offset: int) -> None:
        self.mem, self.offset = mem, offset

    @property
    def ptr(self) -> int:
        return self.mem.ptr + self.offset

    @property
    def device_id(self) -> int:
        return self.mem.device_id

    def __int__(self) -> int:
        return self.ptr

    def __add__(self, offset: int) -> MemoryPointer:
        return MemoryPointer(self.mem, self.offset + offset)

    __radd__ = __add__

    def __sub__(self, offset: int) -> MemoryPointer:
        return self + -offset

    def copy_from_device(self, source: MemoryPointer, size: int) -> None:
        ctypes.memmove(self.ptr, int(source), size)

    def copy_from_host(self, mem: Any, size: int) -> None:
        ctypes.memmove(self.ptr, _host_address(mem), size)

    def copy_to_host(self, mem: Any, size: int) -> None:
        ctypes.memmove(_host_address(mem), self.ptr, size)

    def copy_from(self, mem: Any, size: int) -> None:
        ctypes.memmove(self.ptr, _host_address(mem), size)

    def memset(self, value: int, size: int) -> None:
        ctypes.memset(self.ptr, value, size)

    def copy_from_device_async(self, source: MemoryPointer, size: int, stream: Any = None) -> None:
        self.copy_from_device(source, size)

    def copy_from_host_async(self, mem: Any, size: int, stream: object = None) -> None:
        self.copy_from_host(mem, size)

    def copy_to_host_async(self, mem: Any, size: int, stream: object = None) -> None:
        self.copy_to_host(mem, size)

    def copy_from_async(self, mem: Any, size: int, stream: object = None) -> None:
        self.copy_from(mem, size)

    def memset_async(self, value: int, size: int, stream: object = None) -> None:
        self.memset(value, size)


def _host_address(mem: Any) -> int:
    return int(mem.ctypes.data) if isinstance(mem, np.ndarray) else int(getattr(mem, "value", mem))


Allocator = Callable[[int], MemoryPointer]


class MemoryPool:
    """A pool that keeps freed blocks for later arrays."""

    def __init__(self, allocator: Allocator | None = None) -> None:
        self._free: list[int] = []
        self._used = self._limit = 0

    def malloc(self, size: int) -> MemoryPointer:
        """Take a free block that is large enough, else a new one."""
        size = -(-size // _UNIT) * _UNIT
        at = bisect.bisect_left(self._free, size)
        if at < len(self._free):
            rest = self._free.pop(at) - size
            if rest:
                bisect.insort(self._free, rest)
        elif self._limit and self.total_bytes() + size > self._limit:
            self.free_all_blocks()
            if self._used + size > self._limit:
                raise OutOfMemoryError(
                    f"Out of memory allocating {size:,} bytes (allocated so far: {self._used:,} "
                    f"bytes, limit set to: {self._limit:,} bytes)."
                )
        self._used += size
        return MemoryPointer(Memory(size, self), 0)

    def _put(self, size: int) -> None:
        self._used -= size
        bisect.insort(self._free, size)

    def free_all_blocks(self, stream: object = None) -> None:
        """Release all free blocks."""
        self._free.clear()

    def free_all_free(self) -> None:
        self.free_all_blocks()

    def n_free_blocks(self) -> int:
        return len(self._free)

    def used_bytes(self) -> int:
        return self._used

    def free_bytes(self) -> int:
        return sum(self._free)

    def total_bytes(self) -> int:
        return self._used + self.free_bytes()

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        """Limit the total bytes, as a number or as a fraction of the GPU's memory; 0: no limit."""
        if (size is None) == (fraction is None):
            raise ValueError("specify size or fraction, not both")
        self._limit = int(model().memory * fraction) if fraction is not None else int(size or 0)

    def get_limit(self) -> int:
        return self._limit


class MemoryAsyncPool(MemoryPool):
    """The stream-ordered pool: the same, as all work is complete."""


class PythonFunctionAllocator:
    """An allocator of two functions: malloc(size, device) -> address, free(address, device)."""

    def __init__(self, malloc: Callable[[int, int], int], free: Callable[[int, int], None]) -> None:
        self._malloc, self._release = malloc, free

    def malloc(self, size: int) -> MemoryPointer:
        address = self._malloc(size, 0)
        mem = UnownedMemory(address, size, self)
        weakref.finalize(mem, self._release, address, 0)
        return MemoryPointer(mem, 0)


def malloc(size: int) -> MemoryPointer:
    """Allocate memory without a pool."""
    return MemoryPointer(Memory(size), 0)


malloc_managed = malloc_async = malloc
_pool = MemoryPool()
_allocator: Allocator = _pool.malloc


def get_default_memory_pool() -> MemoryPool:
    """Return the pool that arrays use unless `set_allocator` chose another."""
    return _pool


def alloc(size: int) -> MemoryPointer:
    """Allocate memory with the current allocator."""
    return _allocator(size)


def set_allocator(allocator: Allocator | None = None) -> None:
    """Choose the allocator of later arrays; None: without a pool."""
    global _allocator
    _allocator = allocator or malloc


def get_allocator() -> Allocator:
    return _allocator


@contextlib.contextmanager
def using_allocator(allocator: Allocator | None = None) -> Iterator[None]:
    """Choose the allocator within a `with` block."""
    before = get_allocator()
    set_allocator(allocator)
    try:
        yield
    finally:
        set_allocator(before)


def _flat_bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """View the memory of an array as bytes."""
    flags = array.flags
    if flags.c_contiguous or flags.f_contiguous:
        return np.ndarray(array.nbytes, np.uint8, array if flags.c_contiguous else array.T)
    low, high = np.lib.array_utils.byte_bounds(array)
    return _at(low, high - low)


def _at(address: int, size: int) -> np.ndarray[Any, Any]:
    """View memory as bytes; its owner must be kept alive."""
    memory: Any = (ctypes.c_char * size).from_address(address)
    return np.ndarray(size, np.uint8, memory)


def memory_info(gpu: GpuModel) -> tuple[int, int]:
    """Return the free and the total bytes of a GPU."""
    return max(gpu.memory - _pool.total_bytes(), 0), gpu.memory
