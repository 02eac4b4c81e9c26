"""Memory that was allocated and not written yet: which words a kernel or the host has filled.

`weft.sanitizer.empty` and the allocator of programs register their allocations. The sanitizer
reports kernels that read a word before it is written. `filled` announces writes by the host.
Memory that is freed is forgotten.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from bisect import bisect_right, insort
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Marks = NDArray[np.uint8]
_lock = threading.Lock()
_starts: list[int] = []
_unwritten: dict[int, tuple[int, NDArray[np.uint8]]] = {}
"""First address -> (bytes, one byte per word whose low four bits mark the written bytes)."""
_FULL = 15


def register(address: int, nbytes: int) -> None:
    """Register memory of which nothing has been written."""
    with _lock:
        if address not in _unwritten:
            insort(_starts, address)
        _unwritten[address] = nbytes, np.zeros(nbytes // 4 + 2, np.uint8)


def forget(address: int) -> None:
    """Remove memory that has been freed."""
    with _lock:
        if _unwritten.pop(address, None) is not None:
            _starts.remove(address)


def filled(address: int, nbytes: int) -> None:
    """Mark bytes that the host has written."""
    _mark(address, nbytes, np.bitwise_or)


def copied(to: int, source: int, nbytes: int) -> None:
    """Copy the marks of copied bytes."""
    words = marks(source, nbytes)
    with _lock:
        start = _before(to)
        if start is None:
            return
        target = _unwritten[start][1][(to - start) // 4 : -(-(to - start + nbytes) // 4)]
        if words is not None and (to - source) % 4 == 0 and len(words) == len(target):
            target[:] = words
        else:
            # Marks of words cannot move by a part of a word. What counts as filled is never
            # reported.
            target[:] = _FULL


def marks(address: int, nbytes: int) -> NDArray[np.uint8] | None:
    """The written bytes of each word as bits; None when the memory is not registered."""
    with _lock:
        start = _before(address)
        if start is None:
            return None
        first = address - start
        return _unwritten[start][1][first // 4 : -(-(first + nbytes) // 4)]


def unless_changed(address: int, nbytes: int, byte: int) -> None:
    """Register memory that its allocator filled with one byte: words that hold it are unwritten."""
    with _lock:
        registered = _unwritten.get(address)
    if registered is None or registered[0] != nbytes:
        register(address, nbytes)
    words = np.ctypeslib.as_array((ctypes.c_uint32 * (nbytes // 4)).from_address(address))
    with _lock:
        _unwritten[address][1][: len(words)] |= _FULL * (words != byte * 0x01010101).astype(
            np.uint8
        )


def emptied(address: int, nbytes: int) -> None:
    """Mark bytes of registered memory as unwritten, since they are allocated again."""
    _mark(address, nbytes, lambda old, bits: old & ~bits)


def known(address: int) -> bool:
    """Return whether it is the start of registered memory."""
    return address in _unwritten


def _mark(address: int, nbytes: int, change: Callable[[Marks, Marks], Marks]) -> None:
    with _lock:
        start = _before(address)
        if start is None or not nbytes:
            return
        first, end = address - start, address - start + nbytes
        marks = _unwritten[start][1][first // 4 : -(-end // 4)]
        bits = np.full(len(marks), _FULL, np.uint8)
        # The range may begin and end inside a word.
        bits[0] &= _FULL << first % 4
        bits[-1] &= _FULL >> -end % 4
        marks[:] = change(marks, bits)


def bytes_at(low: int, high: int) -> int:
    """The address of the marks of the words from `low` on; 0 when the memory is not registered."""
    with _lock:
        start = _before(low)
        if start is None or high > start + _unwritten[start][0] + 4:
            return 0
        return int(_unwritten[start][1].ctypes.data) + (low - start) // 4


def _before(address: int) -> int | None:
    at = bisect_right(_starts, address) - 1
    if at < 0 or address >= _starts[at] + _unwritten[_starts[at]][0]:
        return None
    return _starts[at]


def watch(array: NDArray[np.generic]) -> None:
    """Registers an array's memory until the array is gone."""
    address = int(array.ctypes.data)
    register(address, array.nbytes)
    weakref.finalize(array, forget, address)
