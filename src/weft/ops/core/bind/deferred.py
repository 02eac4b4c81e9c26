"""Attributes of a package whose modules import torch when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from weft.ops.core.bind import with_torch


def attributes(
    package: str, homes: Mapping[str, str], names: Iterable[str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package.

    homes  the attributes, and the package's modules that have them
    names  all public names of the package, for errors and `dir`
    """
    known = list(names)

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"{package} has no '{name}'; there are {', '.join(known)}")
        value = getattr(with_torch(f"{package}.{homes[name]}"), name)
        setattr(import_module(package), name, value)  # so that it is not asked for again
        return value

    return get, lambda: sorted(known)
