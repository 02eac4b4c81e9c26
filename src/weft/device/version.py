"""The identity of the running weft: part of the key of everything that is stored on disk."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterator
from hashlib import blake2b

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_FOLDERS = ("ir", "ptx", "device")
_STARTED = time.time()


@functools.cache
def generator() -> str:
    """A digest of the files that make code: entries made by other versions of them are not found.

    It depends on the contents alone, so that a cache that is carried to another machine, as those
    of continuous integration are, serves the same weft there. A process in which files of two
    versions may be loaded has a digest of its own.
    """
    # Faster than SHA-256 on CPUs without instructions for that: the files are a few megabytes.
    digest = blake2b(digest_size=32)
    paths = _paths()
    for path in paths:
        with open(path, "rb", buffering=0) as file:  # read whole: a buffer would be a copy
            text = file.read()
        digest.update(f"{path[len(_ROOT) :]}:{len(text)}:".encode() + text)
    if _edited(paths):  # after the last one was read
        digest.update(f"{os.getpid()} {_STARTED}".encode())
    return digest.hexdigest()


@functools.cache
def look_again() -> None:
    """Check the files again, before those that make code are loaded, maybe long after the start.

    They are loaded at the first cache miss. Code that files of two versions made would crash the
    processes that find it in the cache.
    """
    if generator.cache_info().currsize and _edited(_paths()):
        generator.cache_clear()


def _edited(paths: list[str]) -> bool:
    """Return whether a file has changed since this process began to load them."""
    newest = max(os.stat(path).st_mtime for path in paths)
    return _STARTED < newest <= time.time()  # later: the clock of another machine


def _paths() -> list[str]:
    return [p for folder in _FOLDERS for p in sorted(_files(os.path.join(_ROOT, folder)))]


def _files(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.path
            elif entry.name != "__pycache__" and entry.is_dir():
                yield from _files(entry.path)
