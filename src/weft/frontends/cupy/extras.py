"""Functions of CuPy that NumPy does not have."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from weft.frontends.cupy.arrays import ufunc
from weft.frontends.cupy.current import model

_memos: list[Callable[[], None]] = []


def fuse(*args: Any, **options: Any) -> Any:
    """Return a function as it is: its operations run one by one, with the same results."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*values: Any, **named: Any) -> Any:
            return function(*values, **named)

        return call

    return decorate(args[0]) if args and callable(args[0]) else decorate


def memoize(for_each_device: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function remember its results, until `clear_memo`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        remembered = functools.cache(function)
        _memos.append(remembered.cache_clear)
        return remembered

    return decorate


def clear_memo() -> None:
    """Forget the results of all memoized functions."""
    for clear in _memos:
        clear()


def show_config(**_: Any) -> None:
    """Print what computes."""
    print(get_runtime_info())


def get_runtime_info(**_: Any) -> str:
    """Return what computes, as text."""
    return f"Device 0 Name : {model().name}, simulated by weft\nNumPy Version : {np.__version__}"


# ---- cupyx -------------------------------------------------------------------------------------
def rsqrt(x: Any) -> Any:
    """Return 1 / sqrt(x)."""
    return 1 / np.sqrt(x)


scatter_add, scatter_max, scatter_min = (
    ufunc.of(each).at for each in (np.add, np.maximum, np.minimum)
)


@contextlib.contextmanager
def errstate(**_: Any) -> Iterator[None]:
    """Do nothing more: CuPy's functions of arrays raise no errors of the hardware."""
    yield


def geterr() -> dict[str, Any]:
    return {"divide": None, "over": None, "under": None, "invalid": None, "linalg": "ignore"}


def seterr(**_: Any) -> dict[str, Any]:
    return geterr()


@contextlib.contextmanager
def allow_synchronize(allow: bool) -> Iterator[None]:
    """Do nothing more: all work is synchronous."""
    yield
