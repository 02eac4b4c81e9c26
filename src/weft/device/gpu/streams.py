"""Streams of every library as handles, and the stream that is current where an array comes from."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from weft.errors import LaunchError

_WAYS: dict[str, Callable[[Any], int]] = {
    "__cuda_stream__": lambda s: int(
        s.__cuda_stream__()[1]
    ),  # cuda.core, and others that use its protocol
    "cuda_stream": lambda s: int(s.cuda_stream),  # torch
    "ptr": lambda s: int(s.ptr),  # CuPy
    # A ctypes pointer that is null has the value None: the default stream.
    "handle": lambda s: int(getattr(s.handle, "value", s.handle) or 0),  # Numba
}
"""Functions that return the handle of a stream object, by an attribute of its library."""


def handle(stream: Any) -> int:
    """The raw handle of a stream object, or of a number that is one."""
    if isinstance(stream, int) and not isinstance(stream, bool) and stream >= 0:
        return stream
    for attribute, way in _WAYS.items():
        if hasattr(stream, attribute):
            return way(stream)
    raise LaunchError(
        "not a CUDA stream",
        got=f"{type(stream).__name__} {stream!r}",
        allowed="a stream of torch, CuPy, Numba or cuda.core, or a raw handle",
    )


def getter(library: str) -> Callable[[int], int]:
    """A function for the current stream of a library on a device; elsewhere the default stream."""
    return _GETTERS.get(library, _default)()


def _torch() -> Callable[[int], int]:
    # One of its arrays is an argument, so the library is loaded; this module never imports it.
    found: Callable[[int], int] = sys.modules["torch"]._C._cuda_getCurrentRawStream
    return found


def _cupy() -> Callable[[int], int]:
    get = sys.modules["cupy"].cuda.get_current_stream
    return lambda device: int(get(device).ptr)


def _default() -> Callable[[int], int]:
    return lambda device: 0


_GETTERS: dict[str, Callable[[], Callable[[int], int]]] = {"torch": _torch, "cupy": _cupy}
