"""Profiles as JSON, and back: what `--json` prints and `weft profile a.json b.json` reads."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, Union

from weft.errors import Error
from weft.measure.counted import Profile

FORMAT = "weft profile 1"

T = TypeVar("T")


def dump(profiles: list[Profile]) -> dict[str, Any]:
    """A record of profiles."""
    return {"format": FORMAT, "profiles": [p.to_dict() for p in profiles]}


def load(path: str | Path, kind: type[Profile] = Profile) -> list[Profile]:
    """The profiles of a record, as values of `kind`."""
    try:
        data = json.loads(Path(path).read_text())
        if data["format"] != FORMAT:
            raise ValueError(data["format"])
        return [_value(kind, one) for one in data["profiles"]]
    except OSError as error:
        raise Error("cannot read the record", where=str(path), got=error.strerror or "") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Error(
            "this is not a record of profiles",
            where=str(path),
            got=f"{type(error).__name__}: {error}"[:200],
            allowed=f'JSON with "format": "{FORMAT}"',
            next="`weft profile FILE --json > record.json` makes one",
        ) from None


def _value(kind: Any, data: Any) -> Any:
    """`data` as a value of a type that profiles are made of."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _made(kind, data)
    if origin in (Union, types.UnionType):
        return None if data is None else _value(next(t for t in inner if t is not type(None)), data)
    if origin is tuple:
        of = [inner[0]] * len(data) if inner[1:] == (...,) else inner
        return tuple(_value(t, x) for t, x in zip(of, data, strict=True))
    if origin is frozenset:
        return frozenset(data)
    if origin is Mapping:
        return {key: _value(inner[1], x) for key, x in data.items()}
    return data


def _made(kind: type[T], data: Mapping[str, Any]) -> T:
    hints = typing.get_type_hints(kind)
    names = [f.name for f in dataclasses.fields(kind) if f.name in data]  # type: ignore[arg-type]
    return kind(**{name: _value(hints[name], data[name]) for name in names})
