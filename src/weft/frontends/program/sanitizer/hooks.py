"""Defines the sanitizer callbacks of the runtime library; mirrors `shim/watch.h`."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_uint64, c_void_p

CREATED, DESTROYED, RECORDED, WAITS = range(4)
HOST_WAITS_STREAM, HOST_WAITS_EVENT, HOST_WAITS_DEVICE, HOST_FUNCTION = range(4, 8)
WORK_WAITS, STREAMS_JOINED = range(8, 10)
"""Kinds of events."""

DEVICE, PINNED, MANAGED = range(3)
"""Kinds of allocations."""


class Box(ctypes.Structure):
    """A pitched region of memory."""

    _fields_ = (("start", c_uint64), ("pitch", c_uint64), ("plane", c_uint64))


class HostCopy(ctypes.Structure):
    """A copy, or a fill if it has no source."""

    _fields_ = (
        ("call", c_char_p),
        ("to", Box),
        ("source", Box),
        *((name, c_uint64) for name in ("width", "height", "depth", "to_host")),
    )


class Hooks(ctypes.Structure):
    """The callbacks; their names are methods of `ProgramSanitizer`."""

    _fields_ = (
        ("happened", CFUNCTYPE(None, c_int, c_uint64, c_uint64)),
        ("submitted", CFUNCTYPE(c_uint64, c_uint64)),
        ("begins", CFUNCTYPE(None, c_uint64)),
        ("ends", CFUNCTYPE(None, c_uint64)),
        ("copied", CFUNCTYPE(None, POINTER(HostCopy))),
        ("allocated", CFUNCTYPE(None, c_char_p, c_uint64, c_uint64, c_int, c_int)),
        ("freed", CFUNCTYPE(None, c_char_p, c_uint64, c_uint64)),
        ("host_touched", CFUNCTYPE(None, c_uint64, c_int, c_uint64)),
        ("accessed", CFUNCTYPE(None, c_char_p, *[c_uint64] * 4, POINTER(c_void_p), c_int)),
    )
