"""A built program as a file: a line for the shell that starts weft, then what weft loads."""

from __future__ import annotations

import json
import shlex
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

_MARK = b"\nweft program 1\n"
_SIZE = struct.Struct("<Q")


def wrapped(code: bytes, sources: Sequence[str]) -> bytes:
    """The executable file of a program; `sources` are quoted in its errors."""
    start = [sys.executable, "-P", "-m", "weft.frontends.program.executable"]
    head = f'#!/bin/sh\nexec {shlex.join(start)} "$0" "$@"\n'.encode()
    listed = json.dumps(list(sources)).encode()
    return head + _MARK + _SIZE.pack(len(listed)) + listed + code


def unwrapped(path: str) -> tuple[bytes, tuple[str, ...]] | None:
    """The program and its sources; None if the file is not one of weft's."""
    data = Path(path).read_bytes()
    at = data.find(_MARK, 0, 4096)
    if at < 0:
        return None
    at += len(_MARK)
    (size,) = _SIZE.unpack_from(data, at)
    at += _SIZE.size
    return data[at + size :], tuple(json.loads(data[at : at + size]))


if __name__ == "__main__":
    from weft.frontends import program

    sys.exit(program.run(sys.argv[1], sys.argv[2:]))
