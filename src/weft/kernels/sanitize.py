"""What a user of the sanitizer holds besides `sanitize=True`: a stretch of code, fresh memory."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from weft.device.sim.run import initialised
from weft.errors import ArgumentError, expect

if TYPE_CHECKING:
    from weft.device.sim.tools.sanitizer.session import Report

POISON = 0xCB
"""Fills memory that counts as not written: as a float it is large, and negative."""


def sanitize(*, raises: bool = True) -> AbstractContextManager[Report]:
    """All launches on simulated GPUs inside a `with` run under the sanitizer.

    raises  whether the end raises SanitizerError when there are findings; the report has them too
    """
    from weft.device.sim.tools.sanitizer import session  # its code is needed by nobody else

    return session.sanitize(raises=raises)


def empty(shape: int | Sequence[int], dtype: DTypeLike = np.float32) -> np.ndarray[Any, Any]:
    """An array that nobody has written: the sanitizer reports kernels that read it too early.

    What the host writes to it is not seen; call `weft.filled(array)` then.
    """
    try:
        array = np.empty(shape, dtype)
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise ArgumentError(
            "there is no array of this shape and dtype",
            got=f"shape {shape!r}, dtype {dtype!r}: {error}",
        ) from None
    if array.dtype.hasobject:
        raise ArgumentError("an array of Python objects is nothing for a kernel", got=repr(dtype))
    array.reshape(-1).view(np.uint8)[:] = POISON
    initialised.watch(array)
    return array


def filled(array: np.ndarray[Any, Any]) -> None:
    """The host has written all of an array that `weft.empty` gave."""
    expect("what the host has filled", array, np.ndarray, allowed="an array of `weft.empty`")
    initialised.filled(int(array.ctypes.data), array.nbytes)
