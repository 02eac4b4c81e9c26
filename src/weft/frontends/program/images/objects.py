"""Finds the fat binaries in object files and in archives of them."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from weft.errors import PtxError

_ELF, _ARCHIVE = b"\x7fELF", b"!<arch>\n"
_GPU = 190  # EM_CUDA
_SECTIONS = (b".nv_fatbin", b"__nv_relfatbin")
_SECTION = struct.Struct("<II8x8xQQ")
"""Name, type, offset and size of a section."""
_MEMBER_BYTES = 60
_FAT_BINARY = struct.Struct("<IHHQ")


def is_object(data: bytes) -> bool:
    """True if data are an object file or an archive."""
    return data.startswith((_ELF, _ARCHIVE))


def fat_binaries(data: bytes) -> Iterator[bytes]:
    """All fat binaries in an object file or an archive."""
    if data.startswith(_ARCHIVE):
        for member in _members(data):
            if member.startswith(_ELF):
                yield from fat_binaries(member)
        return
    if struct.unpack_from("<H", data, 18)[0] == _GPU:
        raise PtxError(
            "machine code of a GPU cannot be simulated", got="a cubin", next="load PTX instead"
        )
    for section in _sections(data):
        yield from _split(section)


def _split(section: bytes) -> Iterator[bytes]:
    """Split a section: a linked file has the fat binaries of its objects in one."""
    at = 0
    while at + _FAT_BINARY.size <= len(section):
        magic, _, header, size = _FAT_BINARY.unpack_from(section, at)
        if not magic:  # padding
            at += 8
            continue
        yield section[at : at + header + size]
        at += header + size


def _sections(data: bytes) -> Iterator[bytes]:
    (table,) = struct.unpack_from("<Q", data, 40)
    entry, count, names_at = struct.unpack_from("<HHH", data, 58)
    rows = [_SECTION.unpack_from(data, table + i * entry) for i in range(count)]
    _, _, names, _ = rows[names_at]
    for name, _, offset, size in rows:
        if data[names + name : data.index(b"\0", names + name)] in _SECTIONS:
            yield data[offset : offset + size]


def _members(data: bytes) -> Iterator[bytes]:
    at = len(_ARCHIVE)
    while at + _MEMBER_BYTES <= len(data):
        size = int(data[at + 48 : at + 58])
        at += _MEMBER_BYTES
        yield data[at : at + size]
        at += size + size % 2
