"""Values of C++ types: from bytes and back, and as text."""

from __future__ import annotations

import struct

import numpy as np

from weft.errors import Error
from weft.ptx.debug_info import Kind, Type
from weft.records import dataclass

SHOWN = 32
"""Elements of an array that are shown."""
_FLOATS = {2: "<e", 4: "<f", 8: "<d"}
_SCALARS = (Kind.INTEGER, Kind.BOOLEAN, Kind.FLOAT, Kind.POINTER, Kind.UNKNOWN)

Number = int | float


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a thread: the number of a scalar, the bytes of a structure or an array.

    address, register  its place; a result of an operator has none
    """

    type: Type
    number: Number | None = None
    data: bytes = b""
    address: int | None = None
    register: str = ""

    def __str__(self) -> str:
        return text(self)

    @property
    def python(self) -> object:
        """A number, a list or a dict."""
        return as_python(self.type, self.data) if self.number is None else self.number


def is_scalar(type: Type) -> bool:
    return type.kind in _SCALARS


def decode(type: Type, data: bytes) -> Number:
    """The number that bytes of a scalar type stand for."""
    if type.kind is Kind.FLOAT and type.size in _FLOATS:
        return float(struct.unpack(_FLOATS[type.size], data[: type.size])[0])
    size = type.size or 4
    return int.from_bytes(data[:size], "little", signed=type.signed)


def encode(type: Type, number: Number) -> bytes:
    """The bytes of a number; raise where the type has no such number."""
    if type.kind is Kind.FLOAT and type.size in _FLOATS:
        return struct.pack(_FLOATS[type.size], number)
    if not isinstance(number, int) and number != int(number):
        raise Error(f"a {type.name} holds whole numbers", got=repr(number))
    size, whole = type.size or 4, int(number)
    low = -(1 << 8 * size - 1) if type.signed else 0
    high = (1 << 8 * size - (1 if type.signed else 0)) - 1
    if not low <= whole <= high:
        raise Error(
            f"the number does not fit a {type.name}", got=str(whole), allowed=f"{low} to {high}"
        )
    return (whole & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def as_python(type: Type, data: bytes) -> object:
    """A value as a number, a list or a dict, e.g. for JSON."""
    if type.kind is Kind.STRUCT:
        return {f.name: as_python(f.type, data[f.offset :][: f.type.size]) for f in type.fields}
    if type.kind is Kind.ARRAY and type.of is not None:
        size = type.of.size
        return [as_python(type.of, data[i * size : (i + 1) * size]) for i in range(type.count)]
    return decode(type, data)


def text(value: Value) -> str:
    """A value as C++ would initialise it."""
    if value.number is not None:
        return _scalar(value.type, value.number)
    return _text(value.type, value.data)


def _text(type: Type, data: bytes) -> str:
    if type.kind is Kind.STRUCT:
        parts = [
            f"{f.name} = {_text(f.type, data[f.offset :][: f.type.size])}" for f in type.fields
        ]
        return "{" + ", ".join(parts) + "}"
    if type.kind is Kind.ARRAY and type.of is not None:
        size, count = type.of.size, min(type.count, SHOWN)
        parts = [_text(type.of, data[i * size : (i + 1) * size]) for i in range(count)]
        more = [f"… {type.count - count} more"] if type.count > count else []
        return "{" + ", ".join([*_runs(parts), *more]) + "}"
    return _scalar(type, decode(type, data))


def _runs(parts: list[str]) -> list[str]:
    """Equal neighbours are shown once, with their number."""
    out: list[str] = []
    at = 0
    while at < len(parts):
        end = at
        while end < len(parts) and parts[end] == parts[at]:
            end += 1
        out.append(parts[at] if end - at == 1 else f"{parts[at]} ({end - at} times)")
        at = end
    return out


def _scalar(type: Type, number: Number) -> str:
    if type.kind is Kind.BOOLEAN:
        return "true" if number else "false"
    if type.kind is Kind.POINTER:
        return f"{int(number):#x}"
    if type.kind is Kind.FLOAT and type.size == 4:
        return str(np.float32(number))
    return str(number)
