"""`dataclass`, made in a tenth of the time that the standard decorator takes.

The standard one compiles the text of up to six methods for each class, which takes a millisecond. A
first launch defines a hundred such classes. Here only the text of `__init__` is compiled, when the
class is first called, which most are not; the other methods are closures. The standard decorator
still collects the fields, so that `fields`, `replace`, `asdict` and `match` work as usual. Modules
that a first launch needs use this one.
"""

from __future__ import annotations

import dataclasses
import operator
import reprlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a type checker knows the standard decorator by its name
    from dataclasses import dataclass
else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        eq: bool = True,
        frozen: bool = False,
        slots: bool = False,
        weakref_slot: bool = False,
    ) -> Any:
        """The standard decorator's result, without `InitVar`, an order or bases with fields."""

        def make(plain: type) -> type:
            made = dataclasses.dataclass(
                plain, init=False, repr=False, eq=False, slots=slots, weakref_slot=weakref_slot
            )
            _add_methods(made, plain.__dict__, eq, frozen)
            if frozen and slots:  # by default a copy is filled through `__setattr__`
                made.__getstate__, made.__setstate__ = _get_state, _set_state
            parameters = made.__dataclass_params__
            parameters.init = parameters.repr = True
            parameters.eq, parameters.frozen = eq, frozen
            return made

        return make if cls is None else make(cls)


__all__ = ["dataclass"]

_MISSING = dataclasses.MISSING


def _add_methods(cls: Any, written: Any, eq: bool, frozen: bool) -> None:
    """Add the methods to a class, except those that are written in it."""
    fields = dataclasses.fields(cls)
    methods = {"__init__": _late_init(cls, fields, frozen)}
    methods["__repr__"] = _repr([field.name for field in fields if field.repr])
    if frozen:
        methods |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
    if eq:
        methods["__eq__"] = _eq(_values([field.name for field in fields if field.compare]))
    for name, method in methods.items():
        if name not in written:
            setattr(cls, name, method)
    if eq and written.get("__hash__") is None:
        hashed = [x.name for x in fields if (x.compare if x.hash is None else x.hash)]
        cls.__hash__ = _hash(_values(hashed)) if frozen else None


def _late_init(cls: Any, fields: tuple[dataclasses.Field[Any], ...], frozen: bool) -> Any:
    """Compile `__init__` at its first call."""

    def __init__(self: Any, /, *values: Any, **named: Any) -> None:
        cls.__init__ = _init(cls, fields, frozen)
        cls.__init__(self, *values, **named)

    return __init__


def _init(cls: Any, fields: tuple[dataclasses.Field[Any], ...], frozen: bool) -> Any:
    """The method that takes a value for each field."""
    names: dict[str, Any] = {"_set": object.__setattr__, "_made": _MADE}
    signature: dict[bool, list[str]] = {False: ["self"], True: ["*"]}  # by `kw_only`
    lines = []
    for field in fields:
        name, value = field.name, field.name
        if field.default_factory is not _MISSING:
            names[f"_make_{name}"] = field.default_factory
            default, value = "_made", f"_make_{name}()"
            if field.init:
                value += f" if {name} is _made else {name}"
        elif field.default is not _MISSING:
            names[f"_default_{name}"] = field.default
            default = f"_default_{name}"
            value = name if field.init else default
        elif field.init:
            default = ""
        else:
            continue
        if field.init:
            signature[bool(field.kw_only)].append(f"{name}={default}" if default else name)
        lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = signature[False] + (signature[True] if len(signature[True]) > 1 else [])
    body = "\n ".join(lines or ["pass"])
    exec(f"def __init__({', '.join(parameters)}):\n {body}", names)
    made = names["__init__"]
    made.__module__, made.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    made.__annotations__ = {x.name: x.type for x in fields if x.init} | {"return": None}
    return made


class _Made:
    """The default of an argument that a factory makes."""

    def __repr__(self) -> str:
        return "<factory>"


_MADE = _Made()


def _repr(names: list[str]) -> Any:
    @reprlib.recursive_repr()
    def __repr__(self: Any) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({values})"

    return __repr__


def _values(names: list[str]) -> Callable[[Any], Any]:
    """The values of fields: a tuple, or the value of the only one."""
    return operator.attrgetter(*names) if names else lambda _: ()


def _eq(values: Callable[[Any], Any]) -> Any:
    def __eq__(self: Any, other: Any) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        mine, its = values(self), values(other)
        return mine is its or mine == its

    return __eq__


def _hash(values: Callable[[Any], Any]) -> Any:
    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


def _refuse_set(self: Any, name: str, value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
