"""The two devices under comparison, behind one call: a module's kernel on arrays, in place."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

import weft

Shape = tuple[int, int, int]
Argument = np.ndarray | np.unsignedinteger[Any]
DEVICE = 0


class Loaded(Protocol):
    """A module on a device."""

    def run(self, entry: str, grid: Shape, block: Shape, arguments: Sequence[Argument]) -> None:
        """Launches and waits; arrays hold afterwards what the kernel left."""


class Simulated:
    """PTX on the simulated GPU."""

    def __init__(self, text: str) -> None:
        self._module = weft.load_ptx(text, device="sim:h200")

    def run(self, entry: str, grid: Shape, block: Shape, arguments: Sequence[Argument]) -> None:
        given = [x if isinstance(x, np.ndarray) else int(x) for x in arguments]
        self._module.kernel(entry)[grid, block](*given)


class Real:
    """PTX or machine code on the first GPU of this machine."""

    def __init__(self, image: str | bytes) -> None:
        from weft.device import gpu

        self._module = gpu.load(image, DEVICE)

    def run(self, entry: str, grid: Shape, block: Shape, arguments: Sequence[Argument]) -> None:
        from weft.device import driver

        params, held = b"", list[tuple[np.ndarray, ctypes.c_uint64]]()
        with driver.current(DEVICE):
            for x in arguments:
                if isinstance(x, np.ndarray):
                    place = _place(x)
                    held.append((x, place))
                    params = _padded(params, 8) + struct.pack("<Q", place.value)
                else:
                    params = _padded(params, x.itemsize) + x.tobytes()
            self._module.launch(entry, params, grid, block)
            lib = driver.library()
            for x, place in held:
                size = ctypes.c_size_t(x.nbytes)
                target = ctypes.c_void_p(x.ctypes.data)
                driver.check(lib.cuMemcpyDtoH_v2(target, place, size), f"{entry} was run")
                driver.check(lib.cuMemFree_v2(place), "memory was freed")


def _place(x: np.ndarray) -> ctypes.c_uint64:
    """A copy of an array on the GPU."""
    from weft.device import driver

    lib, place, size = driver.library(), ctypes.c_uint64(), ctypes.c_size_t(x.nbytes)
    driver.check(lib.cuMemAlloc_v2(ctypes.byref(place), size), "memory was taken")
    source = ctypes.c_void_p(x.ctypes.data)
    driver.check(lib.cuMemcpyHtoD_v2(place, source, size), "an array was copied")
    return place


def _padded(params: bytes, align: int) -> bytes:
    return params + bytes(-len(params) % align)
