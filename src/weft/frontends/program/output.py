"""Standard output of device code in a program's process."""

from __future__ import annotations

import ctypes
import sys


class Output:
    """Standard output of device code through the program's stdio, which keeps the order."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._print = library.weft_print
        self._print.argtypes = (ctypes.c_char_p, ctypes.c_size_t)

    def write(self, text: str) -> int:
        data = text.encode()
        self._print(data, len(data))
        return len(text)

    def flush(self) -> None:
        """Do nothing: the program flushes its own C buffer."""

    @classmethod
    def install(cls, library: ctypes.CDLL) -> None:
        sys.stdout = cls(library)
