"""C++ parameter types as a launch sees them: which arrays and which scalars fit."""

from __future__ import annotations

import struct

from weft.records import dataclass

_SCALARS = {
    "bool": ("bool", "?"),
    "char": ("int8", "b"),
    "signed char": ("int8", "b"),
    "unsigned char": ("uint8", "B"),
    "short": ("int16", "h"),
    "unsigned short": ("uint16", "H"),
    "int": ("int32", "i"),
    "unsigned int": ("uint32", "I"),
    "unsigned": ("uint32", "I"),
    # 64 bits, as on Linux: device code has the sizes of the host's ABI.
    "long": ("int64", "q"),
    "unsigned long": ("uint64", "Q"),
    "long long": ("int64", "q"),
    "unsigned long long": ("uint64", "Q"),
    "float": ("float32", "f"),
    "double": ("float64", "d"),
    "__half": ("float16", "e"),
    "half": ("float16", "e"),
    "__nv_bfloat16": ("bfloat16", ""),
    "nv_bfloat16": ("bfloat16", ""),
}
"""C++ spelling -> (dtype name, struct format)."""

_VECTORS = {
    "char": "int8", "uchar": "uint8", "short": "int16", "ushort": "uint16", "int": "int32",
    "uint": "uint32", "long": "int64", "ulong": "uint64", "longlong": "int64",
    "ulonglong": "uint64", "float": "float32", "double": "float64",
}  # fmt: skip

_SAME_BITS = {
    "int8": {"uint8", "bool"}, "uint8": {"int8", "bool"}, "bool": {"uint8", "int8"},
    "float32": set(), "bfloat16": {"uint16"}, "float16": set(),
}  # fmt: skip
"""Other dtypes that a pointer may point at because people use them for the same thing."""

_COMPLEX = {"float2": "complex64", "double2": "complex128"}


@dataclass(frozen=True, slots=True)
class CType:
    """A parameter type taken apart; `dtypes` is empty when any array fits."""

    spelling: str
    pointer: bool
    const: bool
    dtypes: tuple[str, ...]
    format: str


def parse(spelling: str) -> CType:
    """Parse a demangled type: `float const*`, `unsigned int`, `float4*`, `Params`."""
    text = spelling.strip()
    pointer = text.endswith(("*", "&"))
    target = text.rstrip("*&").rstrip() if pointer else text
    deep = pointer and text.count("*") > 1
    const = "const" in target.split() or " const" in target
    words = " ".join(w for w in target.split() if w not in ("const", "volatile", "__restrict__"))
    # An array of pointers holds addresses, which are 64-bit integers on the host.
    if deep:
        return CType(spelling, True, False, ("uint64", "int64"), "")
    dtype, code = _SCALARS.get(words, ("", ""))
    dtypes: tuple[str, ...] = ()
    if dtype:
        dtypes = (dtype, *sorted(_SAME_BITS.get(dtype, ())))
    elif words[-1:].isdigit() and words[:-1] in _VECTORS:
        dtypes = (_VECTORS[words[:-1]], *((_COMPLEX[words],) if words in _COMPLEX else ()))
    return CType(spelling, pointer, const, dtypes, code)


def to_bfloat16(value: float) -> int:
    """The nearest bfloat16, as bits."""
    bits = int.from_bytes(struct.pack("<f", value), "little")
    # Rounding would carry the payload of a NaN into the sign, or drop it to infinity.
    if (bits & 0x7FFFFFFF) > 0x7F800000:
        return 0x7FFF
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
