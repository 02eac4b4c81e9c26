"""The ops of the library by name, made when they are asked for."""

from __future__ import annotations

import functools
from typing import Any

from weft.ops.families import definitions
from weft.ops.function import Function


def names() -> list[str]:
    """The names of all ops that users call."""
    return sorted(name for name, d in definitions().items() if d.public)


@functools.cache
def function(name: str) -> Function:
    """An op of the library."""
    return Function(definitions()[name])


def call(name: str) -> Any:
    """What `weft.ops.NAME` is."""
    return function(name).call
