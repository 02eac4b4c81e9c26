"""Looks up ops of the library by name; an op is created at its first use.

Families are found by the names of their modules: a family may call other ops through this module.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any

from weft.ops.function import Definition, Function

_FAMILIES = "weft.ops.families"


@functools.cache
def definitions() -> Mapping[str, Definition]:
    """Every op of the library by its name."""
    package = importlib.import_module(_FAMILIES)
    names = sorted(m.name for m in pkgutil.iter_modules(package.__path__))
    families = (importlib.import_module(f"{_FAMILIES}.{name}") for name in names)
    return {d.name: d for family in families for d in family.DEFINITIONS}


def names() -> list[str]:
    """The names of all public ops."""
    return sorted(name for name, d in definitions().items() if d.public)


@functools.cache
def function(name: str) -> Function:
    """An op of the library."""
    return Function(definitions()[name])


def call(name: str) -> Any:
    """The function `weft.ops.NAME`."""
    return function(name).call
