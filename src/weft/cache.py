"""The on-disk cache of compiled PTX and machine code, shared by every process of a user.

One file an entry, `<root>/<kind>/<first two digits>/<key>`: a checksum, then the data. Files are
written beside their place and moved into it, so a reader sees a whole entry or none. A cache that
cannot be used is only slower: nothing here raises for a full disk or a read-only home, `status()`
says what is wrong.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from weft.errors import CacheError

LIMIT = 1 << 30
"""Bytes the cache may hold before the entries used longest ago are removed."""

_CHECKSUM = hashlib.sha256
_CHECKSUM_BYTES = 32
_PRUNE_EVERY = 600.0  # seconds between two scans of the whole cache, over all processes
_TOUCH_EVERY = 3600.0  # an entry's time of last use is kept to the hour: a read stays a read
_STAMP = "last-pruned"
_TEMPORARY = ".tmp"


@dataclass(frozen=True)
class Usage:
    """How much of the cache one kind of entry takes."""

    entries: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Status:
    """What `weft cache` shows; `trouble` is empty when the cache can be written."""

    path: str
    trouble: str
    kinds: Mapping[str, Usage] = field(default_factory=dict)

    @property
    def entries(self) -> int:
        return sum(usage.entries for usage in self.kinds.values())

    @property
    def bytes(self) -> int:
        return sum(usage.bytes for usage in self.kinds.values())


def directory() -> Path:
    """`WEFT_CACHE_DIR`, or `weft` in the platform's cache directory."""
    if chosen := os.environ.get("WEFT_CACHE_DIR"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.path.expanduser(base)) / "weft"


def key(*parts: object) -> str:
    """A digest of typed parts: `key("1")` and `key(1)`, `key("ab")` and `key("a", "b")` differ."""
    digest = hashlib.sha256()
    for chunk in _encode(parts):
        digest.update(chunk)
    return digest.hexdigest()


def get(kind: str, key: str) -> bytes | None:
    """The data stored under `key`, or None; a damaged entry is removed and is a miss."""
    path = _place(kind, key)
    try:
        with open(path, "rb") as file:
            used = os.fstat(file.fileno()).st_mtime
            stored = file.read()
    except OSError:
        return None
    checksum, data = stored[:_CHECKSUM_BYTES], stored[_CHECKSUM_BYTES:]
    if _CHECKSUM(data).digest() != checksum:
        _remove(path)
        return None
    if time.time() - used > _TOUCH_EVERY:
        _touch(path)
    return data


def put(kind: str, key: str, data: bytes) -> bool:
    """Store `data`; False when the cache cannot be written."""
    path = _place(kind, key)
    temporary = f"{path}.{os.urandom(8).hex()}{_TEMPORARY}"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(temporary, "xb") as file:
            file.write(_CHECKSUM(data).digest())
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        _remove(temporary)
        return False
    _prune_if_due(directory())
    return True


def clear(kind: str | None = None) -> int:
    """Remove every entry (of one kind); how many there were."""
    removed = 0
    for path, _ in _files(directory()):
        if kind is None or _kind(path) == kind:
            removed += _remove(path) and not path.endswith(_TEMPORARY)
    return removed


def status() -> Status:
    """Where the cache is, whether it can be written, and what it holds."""
    root = directory()
    kinds: dict[str, Usage] = {}
    for path, stat in _files(root):
        if not path.endswith(_TEMPORARY):
            before = kinds.get(_kind(path), Usage())
            kinds[_kind(path)] = Usage(before.entries + 1, before.bytes + stat.st_size)
    return Status(str(root), _trouble(root), kinds)


def prune(limit: int = LIMIT) -> int:
    """Remove the entries used longest ago until the rest fits `limit`; how many went."""
    now, removed = time.time(), 0
    entries = []
    for path, stat in _files(directory()):
        if not path.endswith(_TEMPORARY):
            entries.append((stat.st_mtime, stat.st_size, path))
        elif now - stat.st_mtime > _TOUCH_EVERY:  # its writer was killed
            _remove(path)
    held = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if held <= limit:
            break
        removed += _remove(path)
        held -= size
    return removed


def _encode(value: object) -> Iterator[bytes]:
    """Unambiguous bytes of a value: its type, its length, its content."""
    if isinstance(value, Mapping):
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


def _place(kind: str, key: str) -> str:
    if not re.fullmatch(r"[a-z0-9_-]+", kind) or not re.fullmatch(r"[0-9a-f]{8,}", key):
        raise CacheError(
            "not a name of a cache entry",
            got=f"kind {kind!r}, key {key!r}",
            allowed="a kind of a-z 0-9 _ - and a key made by weft.cache.key",
        )
    return os.path.join(directory(), kind, key[:2], key)


def _kind(path: str) -> str:
    return Path(path).parent.parent.name


def _files(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Every file two folders below the root; files that vanish meanwhile are passed over."""
    for folder in _folders(root):
        for shard in _folders(folder):
            for entry in _scan(shard):
                try:
                    yield entry.path, entry.stat(follow_symlinks=False)
                except OSError:
                    continue


def _folders(root: str | Path) -> list[str]:
    return [entry.path for entry in _scan(root) if entry.is_dir(follow_symlinks=False)]


def _scan(root: str | Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(root) as entries:
            return list(entries)
    except OSError:
        return []


def _remove(path: str) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


def _touch(path: str) -> bool:
    try:
        os.utime(path)
    except OSError:
        return False
    return True


def _prune_if_due(root: Path) -> None:
    """Scan at most once in ten minutes: the stamp's time is shared by all processes."""
    stamp = root / _STAMP
    try:
        if stamp.exists() and time.time() - stamp.stat().st_mtime <= _PRUNE_EVERY:
            return
        stamp.touch()
    except OSError:  # another process removed it meanwhile, or the disk filled up
        return
    prune()


def _trouble(root: Path) -> str:
    """Why nothing can be written under the root, by trying to."""
    probe = root / f"probe.{os.urandom(8).hex()}{_TEMPORARY}"
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        return f"{error.strerror}: {error.filename}"
    return ""
