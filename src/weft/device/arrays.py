"""Arrays of any library as plain memory: address, dtype, shape, through the common protocols."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

CPU_DEVICES = (1, 3)
"""DLPack's numbers for host memory and pinned host memory."""

_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}


@dataclass(frozen=True, slots=True)
class HostArray:
    """Memory on the host; `owner` keeps it alive."""

    address: int
    nbytes: int
    dtype: str
    itemsize: int
    contiguous: bool
    writable: bool
    owner: object


class NotHostMemory(Exception):
    """The array is on a device; its text says which."""


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype, _get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def is_array(value: object) -> bool:
    """Does the value offer its memory by one of the protocols?"""
    return isinstance(value, np.ndarray) or any(
        hasattr(value, name)
        for name in ("__dlpack__", "__array_interface__", "__cuda_array_interface__")
    )


def address(a: Any) -> int:
    """Where a NumPy array begins that can be written and has elements; `ctypes.data` is slow."""
    return ctypes.addressof(ctypes.c_char.from_buffer(a))


def view(value: Any) -> HostArray:
    """The memory of an array; raises NotHostMemory, BufferError or TypeError."""
    if isinstance(value, np.ndarray):
        return _numpy(value)
    if hasattr(value, "__cuda_array_interface__"):
        raise NotHostMemory("a CUDA array")
    if hasattr(value, "__dlpack__"):
        return _dlpack(value)
    return _numpy(np.asarray(value))


def _numpy(a: np.ndarray[Any, Any]) -> HostArray:
    dtype = a.dtype
    name = "struct" if dtype.names else dtype.name if dtype.isnative else dtype.str
    return HostArray(
        a.ctypes.data, a.nbytes, name, a.itemsize, a.flags.c_contiguous, a.flags.writeable, a
    )


def _dlpack(value: Any) -> HostArray:
    kind, number = value.__dlpack_device__()
    if kind not in CPU_DEVICES:
        raise NotHostMemory(f"device {int(kind)}:{int(number)}")
    capsule = value.__dlpack__()
    t = _Tensor.from_address(_get_pointer(capsule, b"dltensor"))
    shape = [t.shape[i] for i in range(t.ndim)]
    count = 1
    for n in shape:
        count *= n
    itemsize = (t.bits * t.lanes + 7) // 8
    dense = not t.strides or _dense(shape, [t.strides[i] for i in range(t.ndim)])
    family = _CODES.get(t.code, f"type{t.code}")
    name = family if family == "bool" else f"{family}{t.bits}"
    address = (t.data or 0) + t.byte_offset
    return HostArray(address, count * itemsize, name, itemsize, dense, True, (value, capsule))


def _dense(shape: list[int], strides: list[int]) -> bool:
    if 0 in shape:
        return True
    expected = 1
    for n, s in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and s != expected:
            return False
        expected *= n
    return True
