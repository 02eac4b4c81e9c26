"""The schema of an op, from torch's notation or from a kernel's signature."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from weft.device.ctypes_table import CType
from weft.errors import ArgumentError

_EXAMPLES = '"(Tensor x) -> Tensor", "(Tensor x, float a=1.0) -> (Tensor y, Tensor z)"'
MISSING = object()


@dataclass(frozen=True)
class Argument:
    """An argument of an op; `mutated` says that the op writes to it: `Tensor(a!) y`."""

    name: str
    type: str
    default: Any
    mutated: bool

    @property
    def is_tensor(self) -> bool:
        return self.type == "Tensor"


@dataclass(frozen=True)
class Schema:
    """The arguments and results of an op; `returns` has names, "" for unnamed ones."""

    text: str
    arguments: tuple[Argument, ...]
    returns: tuple[str, ...]

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.arguments)

    @functools.cached_property
    def tensors(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.arguments if a.is_tensor)

    @functools.cached_property
    def mutated(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.arguments if a.mutated)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by name; torch omits those that equal their defaults."""
        passed = dict(zip(self.names, args, strict=False)) | dict(kwargs)
        return {a.name: passed.get(a.name, a.default) for a in self.arguments}


def parse(op: str, text: str) -> Schema:
    """Parse a schema in torch's notation."""
    try:
        parsed = torch._C.parse_schema(f"{op}{text}")
    except RuntimeError as error:
        raise ArgumentError(
            f"{op}: the schema cannot be read",
            got=": ".join(filter(None, (repr(text), *str(error).strip().splitlines()[:1]))),
            allowed=f"arguments and returns as torch writes them: {_EXAMPLES}",
        ) from None
    for result in parsed.returns:
        if str(result.type) != "Tensor":
            raise ArgumentError(
                f"{op}: a kernel's results are tensors", got=f"{result.type} in {text!r}"
            )
    arguments = tuple(
        Argument(
            a.name,
            str(a.type),
            a.default_value if a.has_default_value() else MISSING,
            a.alias_info is not None and a.alias_info.is_write,
        )
        for a in parsed.arguments
    )
    return Schema(text, arguments, tuple(r.name or "" for r in parsed.returns))


def derive(op: str, parameters: Mapping[str, CType | None], derived: Sequence[str]) -> Schema:
    """Derives a schema: const pointers are inputs, other pointers are results.

    derived  parameters that are computed from others
    """
    arguments, returns = [], []
    for name, ctype in parameters.items():
        if name in derived:
            continue
        if ctype is None:
            raise ArgumentError(
                f"{op}: the kernel's C++ types are not known",
                got=f"parameter '{name}'",
                next=f"write the schema, e.g. {_EXAMPLES.split(',')[0]}, and"
                f" args={{'{name}': ...}}",
            )
        if ctype.pointer and not ctype.const:
            returns.append(f"Tensor {name}")
        else:
            arguments.append(f"{scalar(op, name, ctype)} {name}")
    gives = returns[0] if len(returns) == 1 else f"({', '.join(returns)})"
    return parse(op, f"({', '.join(arguments)}) -> {gives}")


def scalar(op: str, name: str, ctype: CType) -> str:
    """The torch type of a parameter."""
    if ctype.pointer:
        return "Tensor"
    if ctype.format == "?":
        return "bool"
    if ctype.format and ctype.format in "bBhHiIqQ":
        return "int"
    if ctype.format or "bfloat16" in ctype.dtypes:
        return "float"
    raise ArgumentError(
        f"{op}: '{name}' is a struct, which no argument of an op can be",
        got=ctype.spelling,
        next=f"compute it from the arguments: args={{'{name}': lambda x: np.void(...)}}",
    )
