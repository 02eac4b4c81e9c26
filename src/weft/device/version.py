"""Which weft is running: part of the key of everything that is kept on disk."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_FOLDERS = ("ir", "ptx", "device")


@functools.cache
def generator() -> str:
    """The files that make code, by size and time, so that no edit meets what was made before."""
    return "|".join(
        f"{path[len(_ROOT) :]}:{stat.st_size}:{stat.st_mtime_ns}"
        for folder in _FOLDERS
        for path, stat in sorted(_files(os.path.join(_ROOT, folder)))
    )


def _files(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files(entry.path)
            elif entry.name.endswith(".py"):
                yield entry.path, entry.stat()
