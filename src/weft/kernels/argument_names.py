"""Names of the arguments of kernels that take them in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.errors import ArgumentError


def in_order(
    kernel: str, names: Sequence[str], args: Sequence[Any], options: Mapping[str, Any], takes: str
) -> list[str]:
    """Return `names`; ArgumentError where `args` are more or fewer, or some are passed by name."""
    if options:
        raise ArgumentError(
            f"{kernel} takes its arguments in order, none by name",
            got=", ".join(f"{name}=" for name in options),
            allowed=takes,
        )
    if len(names) != len(args):
        raise ArgumentError(
            f"{kernel} takes {len(names)} arguments", got=str(len(args)), allowed=takes
        )
    return list(names)
