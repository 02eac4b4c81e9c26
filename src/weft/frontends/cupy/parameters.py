"""Declarations of parameters in CuPy's notation, `T x, raw float32 y`, and their C++."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.errors import ArgumentError
from weft.frontends.cupy.arrays import ndarray
from weft.frontends.cupy.host_objects import refuse_numpy

_DECLARATION = re.compile(r"(?:const\s+)?(?:(raw)\s+)?(?:const\s+)?(\w+)\s+(\w+)")
_C_NAMES = {
    "bool": "bool", "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int",
    "uint64": "unsigned long long", "float16": "__half", "float32": "float", "float64": "double",
    "complex64": "complex<float>", "complex128": "complex<double>",
}  # fmt: skip
_HEADERS = {"__half": "cuda_fp16.h", "float16": "cuda_fp16.h", "complex<": "cupy/complex.cuh"}
"""Words of a source -> the header that they need; others take time to compile."""

Types = Mapping[str, np.dtype[Any]]


@dataclass(frozen=True)
class Declared:
    """One parameter; `type` is a dtype's name or a placeholder such as T."""

    name: str
    type: str
    raw: bool

    @property
    def generic(self) -> bool:
        return self.type not in _C_NAMES

    def dtype(self, known: Types) -> np.dtype[Any]:
        """Return its dtype where the placeholders are known."""
        if self.generic and self.type not in known:
            raise ArgumentError(
                f"the type {self.type} of cupy parameter {self.name} is not known",
                next="pass an output array, or use a dtype such as float32 in the declaration",
            )
        return known.get(self.type) or np.dtype(self.type)


def read(text: str) -> tuple[Declared, ...]:
    """Return the parameters of a declaration."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    out = []
    for part in parts:
        match = _DECLARATION.fullmatch(part)
        if match is None:
            raise ArgumentError(
                "a parameter of a cupy kernel cannot be read",
                got=part,
                allowed="a dtype or a placeholder, and a name: 'float32 x', 'T y', 'raw T z'",
            )
        out.append(Declared(match[3], match[2], bool(match[1])))
    return tuple(out)


def checked_name(name: str) -> str:
    """Return the name of a kernel; raise for one that C++ does not allow."""
    if not (name.isascii() and name.isidentifier()):
        raise ValueError(
            f"Invalid kernel name: {name!r} of a cupy kernel is not an identifier of C++"
        )
    return name


def types(declared: Sequence[Declared], values: Sequence[Any]) -> dict[str, np.dtype[Any]]:
    """Return placeholder -> dtype, from the arrays; scalars decide only if no array does."""
    refuse_numpy(values)
    known: dict[str, np.dtype[Any]] = {}
    pairs = [(d, v) for d, v in zip(declared, values, strict=True) if v is not None]
    for parameter, value in pairs:
        if isinstance(value, ndarray):
            found: np.dtype[Any] = value.dtype
            wanted = known.setdefault(
                parameter.type, found if parameter.generic else np.dtype(parameter.type)
            )
            if wanted != found:
                raise TypeError(
                    f"Type is mismatched. {parameter.name} {found.name} {wanted.name}: "
                    f"a cupy kernel has declared it {parameter.type}"
                )
    for parameter, value in pairs:
        if parameter.generic and not isinstance(value, ndarray):
            known.setdefault(parameter.type, np.asarray(value).dtype)
    return {name: dtype for name, dtype in known.items() if name not in _C_NAMES}


def c_name(type: str | np.dtype[Any]) -> str:
    """Return the C++ type of a dtype."""
    name = type if isinstance(type, str) else type.name
    if name not in _C_NAMES:
        allowed = ", ".join(_C_NAMES)
        raise ArgumentError("a dtype has no C++ type in a cupy kernel", got=name, allowed=allowed)
    return _C_NAMES[name]


def with_types(source: str, known: Types) -> str:
    """Begin a source with the headers it needs, and with the placeholders as types."""
    typedefs = "".join(f"typedef {c_name(d)} {t};\n" for t, d in known.items())
    dtypes = "".join(
        f"typedef {c} {n};\n" for n, c in _C_NAMES.items() if n != c and _mentions(source, n)
    )
    headers = {h for word, h in _HEADERS.items() if word in source + typedefs + dtypes}
    lines = "".join(f"#include <{h}>\n" for h in ("cupy/carray.cuh", *sorted(headers)))
    return f"{lines}{dtypes}{typedefs}{source}"


def _mentions(source: str, word: str) -> bool:
    return re.search(rf"\b{word}\b", source) is not None


def lengths(shape: Iterable[int]) -> np.ndarray[Any, Any]:
    """Return the axes of an array and its number of elements, as kernels take them."""
    axes = list(shape)
    return np.array([*axes, np.prod(axes, dtype=np.int64)], np.int64)
