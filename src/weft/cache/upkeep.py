"""Reports and limits the size of the cache."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path

from weft.cache import private
from weft.cache.folders import directory, is_usable, warn_once
from weft.records import dataclass

LIMIT = 1 << 30
"""Bytes above which the least recently used entries are removed."""

TEMPORARY = ".tmp"
"""The suffix of temporary files."""
TOUCH_EVERY = 3600.0
"""Seconds between updates of an entry's last use, so that most reads do not write."""
_PRUNE_EVERY = 600.0  # seconds between two scans of the whole cache, over all processes
_STAMP = "last-pruned"


@dataclass(frozen=True)
class Usage:
    """The entries and bytes of one kind."""

    entries: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class CacheStatus:
    """The state for `weft cache`; `trouble` is empty if the cache is writable."""

    path: str
    trouble: str
    kinds: Mapping[str, Usage] = field(default_factory=dict)

    @property
    def entries(self) -> int:
        return sum(usage.entries for usage in self.kinds.values())

    @property
    def bytes(self) -> int:
        return sum(usage.bytes for usage in self.kinds.values())


def clear(kind: str | None = None) -> int:
    """Remove all entries, or those of one kind; return their number."""
    removed = 0
    for path, _ in _own_files():
        if kind is None or _kind(path) == kind:
            removed += remove(path) and not path.endswith(TEMPORARY)
    return removed


def status() -> CacheStatus:
    """The path of the cache, whether it is writable, and its contents."""
    root = directory()
    kinds: dict[str, Usage] = {}
    for path, stat in _own_files():
        if not path.endswith(TEMPORARY):
            before = kinds.get(_kind(path), Usage())
            kinds[_kind(path)] = Usage(before.entries + 1, before.bytes + stat.st_size)
    return CacheStatus(str(root), _trouble(root), kinds)


def prune(limit: int = LIMIT) -> int:
    """Remove the least recently used entries until the rest fits; return their number."""
    now, removed = time.time(), 0
    entries = []
    for path, stat in _own_files():
        if not path.endswith(TEMPORARY):
            entries.append((stat.st_mtime, stat.st_size, path))
        elif now - stat.st_mtime > TOUCH_EVERY:  # its writer was killed
            remove(path)
    held = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        # Oldest first: entries are sorted by their time of last use.
        if held <= limit:
            break
        removed += remove(path)
        held -= size
    return removed


def _kind(path: str) -> str:
    return Path(path).parent.parent.name


def _own_files() -> Iterator[tuple[str, os.stat_result]]:
    """All files two folders below the root; files that vanish are skipped."""
    root = str(directory())
    if not is_usable(root):
        return
    # Folders that others can modify are skipped: their contents are not weft's.
    for folder in _folders(root):
        for shard in filter(is_usable, _folders(folder)):
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


def remove(path: str) -> bool:
    """Remove a file; False if it does not exist."""
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


def touch(path: str) -> bool:
    """Mark an entry as just used."""
    try:
        os.utime(path)
    except OSError:
        return False
    return True


def prune_if_due(root: Path) -> None:
    """Prune at most once in ten minutes; the stamp file is shared by all processes."""
    stamp = root / _STAMP
    try:
        if stamp.exists() and time.time() - stamp.stat().st_mtime <= _PRUNE_EVERY:
            return
        stamp.touch()
    except OSError:  # another process removed it meanwhile, or the disk filled up
        return
    prune()


def warn_if_unusable() -> None:
    """Warn, once, if nothing can be stored: for what takes long to compile again."""
    if trouble := _trouble(directory()):
        warn_once(str(directory()), f"{trouble}: every run compiles again", "set WEFT_CACHE_DIR")


def _trouble(root: Path) -> str:
    """The reason why the root is not writable, found by a trial write."""
    probe = root / f"probe.{os.urandom(8).hex()}{TEMPORARY}"
    try:
        private.secure(str(root), create=True)
        private.create(str(probe), b"")
        probe.unlink()
    except private.Untrusted as reason:
        return str(reason)
    except OSError as error:
        return f"{error.strerror}: {error.filename}"
    return ""
