"""Modules of the device whose names are those of a module of NumPy or SciPy."""

from __future__ import annotations

import enum
import importlib
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from weft.errors import MissingDependency
from weft.frontends import activity
from weft.frontends.cupy.host_objects import HostObject, device_class, forwarded, to_device
from weft.frontends.cupy.pinned import is_pinned
from weft.values.time import timeline

_CREATORS = frozenset({
    "array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "full", "full_like",
    "require", "result_type", "can_cast", "isscalar", "shape", "ndim", "size", "min_scalar_type",
    "promote_types", "iscomplexobj", "isrealobj", "common_type", "allclose", "isclose",
})  # fmt: skip
"""Functions that take arrays of NumPy; a result is a copy."""
_INDEX = frozenset({"s_", "index_exp", "newaxis"})
"""Objects of NumPy that are the same on the device."""
_NOTHING = object()
"""The result of a lookup that finds nothing; None would be the value of `newaxis`."""


class HostModule(types.ModuleType):
    """A module that looks names up in one of the host when they are used.

    own      names that it defines itself
    without  names that only the host has
    """

    def __init__(
        self, name: str, host: str, own: Mapping[str, Any] | None = None,
        without: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        super().__init__(name, f"`{host}` for arrays of the device.")
        self.__path__: list[str] = []  # it can be imported, and has submodules
        self._host_name, self._without = host, without
        vars(self).update(own or {})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = lookup(
            _imported(self._host_name, self.__name__), name, self.__name__, self._without
        )
        setattr(self, name, found)
        return found


def lookup(module: Any, name: str, to: str, without: frozenset[str]) -> Any:
    """Return what a module of the host has under a name, for the device."""
    private = name in without or name.startswith("_")
    found = _NOTHING if private else getattr(module, name, _NOTHING)
    if found is _NOTHING and not private:
        found = _submodule(module, name)
    if found is _NOTHING:
        raise AttributeError(f"module {to!r} has no attribute {name!r}", name=name)
    return of_host(found, name, to)


def of_host(found: Any, name: str, to: str) -> Any:
    """Return a name of NumPy or SciPy for the device."""
    if isinstance(found, types.ModuleType):
        return HostModule(f"{to}.{name}", found.__name__)
    if isinstance(found, type):
        plain = (np.generic, np.dtype, BaseException, Warning, enum.Enum, np.finfo, np.iinfo)
        return found if issubclass(found, (*plain, np.ndindex, tuple)) else device_class(found)
    if isinstance(found, np.ufunc):
        return to_device(found)
    if not callable(found):
        special = hasattr(found, "__getitem__") and name not in _INDEX
        indexed = special and not isinstance(found, str | list | tuple | dict)
        return device_class(type(found)).of(found) if indexed else found
    if name in _CREATORS:
        return creator(found)
    return _method(found) if name in vars(np.ndarray) else forwarded(found)


def creator(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of the device that takes arrays of NumPy; the result is a copy."""
    call = forwarded(function, check=False)

    def create(*args: Any, **options: Any) -> Any:
        args = tuple(map(_shared, args))
        result = call(*args, **options)
        given = [v for v in (*args, *options.values()) if isinstance(v, np.ndarray)]
        if isinstance(result, HostObject) and any(
            np.may_share_memory(result._host, v) for v in given
        ):
            result = to_device(result._host.copy(order="K"))
        if given and activity.current is not None:
            _record(given, result)
        return result

    return create


def _record(given: Sequence[np.ndarray[Any, Any]], result: Any) -> None:
    """Record the copy of arrays of NumPy to the device, for a timeline."""
    host = result._host
    pageable = not all(map(is_pinned, given))
    with activity.call("cudaMemcpyAsync"):
        activity.copied(
            timeline.TO_DEVICE, host.nbytes, stream=activity.stream(), pageable=pageable,
            memory=int(host.ctypes.data), waits=True,
        )  # fmt: skip


def _shared(value: Any) -> Any:
    """Return the array of another library that simulates a GPU, e.g. Numba's, without a copy."""
    facts = (
        None if isinstance(value, HostObject) else getattr(value, "__cuda_array_interface__", None)
    )
    if facts is None:
        return value
    array = np.asarray(Interface({**facts, "version": 3}, value))
    return to_device(array)


class Interface:
    """The memory of an array; `owner` keeps it alive."""

    def __init__(self, facts: dict[str, Any], owner: object) -> None:
        self.__array_interface__, self._owner = facts, owner


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that CuPy defines as a method of its argument, which may be of NumPy."""
    call = forwarded(function)

    def delegate(a: Any, *args: Any, **options: Any) -> Any:
        return (function if isinstance(a, np.ndarray) else call)(a, *args, **options)

    return delegate


def _submodule(module: Any, name: str) -> Any:
    try:
        return importlib.import_module(f"{module.__name__}.{name}")
    except ModuleNotFoundError:
        return _NOTHING


def _imported(host: str, name: str) -> Any:
    """Import a module of the host; an error names the package that has it."""
    package = host.partition(".")[0]
    try:
        importlib.import_module(package)
    except ModuleNotFoundError:
        raise MissingDependency(
            f"{name} needs {package}, which is not installed", next=f"pip install {package}"
        ) from None
    try:
        return importlib.import_module(host)
    except ModuleNotFoundError:
        raise AttributeError(f"there is no module {name!r}") from None
