"""Device `printf`: a format and its packed arguments to text, as the host's C library writes it.

CUDA leaves the formatting to the host's `printf` too, so each conversion goes through `snprintf`
with its own flags, width and precision. Arguments lie at their natural alignment.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable

from weft.errors import DeviceError

_PIECE = re.compile(
    rb"%(?P<flags>[-+ #0]*)(?P<width>\*|[0-9]*)(?P<precision>\.(?:\*|[0-9]*))?"
    rb"(?P<length>hh|h|ll|l|j|z|t)?(?P<kind>[diouxXcsfFeEgGaAp%])"
)
_LONG = (b"l", b"ll", b"j", b"z", b"t")
VARIABLE = "WEFT_PRINTF_FROM"
"""The environment variable that selects the threads whose output is shown."""
MAX_FIELD = 1 << 20
"""Characters one conversion may take; a width beyond it is a mistake or an attack."""

Argument = ctypes.c_int | ctypes.c_longlong | ctypes.c_double | ctypes.c_char_p | ctypes.c_void_p
ReadMemory = Callable[[int, int], bytes]
"""(address, bytes) to what is there; raises when the memory is not the kernel's."""
ReadString = Callable[[int, int | None], bytes]
"""(address, at most) to the bytes before the NUL; raises likewise."""

_snprintf = ctypes.CDLL(None).snprintf
_snprintf.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p)
_snprintf.restype = ctypes.c_int


class PrintfArguments:
    """The packed arguments of one call."""

    def __init__(self, address: int, read: ReadMemory) -> None:
        self.address, self.read, self.count = address, read, 0

    def integer(self, size: int) -> int:
        """The next signed integer of 4 or 8 bytes."""
        return int.from_bytes(self._next(size), "little", signed=True)

    def double(self) -> float:
        """The next double: floats are promoted."""
        return ctypes.c_double.from_buffer_copy(self._next(8)).value

    def _next(self, size: int) -> bytes:
        at = -(-self.address // size) * size
        self.address = at + size
        self.count += 1
        return self.read(at, size)


def render(form: bytes, arguments: PrintfArguments, string: ReadString) -> bytes:
    """The text of one call; characters outside conversions are copied."""
    out, end = [], 0
    for match in _PIECE.finditer(form):
        out.append(form[end : match.start()])
        out.append(_convert(match, arguments, string))
        end = match.end()
    out.append(form[end:])
    return b"".join(out)


def _convert(match: re.Match[bytes], arguments: PrintfArguments, string: ReadString) -> bytes:
    kind, length = match["kind"], match["length"] or b""
    if kind == b"%":
        return b"%"
    width, precision = match["width"], match["precision"] or b""
    if width == b"*":
        # A negative width spells the flag `-`, which is what C makes of it.
        width = str(_bounded(arguments.integer(4))).encode()
    if precision == b".*":
        places = arguments.integer(4)
        # C ignores a negative precision.
        precision = b".%d" % _bounded(places) if places >= 0 else b""
    _bounded(int(width or b"0"))
    _bounded(int(precision[1:] or b"0"))
    limit = int(precision[1:] or b"0") if precision else None
    value = _argument(kind, length, arguments, string, limit)
    spec = b"%" + match["flags"] + width + precision + length + kind
    return _print(spec, value)


def _bounded(n: int) -> int:
    if abs(n) > MAX_FIELD:
        raise DeviceError(
            "printf: a width or precision is too large", got=str(n), allowed=f"up to {MAX_FIELD}"
        )
    return n


def _argument(
    kind: bytes, length: bytes, arguments: PrintfArguments, string: ReadString, limit: int | None
) -> Argument:
    if kind in b"fFeEgGaA":
        return ctypes.c_double(arguments.double())
    if kind == b"s":
        address = arguments.integer(8)
        return ctypes.c_char_p(string(address, limit) if address else b"(null)"[:limit])
    if kind == b"p":
        return ctypes.c_void_p(arguments.integer(8))
    # `%lc` takes a wint_t, which has four bytes.
    if length in _LONG and kind != b"c":
        return ctypes.c_longlong(arguments.integer(8))
    return ctypes.c_int(arguments.integer(4))


def _print(spec: bytes, value: Argument) -> bytes:
    buffer = ctypes.create_string_buffer(128)
    # snprintf returns the length that it needs, also where the buffer is too short.
    size = _snprintf(buffer, len(buffer), spec, value)
    if size >= len(buffer):
        buffer = ctypes.create_string_buffer(size + 1)
        _snprintf(buffer, len(buffer), spec, value)
    return buffer.raw[:size]
