"""Computes keys of entries: digests of everything that an entry depends on."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Mapping

from weft.errors import CacheError


def key(*parts: object) -> str:
    """A digest of typed parts: `key("1")` and `key(1)`, `key("ab")` and `key("a", "b")` differ."""
    digest = hashlib.sha256()
    for chunk in _encode(parts):
        digest.update(chunk)
    return digest.hexdigest()


def _encode(value: object) -> Iterator[bytes]:
    """Unambiguous bytes of a value: its type, length and content."""
    if isinstance(value, Mapping):
        # Equal mappings must give equal keys, whatever their insertion order.
        value = sorted(value.items(), key=repr)
    if isinstance(value, (tuple, list)):
        yield b"(" + struct.pack("<Q", len(value))
        for item in value:
            yield from _encode(item)
    elif value is None or isinstance(value, (str, bytes, bool, int, float)):
        data = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
        yield type(value).__name__.encode() + struct.pack("<Q", len(data))
        yield data
    else:
        raise CacheError(
            "a part of a cache key has no stable bytes",
            got=type(value).__name__,
            allowed="str, bytes, int, float, bool, None, and tuples, lists and mappings of them",
        )
