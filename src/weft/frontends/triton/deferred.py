"""A number that is computed when it is first used.

Triton asks for the registers of a kernel when it loads it. `ptxas` may need seconds to count them,
and few scripts look at the number.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any


class Deferred:
    """Behaves as the integer that a function returns."""

    def __init__(self, compute: Callable[[], int]) -> None:
        self._compute = compute

    @functools.cached_property
    def value(self) -> int:
        """The number."""
        return self._compute()

    def __index__(self) -> int:
        return self.value

    def __int__(self) -> int:
        return self.value

    def __bool__(self) -> bool:
        return bool(self.value)

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return repr(self.value)


def _define(name: str, operation: Callable[[Any, Any], Any]) -> None:
    def plain(self: Deferred, other: Any) -> Any:
        return operation(self.value, other)

    def reflected(self: Deferred, other: Any) -> Any:
        return operation(other, self.value)

    setattr(Deferred, f"__{name}__", plain)
    setattr(Deferred, f"__r{name}__", reflected)


for _name in ("add", "sub", "mul", "floordiv", "truediv", "mod", "pow"):
    _define(_name, getattr(operator, _name))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _define(_name, getattr(operator, _name))
