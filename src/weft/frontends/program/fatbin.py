"""Extracts PTX from a fat binary, nvcc's container of device code in a program.

A header (magic, version, size of the header, size of what follows), then entries: kind, flags, size
of the entry's header, size of its data. An entry of kind 1 is PTX, padded with zeros.
"""

from __future__ import annotations

import struct

from weft.errors import PtxError

_HEADER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQ")
_MAGIC, _PTX = 0xBA55ED50, 1


def texts(data: bytes) -> list[str]:
    """All PTX texts in a fat binary; a module of the driver API may be PTX itself."""
    if not data.startswith(_MAGIC.to_bytes(4, "little")) and b".version" in data:
        return [data.rstrip(b"\0").decode()]
    magic, _, at, size = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise PtxError("this is no fat binary", got=f"{magic:#x}", allowed=f"{_MAGIC:#x}")
    ptx_texts, end = [], at + size
    while at + _ENTRY.size <= end:
        kind, _, header, length = _ENTRY.unpack_from(data, at)
        if kind == _PTX:
            ptx_texts.append(_text(data[at + header : at + header + length]))
        # Entries follow each other without gaps.
        at += header + length
    return ptx_texts


def _text(data: bytes) -> str:
    if b".version" not in data[:4096]:
        raise PtxError("the PTX in the program is compressed", next="build it with --no-compress")
    return data.rstrip(b"\0").decode()
