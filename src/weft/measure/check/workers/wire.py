"""Sends messages between the judge and a worker: JSON on a socket, arrays in a memory file.

The judge creates a memory file per request and sends its descriptor; the worker appends its arrays.
The judge seals the file before it reads: the kernel then refuses all writes by any thread or
process. Nothing is pickled, so an answer cannot run code in the judge.
"""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.measure.dtypes import Array

LONGEST = 4 << 20
"""The most bytes of a message, without its arrays."""

_LENGTH = struct.Struct("<I")
_CHUNK = 1 << 30  # one system call moves at most 2 GiB on Linux
_TYPES = {np.dtype(c).name for c in "?bBhHiIqQefd"}


class Malformed(Exception):
    """An invalid answer."""


# ---- messages --------------------------------------------------------------------------------
def send(connection: socket.socket, message: Mapping[str, Any], files: Sequence[int] = ()) -> None:
    """Send one message with file descriptors."""
    text = json.dumps(message).encode()
    data = _LENGTH.pack(len(text)) + text
    sent = socket.send_fds(connection, [data], list(files))
    connection.sendall(data[sent:])


def receive(connection: socket.socket, files: int) -> tuple[dict[str, Any], list[int]] | None:
    """Receive a message with up to `files` descriptors; None if the peer closed the socket."""
    head, came, _, _ = socket.recv_fds(connection, _LENGTH.size, files)
    if not head:
        return None
    (length,) = _LENGTH.unpack(head + _exactly(connection, _LENGTH.size - len(head)))
    message: dict[str, Any] = json.loads(_exactly(connection, length))
    return message, came


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def message_in(received: bytes) -> tuple[dict[str, Any], bytes] | None:
    """The first complete message and the remaining bytes; None if it is incomplete."""
    if len(received) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(received)
    # A worker must not make the judge allocate without bound.
    if length > LONGEST:
        raise Malformed(f"a message of {length} bytes")
    end = _LENGTH.size + length
    if len(received) < end:
        return None
    try:
        message = json.loads(received[_LENGTH.size : end])
    except (ValueError, RecursionError) as error:
        raise Malformed(f"no JSON: {error}") from None
    if not isinstance(message, dict):
        raise Malformed(f"{type(message).__name__} instead of an object")
    return message, received[end:]


# ---- arrays ----------------------------------------------------------------------------------
def memory_file() -> int:
    """Create a memory file that can be sealed."""
    return os.memfd_create("weft-check", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)


def put(file: int, arrays: Mapping[str, Array]) -> list[list[Any]]:
    """Append arrays to a file; return a row [name, dtype, shape, offset] for each."""
    rows: list[list[Any]] = []
    at = os.fstat(file).st_size
    for name, array in arrays.items():
        rows.append([name, array.dtype.name, list(array.shape), at])
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        for start in range(0, len(data), _CHUNK):
            _write(file, data[start : start + _CHUNK], at + start)
        at += len(data)
    return rows


def _write(file: int, data: memoryview, at: int) -> None:
    while data:
        written = os.pwrite(file, data, at)
        data, at = data[written:], at + written


def seal(file: int) -> None:
    """Forbid all writes to a file; raise Malformed if the worker has mapped it for writing."""
    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    try:
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
    except OSError as error:
        if error.errno not in (errno.EBUSY, errno.EPERM):
            raise
        raise Malformed("the solution still has the memory of its answer mapped") from None


def get(file: int, rows: object, start: int = 0) -> dict[str, Array]:
    """Read the arrays described by rows from another process, and validate every field."""
    if not isinstance(rows, list):
        raise Malformed("no list of arrays")
    return dict(_array(file, row, start, os.fstat(file).st_size) for row in rows)


def _array(file: int, row: object, start: int, end: int) -> tuple[str, Array]:
    match row:
        case [str(name), str(dtype), [*shape], int(at)] if dtype in _TYPES:
            pass
        case _:
            raise Malformed(f"no array: {str(row)[:200]}")
    # bool is a subclass of int in Python, so isinstance would accept true.
    sizes = [n for n in shape if type(n) is int and n >= 0]
    if len(sizes) != len(shape):
        raise Malformed(f"no shape: {str(shape)[:200]}")
    nbytes = math.prod(sizes) * np.dtype(dtype).itemsize
    if at < start or at + nbytes > end:
        raise Malformed(f"'{name[:80]}' is not inside of the answer")
    out = np.empty(nbytes, np.uint8)
    view = out.data
    while view:
        count = os.preadv(file, [view[:_CHUNK]], at)
        view, at = view[count:], at + count
    return name, out.view(dtype).reshape(sizes)
