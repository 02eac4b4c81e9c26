"""The sanitizer: finds data races and memory errors in kernels on the simulated GPU.

`k[grid, block](*args, sanitize=True)` checks one launch, `weft.sanitize` all launches inside a
`with`. `empty` and `filled` let it find reads of memory that was never written.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from weft.device.sim.run import initialised
from weft.errors import ArgumentError, expect
from weft.values.findings import Access, Finding

if TYPE_CHECKING:  # plain launches do not load the sanitizer
    from weft.device.sim.tools.sanitizer.session import Report

__all__ = ["Access", "Finding", "Report", "empty", "filled", "sanitize"]

POISON = 0xCB
"""Fills memory that counts as not written: as a float it is large, and negative."""


def __getattr__(name: str) -> Any:
    if name != "Report":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from weft.device.sim.tools.sanitizer.session import Report

    return Report


def sanitize(*, raises: bool = True) -> AbstractContextManager[Report]:
    """Run all launches on simulated GPUs inside a `with` under the sanitizer.

    raises  raise `SanitizerError` at the end of the `with` if there are findings; the report has
            the findings in any case

    >>> with weft.sanitize() as report:
    ...     module.scale[1, 32](x, 10.0, 4)
    >>> print(report.launches, report.findings)
    1 []
    """
    from weft.device.sim.tools.sanitizer import session

    return session.sanitize(raises=raises)


def empty(shape: int | Sequence[int], dtype: DTypeLike = np.float32) -> np.ndarray[Any, Any]:
    """Return an uninitialized array. The sanitizer reports kernels that read it before a write.

    Writes of kernels are tracked. After a write by the host, call `filled(array)`.

    >>> y = weft.sanitizer.empty(4)
    >>> with weft.sanitize(raises=False) as report:
    ...     module.scale[1, 32](y, 10.0, 4)
    >>> print(report.findings[0].kind)
    uninitialised
    """
    try:
        array = np.empty(shape, dtype)
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise ArgumentError(
            "there is no array of this shape and dtype",
            got=f"shape {shape!r}, dtype {dtype!r}: {error}",
        ) from None
    if array.dtype.hasobject:
        raise ArgumentError("a kernel cannot use an array of Python objects", got=repr(dtype))
    array.reshape(-1).view(np.uint8)[:] = POISON
    initialised.watch(array)
    return array


def filled(array: np.ndarray[Any, Any]) -> None:
    """Mark an array of `empty` as written by the host, so that kernels may read all of it.

    >>> y = weft.sanitizer.empty(4)
    >>> y[:] = 1
    >>> weft.sanitizer.filled(y)
    >>> module.scale[1, 32](y, 10.0, 4, sanitize=True)
    """
    expect("array", array, np.ndarray, allowed="an array of weft.sanitizer.empty")
    initialised.filled(int(array.ctypes.data), array.nbytes)
