"""The folder of what compilers made of some headers, and the files that it was made of."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from weft import cache

FORMAT = 1
"""Increment this when the contents change: it is part of the key."""
_FILES = "files.json"


@contextlib.contextmanager
def alone(*key: object) -> Iterator[Path | None]:
    """The folder of a key, for one process; None while another has it, or nothing can be kept."""
    name = cache.key(FORMAT, *key)[:32]
    handle = os.open(os.path.join(cache.folder("locks"), name), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        folder = _folder(handle, name)
        yield folder
        for path in folder.iterdir() if folder else ():
            os.utime(path)  # the cache removes what was not used for the longest time
    finally:
        os.close(handle)


def _folder(handle: int, name: str) -> Path | None:
    """Lock and make a folder; one whose headers have changed since is emptied."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder = Path(os.path.abspath(cache.folder("headers"))) / name
        if folder.exists() and _changed(folder):
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return None
    return folder


def keep_files(folder: Path, listing: Path) -> None:
    """Note the files in a compiler's list, and the state they are in."""
    names = listed(listing)[1:]  # the first is the source, which is weft's
    (folder / _FILES).write_text(json.dumps([(name, _state(name)) for name in names]), "utf-8")


def files(folder: Path) -> list[str]:
    """The files that the contents of a folder were made of."""
    return [name for name, _ in json.loads((folder / _FILES).read_text("utf-8"))]


def own(files: Sequence[str], command: Sequence[str]) -> list[str]:
    """The files that are no system headers of a compiler's command."""
    marks = [i for i, word in enumerate(command) if word == "-isystem"]
    system = ("/usr/", *(os.path.abspath(command[i + 1]) + "/" for i in marks))
    return [file for file in files if not file.startswith(system)]


def listed(listing: Path) -> list[str]:
    """The files in a list in Make's syntax: a backslash continues a line or escapes a space."""
    words = listing.read_text(encoding="utf-8").replace("\\\n", " ").replace("\\ ", "\0").split()
    # The target is "0.o :" of nvcc, and "0.o:" of g++.
    return [os.path.abspath(word.replace("\0", " ")) for word in words[1:] if word != ":"]


def write_list(listing: Path, files: Sequence[str]) -> None:
    """Write a list in Make's syntax."""
    names = (name.replace(" ", "\\ ") for name in files)
    listing.write_text("object: " + " ".join(names), encoding="utf-8")


def succeeds(command: Sequence[str], environment: dict[str, str] | None = None) -> str | None:
    """The output of a command; None if it fails."""
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, errors="replace", encoding="utf-8"
    )
    return done.stderr + done.stdout if done.returncode == 0 else None


def _changed(folder: Path) -> bool:
    try:
        noted = json.loads((folder / _FILES).read_text("utf-8"))
    except (OSError, ValueError):  # its process was killed, or the cache was cleared
        return True
    return any(_state(name) != state for name, state in noted)


def _state(name: str) -> list[int]:
    try:
        status = os.stat(name)
    except OSError:
        return []
    return [status.st_mtime_ns, status.st_size]
