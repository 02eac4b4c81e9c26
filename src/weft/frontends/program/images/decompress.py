"""Decompresses device code in fat binaries: nvcc 13 writes Zstandard, older ones LZ4."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import importlib
from collections.abc import Callable
from typing import Any

from weft.errors import MissingDependency, PtxError

_MODULES = ("compression.zstd", "backports.zstd", "zstandard")
"""Python's own from 3.14 on, and packages with a function of the same name."""


def zstd(data: bytes, size: int) -> bytes:
    """Decompress one Zstandard frame of `size` bytes."""
    plain = _zstd()(data, size)
    if len(plain) != size:
        raise PtxError("compressed device code is damaged", got=f"{len(plain)} of {size} bytes")
    return plain


@functools.cache
def _zstd() -> Callable[[bytes, int], bytes]:
    """A decompressor: a module of Python, or the library of the system."""
    for name in _MODULES:
        try:
            module: Any = importlib.import_module(name)
        except ImportError:
            continue
        return functools.partial(_by_module, module)
    if path := ctypes.util.find_library("zstd"):
        return functools.partial(_by_library, ctypes.CDLL(path))
    raise MissingDependency(
        "the PTX is compressed with Zstandard, and nothing here decompresses it",
        allowed="Python 3.14, the package zstandard, or the library libzstd",
        next="pip install zstandard, or build the device code with --no-compress",
    )


def _by_module(module: Any, data: bytes, size: int) -> bytes:
    try:
        return bytes(module.decompress(data))
    except module.ZstdError:  # `zstd` says that it is damaged
        return b""


def _by_library(library: ctypes.CDLL, data: bytes, size: int) -> bytes:
    library.ZSTD_decompress.restype = ctypes.c_size_t
    sizes = (ctypes.c_size_t(size), ctypes.c_size_t(len(data)))
    room = ctypes.create_string_buffer(max(size, 1))
    done = library.ZSTD_decompress(room, sizes[0], data, sizes[1])
    if library.ZSTD_isError(ctypes.c_size_t(done)):
        return b""
    return room.raw[:done]


def lz4(data: bytes, size: int) -> bytes:
    """Decompress an LZ4 block: literals, then a copy of earlier bytes, repeated."""
    plain, at = bytearray(), 0
    try:
        while at < len(data):
            token = data[at]
            literals, at = _length(data, at + 1, token >> 4)
            plain += data[at : at + literals]
            at += literals
            if at >= len(data):  # the last sequence has no copy
                break
            distance = int.from_bytes(data[at : at + 2], "little")
            count, at = _length(data, at + 2, token & 15)
            _repeat(plain, distance, count + 4)
    except IndexError:  # it ends in the middle of a length
        plain.clear()
    if len(plain) != size:
        raise PtxError("compressed device code is damaged", got=f"{len(plain)} of {size} bytes")
    return bytes(plain)


def _length(data: bytes, at: int, first: int) -> tuple[int, int]:
    """A length: 15 goes on in the next bytes, 255 in the one after each."""
    length = first
    more = first == 15
    while more:
        length += data[at]
        more = data[at] == 255
        at += 1
    return length, at


def _repeat(plain: bytearray, distance: int, count: int) -> None:
    """Append `count` bytes from `distance` back; they may overlap with what is appended."""
    if not 0 < distance <= len(plain):
        raise IndexError
    piece = plain[-distance:]
    whole, rest = divmod(count, distance)
    plain += piece * whole + piece[:rest]
