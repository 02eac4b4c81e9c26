"""Defines the callbacks of the runtime library for a timeline; mirrors `shim/trace.h`."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_uint64

from weft.values.time.timeline import END, MARK, POP, PUSH, START

RANGES = (PUSH, POP, START, END, MARK)
"""The activities of `RangeEvent`."""


class Trace(ctypes.Structure):
    """The callbacks; their names are methods of `ProgramTimeline`."""

    _fields_ = (
        ("called", CFUNCTYPE(None, c_char_p, c_int)),
        ("range", CFUNCTYPE(None, c_int, c_uint64, c_char_p)),
        ("node", CFUNCTYPE(None, c_uint64, POINTER(c_uint64), c_uint64)),
    )
