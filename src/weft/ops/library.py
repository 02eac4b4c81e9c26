"""Looks up ops of the library by name; an op is created at its first use."""

from __future__ import annotations

import functools
from typing import Any

from weft.ops.families import definitions
from weft.ops.function import Function


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
