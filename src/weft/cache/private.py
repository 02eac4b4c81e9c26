"""Checks that only this user, or root, can modify a folder or file.

A cache of machine code is as safe as its folder: a user who may write there, or may replace a
folder on the path, decides what this user executes. The rules are those of OpenSSH's strict modes,
applied to every folder from `/` down, through symbolic links:

- it belongs to this user or to root;
- no other user may write to it, except in a folder like `/tmp`, whose sticky bit keeps others from
  replacing what is in it; the last folder may not be such a one.

Folders that pass cannot be replaced between the check and their use. On systems without POSIX
owners, which separate users in other ways, every folder passes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import BinaryIO

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_ANY = stat.S_IRWXG | stat.S_IRWXO
_MAX_LINKS = 40  # the limit of Linux before ELOOP
_HAS_OWNERS = hasattr(os, "geteuid")


class Untrusted(Exception):
    """A folder or file that others can modify: its path, the reason and the remedy."""

    def __init__(self, path: str, why: str, next: str) -> None:
        super().__init__(f"{path} {why}")
        self.path, self.why, self.next = path, why, next


def secure(folder: str, *, create: bool = False) -> str:
    """Check every folder on the path and return the path without links; raise Untrusted.

    `create` makes missing folders with mode 700, regardless of the umask.
    """
    if not _HAS_OWNERS:
        if create:
            os.makedirs(folder, exist_ok=True)
        return os.path.realpath(folder, strict=True)
    names = _names(os.path.join(os.getcwd(), folder))
    here, links = os.sep, 0
    status = os.lstat(here)
    while True:
        _check_folder(here, status, last=not names)
        if not names:
            return here
        name = names.pop()
        path = os.path.dirname(here) if name == os.pardir else os.path.join(here, name)
        status = _look(path, create)
        if stat.S_ISLNK(status.st_mode):
            _check_owner(path, status)
            links += 1
            if links > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            target = os.readlink(path)
            # The components of the link's target are checked like any others.
            names += _names(target)
            here = os.sep if os.path.isabs(target) else here
            status = os.lstat(here)
        else:
            here = path


def open_own(path: str, *, secret: bool = False) -> BinaryIO:
    """Open a regular file of this user that no other user may write (or read); raise Untrusted.

    The open descriptor is checked, not the name, so the file cannot be exchanged meanwhile.
    """
    # O_NONBLOCK: opening a FIFO in place of the file must not hang.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    file = os.fdopen(os.open(path, flags | getattr(os, "O_CLOEXEC", 0)), "rb")
    try:
        if _HAS_OWNERS:
            _check_file(path, os.fstat(file.fileno()), _OTHERS_ANY if secret else _OTHERS_WRITE)
    except Untrusted:
        file.close()
        raise
    return file


def create(path: str, data: bytes) -> None:
    """Write a new file that only this user can read."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)


def _names(path: str) -> list[str]:
    """The components of a path in reverse; `..` is kept, since links decide where it leads."""
    return [name for name in reversed(path.split(os.sep)) if name not in ("", os.curdir)]


def _look(path: str, create: bool) -> os.stat_result:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        if not create:
            raise
    with contextlib.suppress(
        FileExistsError
    ):  # a folder created by another process is checked like any other
        os.mkdir(path, 0o700)
    return os.lstat(path)


def _check_folder(path: str, status: os.stat_result, *, last: bool) -> None:
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    _check_owner(path, status)
    shared = status.st_mode & _OTHERS_WRITE
    if shared and (last or not status.st_mode & stat.S_ISVTX):
        raise Untrusted(
            path,
            f"can be written by other users (mode {stat.filemode(status.st_mode)})",
            f"run `chmod go-w {path}`, or set WEFT_CACHE_DIR to a folder that only you can write",
        )


def _check_owner(path: str, status: os.stat_result) -> None:
    if status.st_uid not in (0, os.geteuid()):
        raise Untrusted(
            path,
            f"belongs to another user ({_user(status.st_uid)})",
            "set WEFT_CACHE_DIR to a folder of your own",
        )


def _check_file(path: str, status: os.stat_result, forbidden: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Untrusted(path, "is not a regular file", "remove it")
    if status.st_uid != os.geteuid():
        raise Untrusted(path, f"belongs to another user ({_user(status.st_uid)})", "remove it")
    if status.st_mode & forbidden:
        mode = stat.filemode(status.st_mode)
        raise Untrusted(path, f"is open to other users (mode {mode})", "remove it")


def _user(number: int) -> str:
    import pwd  # only where there are POSIX owners

    try:
        return f"{pwd.getpwuid(number).pw_name}, uid {number}"
    except KeyError:
        return f"uid {number}"
