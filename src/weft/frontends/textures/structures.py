"""Structures and constants of the CUDA driver's functions for arrays, textures and surfaces."""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p

HOST, DEVICE, ARRAY = 1, 2, 3
"""CUmemorytype."""
LAYERED, SURFACE, CUBEMAP = 1, 2, 4
"""Flags of an array."""
READ_AS_INTEGER, NORMALIZED, SRGB = 1, 2, 16
"""Flags of a texture."""
ADDRESSES = ("wrap", "clamp", "mirror", "border")
FILTERS = ("nearest", "linear")
RESOURCES = {"array": 0, "linear": 2, "pitch": 3}
FORMATS = {
    "uint8": 1, "uint16": 2, "uint32": 3, "int8": 8, "int16": 9, "int32": 10, "float16": 16,
    "float32": 32,
}  # fmt: skip
"""Dtype -> CUarray_format."""


class ArrayDescriptor(ctypes.Structure):
    """CUDA_ARRAY3D_DESCRIPTOR."""

    _fields_ = (
        ("width", c_size_t), ("height", c_size_t), ("depth", c_size_t),
        ("format", c_int), ("channels", c_uint), ("flags", c_uint),
    )  # fmt: skip


class _Side(ctypes.Structure):
    """One side of a copy."""

    _fields_ = (
        ("x", c_size_t), ("y", c_size_t), ("z", c_size_t), ("level", c_size_t), ("kind", c_int),
        ("host", c_void_p), ("device", c_uint64), ("array", c_void_p), ("reserved", c_void_p),
        ("pitch", c_size_t), ("height", c_size_t),
    )  # fmt: skip


class TextureCopy(ctypes.Structure):
    """CUDA_MEMCPY3D."""

    _fields_ = (
        ("source", _Side), ("to", _Side),
        ("width", c_size_t), ("height", c_size_t), ("depth", c_size_t),
    )  # fmt: skip


class _Memory(ctypes.Structure):
    """Linear memory: its size in bytes, or the width, the height and the pitch."""

    _fields_ = (
        ("address", c_uint64), ("format", c_int), ("channels", c_uint), ("sizes", c_size_t * 3),
    )  # fmt: skip


class _Any(ctypes.Union):
    _fields_ = (("array", c_void_p), ("memory", _Memory), ("reserved", c_int * 32))


class Resource(ctypes.Structure):
    """CUDA_RESOURCE_DESC."""

    _fields_ = (("kind", c_int), ("of", _Any), ("flags", c_uint))


class Sampler(ctypes.Structure):
    """CUDA_TEXTURE_DESC."""

    _fields_ = (
        ("address", c_int * 3), ("filter", c_int), ("flags", c_uint), ("anisotropy", c_uint),
        ("level_filter", c_int), ("level_bias", c_float), ("level_range", c_float * 2),
        ("border", c_float * 4), ("reserved", c_int * 12),
    )  # fmt: skip
