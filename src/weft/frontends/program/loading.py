"""Loads the runtime library in this process: its core, and parts for all libraries loaded later."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from typing import Any

from weft.device.sim.run import device_runtime
from weft.source import toolkit

_MODE = os.RTLD_GLOBAL | os.RTLD_NOW | os.RTLD_DEEPBIND
"""A part calls functions of other parts, not those of NVIDIA's libraries of the same names."""


def load(descriptors: Iterable[int]) -> list[ctypes.CDLL]:
    """Load open files of parts, in this order."""
    parts = [ctypes.CDLL(f"/proc/self/fd/{number}", mode=_MODE) for number in descriptors]
    _connect()
    return parts


def function(name: str) -> Any | None:
    """A function of any part that is loaded."""
    return getattr(ctypes.CDLL(None), name, None)


def _connect() -> None:
    """Give the parts that are loaded what they need of this process, and the reverse."""
    if set_conditional := function("weft_set_conditional"):
        set_conditional.argtypes = (ctypes.c_uint64, ctypes.c_uint)
        device_runtime.set_conditional = set_conditional
    if curand := function("weft_curand"):
        curand(os.fsencode(toolkit.shared_library("libcurand.so") or ""))
