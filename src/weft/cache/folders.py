"""Locates the cache folder and checks whether it is safe to use."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

from weft.cache import private
from weft.errors import CacheWarning


def directory() -> Path:
    """`WEFT_CACHE_DIR`, or `weft` in the platform's cache directory."""
    if chosen := os.environ.get("WEFT_CACHE_DIR"):
        return Path(os.path.expanduser(chosen))
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.path.expanduser(base)) / "weft"


def folder(name: str) -> str:
    """A private folder for another tool's cache: in this cache, else a temporary one."""
    path = os.path.join(directory(), name)
    if is_usable(path, create=True):
        return path
    # The other tool still needs a cache that no other user can modify.
    made = tempfile.mkdtemp(prefix="weft-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


_refused: set[str] = set()
"""Folders for which a warning was shown."""


def is_usable(folder: str, *, create: bool = False) -> bool:
    """True if only this user can modify the cache and this folder; else warns once."""
    try:
        private.secure(str(directory()), create=create)
        private.secure(folder, create=create)
    except OSError:
        return False
    except private.Untrusted as reason:
        replaced = f"{reason}, who could replace the machine code that you run"
        warn_once(reason.path, replaced, reason.next)
        return False
    return True


def warn_once(path: str, why: str, next: str = "make room, or set WEFT_CACHE_DIR") -> None:
    """Warn that nothing is cached, once per path."""
    if path not in _refused:
        _refused.add(path)
        message = f"weft keeps no compiled code in {directory()}: {why}\n  next: {next}"
        warnings.warn(CacheWarning(message), stacklevel=3)
