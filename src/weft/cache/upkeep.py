"""What the cache holds, and how it is kept small."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from weft.cache import private
from weft.cache.folders import directory, is_usable

LIMIT = 1 << 30
"""Bytes the cache may hold before the entries used longest ago are removed."""

TEMPORARY = ".tmp"
"""The suffix of files that are being written."""
TOUCH_EVERY = 3600.0
"""Seconds: an entry's time of last use is kept to the hour, so a read stays a read."""
_PRUNE_EVERY = 600.0  # seconds between two scans of the whole cache, over all processes
_STAMP = "last-pruned"


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


def clear(kind: str | None = None) -> int:
    """Remove every entry (of one kind); how many there were."""
    removed = 0
    for path, _ in _own_files():
        if kind is None or _kind(path) == kind:
            removed += remove(path) and not path.endswith(TEMPORARY)
    return removed


def status() -> Status:
    """Where the cache is, whether it can be written, and what it holds."""
    root = directory()
    kinds: dict[str, Usage] = {}
    for path, stat in _own_files():
        if not path.endswith(TEMPORARY):
            before = kinds.get(_kind(path), Usage())
            kinds[_kind(path)] = Usage(before.entries + 1, before.bytes + stat.st_size)
    return Status(str(root), _trouble(root), kinds)


def prune(limit: int = LIMIT) -> int:
    """Remove the entries used longest ago until the rest fits `limit`; how many went."""
    now, removed = time.time(), 0
    entries = []
    for path, stat in _own_files():
        if not path.endswith(TEMPORARY):
            entries.append((stat.st_mtime, stat.st_size, path))
        elif now - stat.st_mtime > TOUCH_EVERY:  # its writer was killed
            remove(path)
    held = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if held <= limit:
            break
        removed += remove(path)
        held -= size
    return removed


def _kind(path: str) -> str:
    return Path(path).parent.parent.name


def _own_files() -> Iterator[tuple[str, os.stat_result]]:
    """Every file two folders below the root; files that vanish meanwhile are passed over."""
    root = str(directory())
    if not is_usable(root):
        return
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
    """Removes a file; False when it is not there any more."""
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


def touch(path: str) -> bool:
    """Makes an entry the one used last."""
    try:
        os.utime(path)
    except OSError:
        return False
    return True


def prune_if_due(root: Path) -> None:
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
    """Why nothing can be kept under the root, by trying to."""
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
