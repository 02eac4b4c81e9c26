"""Variables of a program: `__device__` and `__constant__`, with the dtype of the source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from weft.device import ctypes_table
from weft.device.base import Device, Program
from weft.errors import LaunchError
from weft.source.scan import without_comments
from weft.values import Ptx

_QUALIFIERS = re.compile(
    r"\b(?:static|const|constexpr|volatile|extern|inline|__(?:device|constant|managed)__)\b"
)


def view(program: Program, device: Device, name: str, dtype: Any, written: str = "") -> Any:
    """A variable as an array; without a dtype, it has that of its declaration.

    written  the name in the source, where `name` is another
    """
    module = program.on(device)
    # A name that is not there is refused before its dtype is looked for.
    if dtype is None and module.find(name):
        dtype = _declared_dtype(written or name, program.ptx)
    return module.variable(name, np.uint8 if dtype is None else dtype)


def _declared_dtype(name: str, ptx: Ptx) -> np.dtype[Any]:
    """The dtype of a variable's elements; raises LaunchError where its declaration is not plain."""
    types = {t for text in ptx.sources.values() for t in _declared(without_comments(text), name)}
    dtypes = {_dtype(t) for t in types}
    if len(dtypes) != 1 or None in dtypes:
        raise LaunchError(
            f"the dtype of '{name}' is not known",
            where=ptx.origin,
            got=" or ".join(sorted(types)) or "no plain declaration in the source",
            allowed="a number, a vector such as float4, or a pointer, declared with its type",
            next=f"pass it: variable({name!r}, np.float32), or a structured dtype",
        )
    return np.dtype(dtypes.pop())


def _declared(text: str, name: str) -> Iterator[str]:
    """The type before each declaration of a variable: `float` of `__device__ float x[4], y;`."""
    plain = re.escape(name.rpartition("::")[2])
    pattern = rf"__(?:device|constant|managed)__\s+([^;(){{}}=<>]*?[\s*,]){plain}\s*(?=[\[=;{{,])"
    for match in re.finditer(pattern, text):
        before, comma, _ = match[1].partition(",")
        # Of several names in one declaration, the type stands before the first.
        first = re.sub(r"[\w$]+\s*(?:\[[^\]]*\]\s*)*$", "", before) if comma else before
        yield " ".join(_QUALIFIERS.sub(" ", first).split())


def _dtype(spelling: str) -> str | None:
    if spelling.endswith("*"):
        return "uint64"
    known = ctypes_table.parse(f"{spelling}*").dtypes
    # NumPy has no bfloat16 by itself.
    return next((d for d in known if d != "bfloat16"), None)
