"""Parts of a profile that are computed when they are first read.

A launch that is profiled often, or for its totals only, does not pay for lines and pictures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Deferred(Generic[T]):
    """The result of `compute`, called at the first `get`; what it refers to is released then."""

    def __init__(self, compute: Callable[[], T]) -> None:
        self._compute: Callable[[], T] | None = compute
        self._value: T | None = None

    def get(self) -> T:
        compute = self._compute
        if compute is not None:
            # In this order: another thread that sees no function finds the value.
            self._value = compute()
            self._compute = None
        return self._value  # type: ignore[return-value]


class DeferredFields:
    """A base of dataclasses: a field that holds a `Deferred` reads as its value."""

    def __getattribute__(self, name: str) -> Any:
        value = object.__getattribute__(self, name)
        if isinstance(value, Deferred):
            value = value.get()
            object.__setattr__(self, name, value)
        return value

    def __getstate__(self) -> dict[str, Any]:
        """All values, for `copy` and `pickle`, which read no attributes."""
        return {name: getattr(self, name) for name in vars(self)}
