"""Converts JSON to frozen dataclasses and validates types and ranges.

Records come from files that may be damaged, old or malicious. A valid value has no number that is
too large to loop over and no part of an unexpected type.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar, Union

T = TypeVar("T")

COUNTER = (0, 2**63 - 1)
"""The range of integers in fields that `_RANGES` does not list."""
_RANGES: Mapping[str, tuple[int, int]] = {
    "grid": (1, 2**31 - 1),
    "static_shared": (0, 2**24),
    "dynamic_shared": (0, 2**24),
    "registers": (0, 1024),
    "launches": (1, 2**63 - 1),
    "offsets": (-(2**63), 2**64 - 1),
}


def value(kind: Any, data: Any, name: str) -> Any:
    """Convert `data` to a type; raise ValueError or TypeError with the name of the part."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _made(kind, _typed(data, dict, name))
    if origin in (Union, types.UnionType):
        return None if data is None else value(_first(inner), data, name)
    if origin is tuple:
        items = _typed(data, list, name)
        of = [inner[0]] * len(items) if inner[1:] == (...,) else inner
        if len(of) != len(items):
            raise ValueError(f"{name}: {len(items)} parts, not {len(of)}")
        return tuple(value(t, x, name) for t, x in zip(of, items, strict=True))
    if origin is frozenset:
        return frozenset(value(inner[0], x, name) for x in _typed(data, list, name))
    if origin is Mapping:
        return {
            k: value(inner[1], x, f"{name}.{k}"[:80]) for k, x in _typed(data, dict, name).items()
        }
    return _plain(kind, data, name)


def _first(kinds: tuple[Any, ...]) -> Any:
    return next(t for t in kinds if t is not type(None))


def _typed(data: Any, kind: type[T], name: str) -> T:
    if not isinstance(data, kind):
        raise TypeError(f"{name}: a {type(data).__name__}, not a {kind.__name__}")
    return data


def _plain(kind: Any, data: Any, name: str) -> Any:
    if kind in (str, bool):
        return _typed(data, kind, name)
    # bool is a subclass of int in Python.
    if isinstance(data, bool) or not isinstance(data, int if kind is int else int | float):
        raise TypeError(f"{name}: a {type(data).__name__}, not a number")
    least, most = _RANGES.get(name, COUNTER)
    if not least <= data <= most:  # also refuses NaN
        raise ValueError(f"{name}: a number that is not from {least} to {most}")
    return data


def _made(kind: type[T], data: Mapping[str, Any]) -> T:
    hints, fields = typing.get_type_hints(kind), dataclasses.fields(kind)  # type: ignore[arg-type]
    names = [f.name for f in fields if f.name in data]
    return kind(**{name: value(hints[name], data[name], name) for name in names})
