"""Extracts PTX from the containers of device code: fat binaries, and host objects that hold them.

A fat binary is a header (magic, version, size of the header, size of what follows), then entries.
An entry begins with its kind, the size of its header and the size of its data; its flags say how
the data are compressed. nvcc's `--concat` compresses several entries as one.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from weft.errors import PtxError
from weft.frontends.program.images import decompress, objects

_HEADER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQII8x8xQ8xQ")
"""Kind, version, size of the header, size of the data with padding and without, offset of the
options, flags, size of the data before compression."""
_PART = struct.Struct("<HHIQ")
"""The head of an entry in a concatenation: its data begin at the offset in the third field."""
_PART_OPTIONS = 0x40
_MAGIC = 0xBA55ED50
_PTX, _MACHINE_CODE, _LTO_IR, _CONCATENATION = 1, 2, 8, 0x100
_KINDS = {_MACHINE_CODE: "machine code (SASS)", _LTO_IR: "LTO-IR"}
_LZ4, _ZSTD = 0x2000, 0x8000
_TARGET = re.compile(r"^\s*\.target\s+(?:sm|compute)_(\d+)", re.MULTILINE)


class _Entry(NamedTuple):
    kind: int
    data: bytes


class Contents(NamedTuple):
    """The PTX texts of device code, and the names of what else is in it."""

    texts: list[str]
    others: str


def texts(data: bytes) -> list[str]:
    """All PTX texts in device code."""
    return contents(data).texts


def contents(data: bytes) -> Contents:
    """Read device code: PTX, a fat binary, an object file, an archive of objects."""
    if data[:4] == _MAGIC.to_bytes(4, "little"):
        entries = list(_entries(data))
    elif objects.is_object(data):
        entries = [entry for each in objects.fat_binaries(data) for entry in _entries(each)]
    elif b".version" in data:
        return Contents([_text(data)], "")
    else:
        got = f"{int.from_bytes(data[:4], 'little'):#x}"
        raise PtxError("this is not a fat binary", got=got, allowed=f"{_MAGIC:#x}")
    ptx_texts = [_text(entry.data) for entry in entries if entry.kind == _PTX]
    others = {_KINDS.get(e.kind, f"kind {e.kind}") for e in entries if e.kind != _PTX}
    return Contents(ptx_texts, ", ".join(sorted(others)))


def architecture(text: str) -> int:
    """The compute capability that a PTX text is for, as 80; 0 where it does not say."""
    match = _TARGET.search(text)
    return int(match[1]) if match else 0


def _entries(data: bytes) -> Iterator[_Entry]:
    magic, _, at, size = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise PtxError("this is not a fat binary", got=f"{magic:#x}", allowed=f"{_MAGIC:#x}")
    end = at + size
    while at + _PART.size <= end:
        kind, _, header, length = _PART.unpack_from(data, at)
        content = data[at + header : at + header + length]
        if kind in (_PTX, _CONCATENATION):
            content = _plain(data, at, content)
        if kind == _CONCATENATION:
            yield from _parts(data[at : at + header], content)
        else:
            yield _Entry(kind, content)
        # Entries follow each other without gaps.
        at += header + length


def _plain(data: bytes, at: int, content: bytes) -> bytes:
    """The data of an entry, decompressed."""
    if len(data) < at + _ENTRY.size:
        return content
    *_, used, _, flags, size = _ENTRY.unpack_from(data, at)
    if flags & _ZSTD:
        return decompress.zstd(content[:used], size)
    if flags & _LZ4:
        return decompress.lz4(content[:used], size)
    return content


def _parts(header: bytes, content: bytes) -> Iterator[_Entry]:
    """The entries of a concatenation, which its own header lists."""
    (count,) = struct.unpack_from("<I", header, _PART_OPTIONS)
    at = _PART_OPTIONS + 8
    for _ in range(count):
        kind, _, offset, size = _PART.unpack_from(header, at)
        yield _Entry(kind, content[offset : offset + size])
        options, length = struct.unpack_from("<II", header, at + _PART_OPTIONS)
        at += options + -(-length // 8) * 8 + 8


def _text(data: bytes) -> str:
    return data.rstrip(b"\0").decode()
