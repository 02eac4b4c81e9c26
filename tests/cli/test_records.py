"""`weft.records.dataclass` makes the same classes as the standard decorator."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import weakref
from collections.abc import Callable
from dataclasses import KW_ONLY, field
from typing import Any

import pytest

from weft.records import dataclass as light


def many(make: Any) -> Any:
    @make
    class Fields:
        """Every kind of field."""

        first: int
        many: list[int] = field(default_factory=list, hash=False)
        count: int = 3
        hidden: str = field(default="h", repr=False, compare=False)
        derived: Any = field(default=None, init=False)
        made: dict[str, int] = field(default_factory=dict, init=False, hash=False)
        _: KW_ONLY
        named: float = 0.5

    return Fields


def none(make: Any) -> Any:
    @make
    class Empty:
        """No field."""

    return Empty


def single(make: Any) -> Any:
    @make
    class Single:
        """One field."""

        first: Any

    return Single


def written(make: Any) -> Any:
    @make
    class Written:
        """Methods of its own, which stay."""

        first: Any

        def __post_init__(self) -> None:
            object.__setattr__(self, "first", [self.first])

        def __repr__(self) -> str:
            return "written"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Written)

    return Written


OPTIONS: list[dict[str, bool]] = [
    {},
    {"slots": True},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "eq": False},
    {"slots": True, "weakref_slot": True, "eq": False},
]
USES: dict[str, Callable[[Any], Any]] = {
    "fields": lambda cls: [(f.name, f.init, f.compare) for f in dataclasses.fields(cls)],
    "match": lambda cls: cls.__match_args__,
    "slots": lambda cls: getattr(cls, "__slots__", None),
    "repr": lambda cls: repr(cls(1)),
    "asdict": lambda cls: dataclasses.asdict(cls(1)),
    "replace": lambda cls: repr(dataclasses.replace(cls(1), first=2)),
    "named": lambda cls: repr(cls(1, named=2.0)),
    "missing": lambda cls: repr(cls()),
    "unknown": lambda cls: cls(1, absent=2),
    "equal": lambda cls: (cls(1) == cls(1), cls(1) == cls(2), cls(1) == 1, cls(1) != cls(1)),
    "same NaN": lambda cls: cls(math.nan) == cls(math.nan),
    "hidden": lambda cls: cls(1, hidden="a") == cls(1, hidden="b"),
    "hash": lambda cls: len({hash(made) for made in [cls(1), cls(1)]}),  # both alive
    "set": lambda cls: setattr(cls(1), "first", 2),
    "delete": lambda cls: delattr(cls(1), "first"),
    "copy": lambda cls: repr(copy.copy(cls(1))),
    "deep copy": lambda cls: repr(copy.deepcopy(cls(1))),
    "weak": lambda cls: type(weakref.ref(cls(1))),
    "own list": lambda cls: cls(1).many is cls(1).many,
    "parameters": lambda cls: repr(cls.__dataclass_params__),
    "signature, once called": lambda cls: str(inspect.signature(cls)),
}


def outcome(use: Callable[[Any], Any], cls: Any) -> Any:
    """The result of a use, or the kind of its error and its text."""
    try:
        return use(cls)
    except (TypeError, AttributeError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("define", [many, none, single, written])
def test_a_light_dataclass_is_like_a_standard_one(
    define: Callable[[Any], Any], options: dict[str, bool]
) -> None:
    standard, made = define(dataclasses.dataclass(**options)), define(light(**options))  # type: ignore[call-overload]
    for name, use in USES.items():
        assert outcome(use, made) == outcome(use, standard), name


def test_a_recursive_value_has_a_representation() -> None:
    value = single(light)([])
    value.first.append(value)
    assert repr(value).endswith("Single(first=[...])")
