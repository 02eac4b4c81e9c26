"""Look up ops of the library by name; an op is created at its first use.

Families are found by the names of their folders: a family may call other ops through this module.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import threading
from collections.abc import Callable, Mapping
from typing import Any

from weft.ops.core.function import Definition, Function

_FAMILIES = "weft.ops.families"


def modules(name: str) -> dict[str, Any]:
    """The module `name` of every family, by family."""
    package = importlib.import_module(_FAMILIES)
    families = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    return {f: importlib.import_module(f"{_FAMILIES}.{f}.{name}") for f in families}


@functools.cache
def definitions() -> Mapping[str, Definition]:
    """Every op of the library by its name."""
    return {d.name: d for op in modules("op").values() for d in op.DEFINITIONS}


@functools.cache
def makers() -> Mapping[str, Callable[[], Any]]:
    """Makers of public functions that call ops, e.g. with a random seed; by name.

    A function is made at its first use, with the ops that it calls: torch.compile cannot trace a
    look-up by name.
    """
    return {
        n: make for op in modules("op").values() for n, make in getattr(op, "MAKERS", {}).items()
    }


def names() -> list[str]:
    """The names of all public ops and functions."""
    return sorted([*makers(), *(name for name, d in definitions().items() if d.public)])


@functools.cache
def function(name: str) -> Function:
    """An op of the library."""
    with _MAKING:
        return _function(name)


@functools.cache
def call(name: str) -> Any:
    """The function `weft.ops.NAME`."""
    with _MAKING:
        return _call(name)


# A cache lets two threads compute one value; an op must be registered with torch only once.
_MAKING = threading.RLock()


@functools.cache
def _function(name: str) -> Function:
    return Function(definitions()[name])


@functools.cache
def _call(name: str) -> Any:
    if name not in makers():
        return function(name).call
    made = makers()[name]()
    made.__module__, made.__annotations__ = "weft.ops", {}  # its signature reads as an op's
    return made
