"""Values in memory at the addresses `NAME.p`: their stores, loads and sizes."""

from __future__ import annotations

import re

from weft.ir.value import BITS

_SEVERAL = re.compile(r"[<\[](\d+) x (\w+)[>\]]")


def stored(kind: str) -> str:
    """The type in memory: truth values of lanes are bytes, which processors store at once."""
    return kind.replace(" x i1>", " x i8>")


def size(kind: str) -> int:
    """Bytes of a type in memory."""
    several = _SEVERAL.fullmatch(stored(kind))
    count, element = (int(several[1]), several[2]) if several is not None else (1, kind)
    return count * max(1, BITS[element] // 8)


def load(kind: str, name: str, align: int = 64) -> str:
    """The instructions that load the value `name`."""
    if " x i1>" not in kind:
        return f"  {name} = load {kind}, ptr {name}.p, align {align}"
    bytes_ = stored(kind)
    return (
        f"  {name}.b = load {bytes_}, ptr {name}.p, align {align}\n"
        f"  {name} = trunc {bytes_} {name}.b to {kind}"
    )


def store(kind: str, name: str, align: int = 64) -> str:
    """The instructions that store the value `name`."""
    if " x i1>" not in kind:
        return f"  store {kind} {name}, ptr {name}.p, align {align}"
    bytes_ = stored(kind)
    return (
        f"  {name}.b = zext {kind} {name} to {bytes_}\n"
        f"  store {bytes_} {name}.b, ptr {name}.p, align {align}"
    )
