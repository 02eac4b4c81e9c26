"""Finds source lines of host code for calls and memory accesses."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

DEPTH = 64
"""The most stack frames examined, including those of weft and Python."""
_STUB = "__device_stub_"


class HostLine(NamedTuple):
    """A line of the program's own files, and its text."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}"


class _AddressInfo(ctypes.Structure):
    """The result of dladdr."""

    _fields_ = (
        ("path", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("at", ctypes.c_void_p),
    )


def call_addresses(frames: Any, count: int) -> tuple[int, ...]:
    """Addresses inside the calls of a stack; each is before its return address."""
    return tuple((frames[i] or 1) - 1 for i in range(count))


class HostLines:
    """The source lines of the program loaded from `program`; `files` are its sources."""

    def __init__(self, library: ctypes.CDLL, program: str, files: Mapping[str, str]) -> None:
        self._library, self._program, self._files = library, program, files
        self._dladdr = ctypes.CDLL(None).dladdr
        self._line = functools.lru_cache(4096)(self._look_up)

    def here(self) -> tuple[int, ...]:
        """The return addresses of this thread's stack, for `of`."""
        frames = (ctypes.c_void_p * DEPTH)()
        return call_addresses(frames, self._library.weft_frames(frames, DEPTH))

    def of(self, frames: Sequence[int], *, kernel: str = "") -> HostLine | None:
        """The innermost line in the program's files, outside of the stub of `kernel`."""
        for frame in frames:
            function, place = self._line(frame)
            launches = function.startswith(_STUB) or function.partition("(")[0] == kernel != ""
            if place is not None and not launches:
                return place
        return None

    def _look_up(self, address: int) -> tuple[str, HostLine | None]:
        info = _AddressInfo()
        self._dladdr(ctypes.c_void_p(address), ctypes.byref(info))
        # Part of binutils; without it findings have no host lines.
        tool = shutil.which("addr2line")
        if (info.path or b"").decode() != self._program or tool is None:
            return "", None
        program = self._program.replace("self", str(os.getpid()))
        command = [tool, "-f", "-C", "-e", program, hex(address - (info.base or 0))]
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
        function, _, place = done.stdout.partition("\n")
        file, _, number = place.split(" ")[0].strip().rpartition(":")
        if file not in self._files or not number.isdigit():
            return function, None
        return function, HostLine(file, int(number), _line(file, int(number)))


def _line(file: str, number: int) -> str:
    lines = (
        Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
        if os.path.isfile(file)
        else []
    )
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""
