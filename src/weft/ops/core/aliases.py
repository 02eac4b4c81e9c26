"""Other names of ops. Deprecated ones warn, and will be removed in the release after the next."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple


class Alias(NamedTuple):
    """The op to use instead; `one` if the old result had shape [1] instead of []."""

    op: str
    one: bool = False
    deprecated: bool = True


ALIASES = {
    "vecadd": Alias("add"),
    "reduce": Alias("sum", one=True),
    "reduce_max": Alias("amax", one=True),
    "scaled_dot_product_attention": Alias("attention", deprecated=False),
}


def resolve(name: str, call: Callable[[str], Any]) -> Any:
    """The function for another name; `call` returns an op of the library by name."""
    alias = ALIASES[name]
    if not alias.deprecated:
        return call(alias.op)
    shape = ", of shape [] instead of [1]" if alias.one else ""
    warnings.warn(
        f"weft.ops.{name} is deprecated; use weft.ops.{alias.op}{shape}",
        DeprecationWarning,
        stacklevel=3,  # the code that accessed weft.ops.NAME
    )
    op = call(alias.op)
    return functools.partial(_as_one, op) if alias.one else op


def _as_one(op: Callable[..., Any], x: Any) -> Any:
    return op(x).reshape(1)
