"""Declarations of parameters in CuPy's notation: `T x, raw float32 y`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.errors import ArgumentError

_DECLARATION = re.compile(r"(?:(raw)\s+)?(\w+)\s+(\w+)")
_C_NAMES = {
    "bool": "bool", "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int",
    "uint64": "unsigned long long", "float16": "__half", "float32": "float", "float64": "double",
    "complex64": "float2", "complex128": "double2",
}  # fmt: skip
HEAD = "#include <cuda_fp16.h>\n"


@dataclass(frozen=True)
class Declared:
    """One parameter; `type` is a dtype's name or a placeholder such as T."""

    name: str
    type: str
    raw: bool

    @property
    def generic(self) -> bool:
        return self.type not in _C_NAMES


def read(text: str) -> tuple[Declared, ...]:
    """The parameters of a declaration."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    out = []
    for part in parts:
        match = _DECLARATION.fullmatch(part)
        if match is None:
            raise ArgumentError(
                "a parameter of a kernel cannot be read",
                got=part,
                allowed="a dtype or a placeholder, and a name: 'float32 x', 'T y', 'raw T z'",
            )
        out.append(Declared(match[3], match[2], bool(match[1])))
    return tuple(out)


def types(declared: Sequence[Declared], values: Sequence[Any]) -> dict[str, np.dtype[Any]]:
    """Placeholder -> dtype, from the arrays; scalars decide only if no array does."""
    known: dict[str, np.dtype[Any]] = {}
    pairs = [(d, v) for d, v in zip(declared, values, strict=True) if v is not None and d.generic]
    for array in (True, False):
        for parameter, value in pairs:
            if isinstance(value, np.ndarray) is array:
                known.setdefault(parameter.type, np.asarray(value).dtype)
    return known


def c_name(type: str | np.dtype[Any]) -> str:
    """The C++ type of a dtype."""
    name = type if isinstance(type, str) else type.name
    if name not in _C_NAMES:
        raise ArgumentError("no type of C++ for this dtype", got=name, allowed=", ".join(_C_NAMES))
    return _C_NAMES[name]
