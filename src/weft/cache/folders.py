"""Where the cache is, and whether it may be used."""

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
    """A private folder for another tool's cache: in this one, or for this process alone."""
    path = os.path.join(directory(), name)
    if is_usable(path, create=True):
        return path
    made = tempfile.mkdtemp(prefix="weft-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


_refused: set[str] = set()
"""Folders that this process has warned of."""


def is_usable(folder: str, *, create: bool = False) -> bool:
    """Can only this user change the cache and this folder in it? Warns once where others can."""
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
    """Says that nothing is kept, once for each path."""
    if path not in _refused:
        _refused.add(path)
        message = f"weft keeps no compiled code in {directory()}: {why}\n  next: {next}"
        warnings.warn(CacheWarning(message), stacklevel=3)
