"""A module's own memory: its `.global` and `.const` variables, with their initial values.

The instances of a template are compiled one by one, yet belong to one source: they share an image,
which has each variable once. Compiled code finds variables by a table of addresses.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.device.summary import ModuleSummary, VariableSummary
from weft.errors import LaunchError, PtxError
from weft.records import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALIGN = 256
CONST_BYTES = 1 << 20
"""The size of the window of constant variables; 64 KiB for each compilation on a GPU."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A variable, its location, and the numbers of the functions it points to at first."""

    variable: VariableSummary
    address: int
    functions: tuple[int, ...]


class _Chunk:
    """Memory in which variables are placed one after the other."""

    def __init__(self, nbytes: int) -> None:
        self.array = np.zeros(nbytes + ALIGN, np.uint8)
        self.base = -(-self.array.ctypes.data // ALIGN) * ALIGN
        self.room, self.used = nbytes, 0

    def take(self, v: VariableSummary) -> int | None:
        start = -(-self.used // v.align) * v.align
        if start + v.size > self.room:
            return None
        self.used = start + v.size
        return self.base + start


class VariableImage:
    """Global and constant variables; lives as long as any module that was placed in it.

    `rows` are the numbers that it adds to a launch's table of allocations.
    """

    def __init__(self) -> None:
        self.placed: dict[str, Placed] = {}
        self.rows: list[int] = []
        self.lock = threading.Lock()
        self._const = _Chunk(0)
        self._globals: list[_Chunk] = []

    @property
    def const(self) -> tuple[int, int]:
        """Start and size of the window of constant variables."""
        return self._const.base, self._const.used

    def place(self, summary: ModuleSummary) -> NDArray[np.int64]:
        """The address of each of a module's variables, in its order; new ones are made."""
        variables, ids = summary.variables, summary.functions
        placed = self._placed_before(variables, ids)
        new = [v for v in variables if v.name not in placed]
        addresses = {**placed, **self._make(new)}
        for v in new:
            functions = _functions(v, ids)
            self.placed[v.name] = Placed(v, addresses[v.name], functions)
            self._fill(v, addresses, ids)
        chunks = [(c, 1) for c in self._globals] + [(self._const, 0)]
        rows = ((c.base, c.used, writable, 0) for c, writable in chunks if c.used)
        self.rows = [number for row in rows for number in row]
        return np.array([addresses[v.name] for v in variables], np.int64)

    def view(self, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        """A variable's memory as an array."""
        v = self.placed[name].variable
        if v.size % dtype.itemsize:
            raise LaunchError(
                f"'{name}' is no array of {dtype}", got=f"{v.size} bytes", next="pass its dtype"
            )
        return self._bytes(self.placed[name].address, v.size).view(dtype)

    def _placed_before(
        self, variables: Sequence[VariableSummary], ids: Mapping[str, int]
    ) -> dict[str, int]:
        """The variables of an earlier module with the same name and the same initial value."""
        same = {
            v.name: self.placed[v.name].address
            for v in variables
            if v.name in self.placed
            and self.placed[v.name].variable == v
            and self.placed[v.name].functions == _functions(v, ids)
        }
        # A variable that points to one that is not shared cannot be shared either; this goes on
        # along the pointers.
        while apart := [v.name for v in variables if v.name in same and _points_away(v, same, ids)]:
            for name in apart:
                del same[name]
        return same

    def _make(self, new: list[VariableSummary]) -> dict[str, int]:
        addresses = {}
        for space in ("global", "const"):
            variables = [v for v in new if v.space == space]
            need = sum(v.size + v.align for v in variables)
            if variables and space == "global":
                self._globals.append(_Chunk(need))
            # Constant variables are one window for `isspacep`, so its size is settled with the
            # first of them. Every module gets global memory of its own.
            elif variables and not self._const.room:
                self._const = _Chunk(max(CONST_BYTES, need))
            for v in variables:
                address = (self._globals[-1] if space == "global" else self._const).take(v)
                if address is None:
                    raise PtxError(
                        "the constant variables of all instances need too much memory",
                        got=f"'{v.name}' of {v.size} bytes",
                        allowed=f"{self._const.room} bytes in all",
                    )
                addresses[v.name] = address
        return addresses

    def _bytes(self, address: int, size: int) -> NDArray[np.uint8]:
        chunk = next(c for c in (self._const, *self._globals) if 0 <= address - c.base <= c.room)
        at = address - chunk.array.ctypes.data
        return chunk.array[at : at + size]

    def _fill(self, v: VariableSummary, addresses: dict[str, int], ids: Mapping[str, int]) -> None:
        memory = self._bytes(addresses[v.name], v.size)
        memory[: len(v.init)] = np.frombuffer(v.init, np.uint8)
        for where, symbol, addend in v.relocations:
            if symbol in addresses:
                value = addresses[symbol] + addend
            elif symbol in ids:
                value = ids[symbol]
            else:
                raise PtxError(
                    f"the initial value of '{v.name}' needs '{symbol}', which has no address"
                )
            packed = np.frombuffer(struct.pack("<Q", value & (2**64 - 1)), np.uint8)
            memory[where : where + 8] = packed


def _functions(v: VariableSummary, ids: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(ids[symbol] for _, symbol, _ in v.relocations if symbol in ids)


def _points_away(v: VariableSummary, same: dict[str, int], ids: Mapping[str, int]) -> bool:
    """Return whether it points to a variable of its own module only."""
    return any(symbol not in same and symbol not in ids for _, symbol, _ in v.relocations)
