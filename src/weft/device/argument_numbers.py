"""Numbers among the arguments of a launch: checked and packed as C++ converts them."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.device import ctypes_table
from weft.device.ctypes_table import CType
from weft.device.summary import ParameterSummary
from weft.errors import ArgumentError

INTEGERS = {
    "b": (-(2**7), 2**7 - 1), "B": (0, 2**8 - 1), "h": (-(2**15), 2**15 - 1),
    "H": (0, 2**16 - 1), "i": (-(2**31), 2**31 - 1), "I": (0, 2**32 - 1),
    "q": (-(2**63), 2**63 - 1), "Q": (0, 2**64 - 1), "?": (0, 1),
}  # fmt: skip
"""Format of `struct` -> the least and the most that it takes."""
UNSIGNED = {1: "B", 2: "H", 4: "I", 8: "Q"}
"""Bytes -> the format of an unsigned integer."""
_SMALL: dict[str, type[np.floating[Any]]] = {"e": np.float16, "f": np.float32}

Fail = Callable[..., ArgumentError]
"""Makes the error about one argument: what is wrong, and the other parts of the message."""


def packed(value: Any, want: CType | None, param: ParameterSummary, fail: Fail) -> bytes:
    """Return the bytes of a number for its parameter; raise for one that does not fit."""
    # `struct` has no format for bfloat16.
    if want is not None and want.dtypes == ("bfloat16", "uint16"):
        return struct.pack("<H", ctypes_table.to_bfloat16(_float(value, fail)))
    code = want.format if want is not None else _format(param, value)
    if code in INTEGERS:
        return struct.pack(
            "<" + code, _whole(value, code, want.spelling if want else param.type, fail)
        )
    if code in _SMALL:  # NumPy rounds what is too large to infinity, as C++ does
        with np.errstate(over="ignore"):
            return _SMALL[code](_float(value, fail)).tobytes()
    return struct.pack("<" + code, _float(value, fail))


def _whole(value: Any, code: str, spelling: str, fail: Fail) -> int:
    """A number as an integer; raise for a fraction, and for one that is out of range."""
    low, high = INTEGERS[code]
    if isinstance(value, float | np.floating) and (not math.isfinite(value) or value != int(value)):
        raise fail("is an integer parameter", got=repr(value), allowed="a whole number")
    number = int(value)
    if not low <= number <= high:
        raise fail(
            f"{_shown(number)} does not fit {spelling}",
            got=_shown(number),
            allowed=f"{low} to {high}",
        )
    return number


def _float(value: Any, fail: Fail) -> float:
    """A number as a double; raise for an integer that is too large for one."""
    try:
        return float(value)
    except OverflowError:
        raise fail(
            "is too large for a floating-point number",
            got=_shown(value),
            allowed=f"up to {np.finfo(np.float64).max:.4g}",
            next="pass float('inf') for infinity",
        ) from None


def _shown(number: int) -> str:
    """The digits of a number, or its number of bits where the digits would fill pages."""
    bits = number.bit_length()
    return str(number) if bits <= 64 else f"an integer of {bits} bits"


def _format(param: ParameterSummary, value: Any) -> str:
    """The `struct` format of a number when only the PTX type is known."""
    if param.type == "f32":
        return "f"
    if param.type == "f64":
        return "d"
    if isinstance(value, float | np.floating):
        return {4: "f", 8: "d", 2: "e"}.get(param.size, "f")
    signed = isinstance(value, int | np.integer) and int(value) < 0
    code = UNSIGNED[param.size]
    return code.lower() if signed else code
