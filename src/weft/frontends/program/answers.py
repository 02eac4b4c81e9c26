"""Answers to C++: the error codes of CUDA that exceptions become, since none can cross C++."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable
from typing import Any

from weft.errors import (
    AssertFailed,
    Deadlock,
    DeviceError,
    Error,
    IllegalAddress,
    MisalignedAddress,
    TimeLimit,
)
from weft.frontends.program.interface import DIED

INVALID_VALUE, INVALID_FUNCTION, TOO_LARGE, OUT_OF_RESOURCES = 1, 98, 720, 701
INVALID_CLUSTER = 912
NOT_SUPPORTED, UNKNOWN = 801, 999
_DEATHS: tuple[tuple[type[Error], int], ...] = (
    (MisalignedAddress, 716),
    (IllegalAddress, 700),
    (AssertFailed, 710),
    (Deadlock, 702),
    (TimeLimit, 702),
    (DeviceError, 719),
)
"""Exceptions of kernels, and the error code that a GPU reports."""
UNSIMULATED = b"a kernel could not be simulated"


def answers(otherwise: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Print an error and return `otherwise`. The owner has `say` and `library`."""

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def safely(self: Any, *args: Any) -> Any:
            try:
                return method(self, *args)
            except Error as error:
                self.say(str(error))
            except Exception:  # a bug of weft: the program gets an error code
                self.say(f"internal error\n{traceback.format_exc()}")
            self.library.weft_condemn(UNSIMULATED)
            return otherwise

        return safely

    return decorate


def died(error: BaseException | None) -> int:
    """The error code of a launch that failed with this exception; 0 for None."""
    if not isinstance(error, DeviceError):
        return 0
    return DIED | next(code for kind, code in _DEATHS if isinstance(error, kind))
