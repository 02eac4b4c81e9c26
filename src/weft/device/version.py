"""Which weft is running: part of the key of everything that is kept on disk."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from hashlib import sha256

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_FOLDERS = ("ir", "ptx", "device")


@functools.cache
def generator() -> str:
    """A digest of the files that make code: what an edited one made is not found again.

    It depends on the contents alone, so that a cache that is carried to another machine, as those
    of continuous integration are, serves the same weft there.
    """
    digest = sha256()
    for folder in _FOLDERS:
        for path in sorted(_files(os.path.join(_ROOT, folder))):
            with open(path, "rb") as file:
                text = file.read()
            digest.update(f"{path[len(_ROOT) :]}:{len(text)}:".encode() + text)
    return digest.hexdigest()


def _files(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files(entry.path)
            elif entry.name.endswith(".py"):
                yield entry.path
