"""The process that makes full code in the background: IR from standard input, objects to output.

Each message is its length in eight bytes and its bytes; an empty answer says that LLVM failed.
The process exits at the end of its input, and with its parent.
"""

from __future__ import annotations

import ctypes
import signal
import struct
import sys
import time

from weft.device import jit
from weft.errors import Error
from weft.ir.cut import cut

_ANSWER = struct.Struct("<Qd")
"""Bytes of the object, and the processor time that it took."""
_PR_SET_PDEATHSIG = 1


def serve() -> None:
    """Compile until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the parent
    if sys.platform == "linux":
        # A parent that is killed does not close the pipe while LLVM works here.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    read, write = sys.stdin.buffer, sys.stdout.buffer
    while len(head := read.read(8)) == 8:
        text = read.read(int.from_bytes(head, "little")).decode()
        begin = time.process_time()
        try:
            data = jit.compile_object(cut(text))
        except Error:
            data = b""
        write.write(_ANSWER.pack(len(data), time.process_time() - begin) + data)
        write.flush()
