"""Names of ops that have been replaced. They warn, and go away in the release after the next."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple


class Alias(NamedTuple):
    """The op to use instead; `one` where the old result had shape [1] instead of a number."""

    op: str
    one: bool = False


ALIASES = {
    "vecadd": Alias("add"),
    "reduce": Alias("sum", one=True),
    "reduce_max": Alias("amax", one=True),
}


def resolve(name: str, call: Callable[[str], Any]) -> Any:
    """The function behind an old name; `call` gives an op of the library by its name."""
    alias = ALIASES[name]
    shape = ", of shape [] instead of [1]" if alias.one else ""
    warnings.warn(
        f"weft.ops.{name} is deprecated; use weft.ops.{alias.op}{shape}",
        DeprecationWarning,
        stacklevel=3,  # the code that asks weft.ops for the name
    )
    op = call(alias.op)
    return functools.partial(_as_one, op) if alias.one else op


def _as_one(op: Callable[..., Any], x: Any) -> Any:
    return op(x).reshape(1)
