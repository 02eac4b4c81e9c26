"""Reads and writes entries: one file `<root>/<kind>/<first two digits>/<key>` each.

A file has a keyed digest, then the data. It is written under a temporary name and renamed, so that
a reader sees a complete entry or none. The digest is an HMAC of the entry's name and data under a
secret that only this user can read (`<root>/secret`). An entry that weft did not write under this
name in this folder is a miss.
"""

from __future__ import annotations

import errno
import hmac
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from weft.cache import folders, private, upkeep
from weft.cache.folders import directory, is_usable
from weft.errors import CacheError

_DIGEST = "sha256"
_DIGEST_BYTES = 32
_SECRET = "secret"
_SECRET_BYTES = 32
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors for a full disk, an exceeded quota, and a file size limit."""


def get(kind: str, key: str) -> bytes | None:
    """The data under `key`, or None; an entry that fails authentication is removed."""
    place = _place(kind, key)
    if not is_usable(place.folder):
        return None
    try:
        with private.open_own(place.path) as file:
            used = os.fstat(file.fileno()).st_mtime
            stored = file.read()
    except OSError:
        return None
    except private.Untrusted:
        upkeep.remove(place.path)
        return None
    digest, data = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
    secret = _secret(place.root)
    if secret is None:
        return None
    if not hmac.compare_digest(_digest(secret, kind, key, data), digest):
        upkeep.remove(place.path)
        return None
    # The modification time records the last use for pruning.
    if time.time() - used > upkeep.TOUCH_EVERY:
        upkeep.touch(place.path)
    return data


def put(kind: str, key: str, data: bytes) -> bool:
    """Store `data`; False if the cache is unusable."""
    place = _place(kind, key)
    if not is_usable(place.folder, create=True):
        return False
    secret = _secret(place.root)
    if secret is None or not _write(place.path, _digest(secret, kind, key, data) + data):
        return False
    upkeep.prune_if_due(Path(place.root))
    return True


class _Place(NamedTuple):
    """The path of an entry."""

    root: str
    folder: str
    path: str


def _place(kind: str, key: str) -> _Place:
    if not re.fullmatch(r"[a-z0-9_-]+", kind) or not re.fullmatch(r"[0-9a-f]{8,}", key):
        raise CacheError(
            "not a name of a cache entry",
            got=f"kind {kind!r}, key {key!r}",
            allowed="a kind of a-z 0-9 _ - and a key made by weft.cache.key",
        )
    root = str(directory())
    folder = os.path.join(root, kind, key[:2])
    return _Place(root, folder, os.path.join(folder, key))


def _secret(root: str) -> bytes | None:
    """This user's HMAC key, created on first use; None if it cannot be stored."""
    path = os.path.join(root, _SECRET)
    # Twice: a damaged secret is removed and written again.
    for _ in range(2):
        try:
            with private.open_own(path, secret=True) as file:
                secret = file.read()
            if len(secret) == _SECRET_BYTES:
                return secret
            upkeep.remove(path)
        except FileNotFoundError:
            pass
        except private.Untrusted:
            upkeep.remove(path)
        except OSError:
            return None
        _write(path, os.urandom(_SECRET_BYTES), move=_unless_there)
    return None


def _digest(secret: bytes, kind: str, key: str, data: bytes) -> bytes:
    digest = hmac.new(secret, f"{kind}/{key}\0".encode(), _DIGEST)
    digest.update(data)
    return digest.digest()


def _write(path: str, data: bytes, move: Callable[[str, str], None] = os.replace) -> bool:
    """Write a file atomically."""
    temporary = f"{path}.{os.urandom(8).hex()}{upkeep.TEMPORARY}"
    try:
        private.create(temporary, data)
        move(temporary, path)
    except OSError as error:
        if error.errno in _FULL:
            folders.warn_once(str(directory()), f"{error.strerror}: every run compiles again")
        return False
    # After a successful move there is nothing left to remove.
    finally:
        upkeep.remove(temporary)
    return True


def _unless_there(temporary: str, path: str) -> None:
    """Move a file unless the target exists: the first of several writers wins."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links: the last writer wins
        os.replace(temporary, path)
