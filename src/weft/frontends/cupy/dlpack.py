"""Arrays of other libraries, shared by DLPack: also those on a GPU.

NumPy refuses memory of a GPU. The memory of a simulated one is memory of the host.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from weft.device.arrays import DlTensor, capsule_pointer
from weft.errors import Error
from weft.frontends.cupy.host_objects import to_device
from weft.frontends.cupy.modules import Interface

_GPU = 2
"""kDLCUDA. NumPy takes pinned and managed memory itself."""
_KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}
"""DLPack's code of a type -> NumPy's letter."""
_READ_ONLY = 1

_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DlTensor),
    )


def from_dlpack(array: Any, **_: Any) -> Any:
    """Return an array that shares the memory of another library's array."""
    if array.__dlpack_device__()[0] != _GPU:
        return to_device(np.from_dlpack(array))
    try:
        capsule = array.__dlpack__(max_version=(1, 0))
    except TypeError:  # the library knows only the first layout
        capsule = array.__dlpack__()
    # The capsule frees the tensor when it is itself freed, unless a consumer has renamed it.
    return to_device(np.asarray(Interface(_facts(capsule), capsule)))


def _facts(capsule: Any) -> dict[str, Any]:
    """Return NumPy's description of a capsule's tensor."""
    read_only = False
    if _is_valid(capsule, b"dltensor_versioned"):
        made = _Versioned.from_address(capsule_pointer(capsule, b"dltensor_versioned"))
        tensor, read_only = made.tensor, bool(made.flags & _READ_ONLY)
    else:
        tensor = DlTensor.from_address(capsule_pointer(capsule, b"dltensor"))
    if tensor.code not in _KINDS or tensor.lanes != 1:
        raise Error(
            "NumPy, which keeps the arrays of cupy here, has no such type",
            got=f"DLPack's type {tensor.code} of {tensor.bits} bits, {tensor.lanes} lanes",
            allowed="integers, floats, complex numbers and bool",
            next="convert the array in its own library first, e.g. bfloat16 to float32",
        )
    size = tensor.bits // 8
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(s * size for s in tensor.strides[: tensor.ndim]) if tensor.strides else None
    return {
        "version": 3,
        "shape": shape,
        "strides": strides,
        "typestr": np.dtype(f"{_KINDS[tensor.code]}{size}").str,
        "data": ((tensor.data or 0) + tensor.byte_offset, read_only),
    }
