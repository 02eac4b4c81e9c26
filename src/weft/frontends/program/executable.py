"""A built program as a file: a line for the shell that starts weft, then what weft loads."""

from __future__ import annotations

import json
import shlex
import struct
import sys
from pathlib import Path
from typing import NamedTuple

_MARK = b"\nweft program 2\n"
_SIZE = struct.Struct("<Q")
_HEAD_BYTES = 4096  # the lines for the shell end before


class Executable(NamedTuple):
    """A program, the parts of the runtime library that it calls, sources to quote in errors."""

    code: bytes
    parts: tuple[str, ...]
    sources: tuple[str, ...]


def wrapped(program: Executable) -> bytes:
    """The executable file of a program."""
    start = [sys.executable, "-P", "-m", "weft.frontends.program.executable"]
    head = f'#!/bin/sh\nexec {shlex.join(start)} "$0" "$@"\n'.encode()
    listed = json.dumps([program.parts, program.sources]).encode()
    return head + _MARK + _SIZE.pack(len(listed)) + listed + program.code


def is_program(path: Path) -> bool:
    """True if `weft nvcc` has written the file."""
    with path.open("rb") as file:
        return _MARK in file.read(_HEAD_BYTES)


def unwrapped(path: str) -> Executable | None:
    """The program in a file; None if the file is not one of weft's."""
    data = Path(path).read_bytes()
    at = data.find(_MARK, 0, _HEAD_BYTES)
    if at < 0:
        return None
    at += len(_MARK)
    (size,) = _SIZE.unpack_from(data, at)
    at += _SIZE.size
    parts, sources = json.loads(data[at : at + size])
    return Executable(data[at + size :], tuple(parts), tuple(sources))


if __name__ == "__main__":
    from weft.frontends import program

    sys.exit(program.run(sys.argv[1], sys.argv[2:]))
