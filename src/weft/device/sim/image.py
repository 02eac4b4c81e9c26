"""A module's own memory: its `.global` and `.const` variables, with their initial values."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import PtxError
from weft.ptx.model import Module, Variable

ALIGN = 256


class Image:
    """Global and constant variables of a loaded module; lives as long as the module does."""

    def __init__(self, module: Module, function_ids: dict[str, int]) -> None:
        self.offsets: dict[str, tuple[str, int]] = {}
        sizes = {"global": 0, "const": 0}
        for v in module.variables.values():
            if v.space in sizes:
                start = -(-sizes[v.space] // v.align) * v.align
                self.offsets[v.name] = (v.space, start)
                sizes[v.space] = start + v.size
        self._arrays = {s: np.zeros(n + ALIGN, np.uint8) for s, n in sizes.items()}
        self.base = {s: -(-a.ctypes.data // ALIGN) * ALIGN for s, a in self._arrays.items()}
        self.size = sizes
        self._function_ids = function_ids
        for v in module.variables.values():
            if v.space in sizes:
                self._fill(v)

    def address(self, name: str) -> int:
        """Where a variable is."""
        space, offset = self.offsets[name]
        return self.base[space] + offset

    def view(self, name: str, size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """A variable's memory as an array."""
        space, offset = self.offsets[name]
        array = self._arrays[space]
        at = self.base[space] - array.ctypes.data + offset
        return array[at : at + size].view(dtype)

    def _fill(self, v: Variable) -> None:
        space, offset = self.offsets[v.name]
        array = self._arrays[space]
        at = self.base[space] - array.ctypes.data + offset
        if v.init:
            array[at : at + len(v.init)] = np.frombuffer(v.init, np.uint8)
        for where, symbol, addend, _ in v.relocations:
            if symbol in self.offsets:
                value = self.address(symbol) + addend
            elif symbol in self._function_ids:
                value = self._function_ids[symbol]
            else:
                raise PtxError(
                    f"the initial value of '{v.name}' needs '{symbol}', which has no address"
                )
            packed = np.frombuffer(struct.pack("<Q", value & (2**64 - 1)), np.uint8)
            array[at + where : at + where + 8] = packed
