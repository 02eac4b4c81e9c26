"""The texture unit of a program: a function of the runtime library, and what it says of errors."""

from __future__ import annotations

import ctypes

from weft.device.sim.run.module import TextureUnit

_MOST = 1024
"""Bytes of a message."""


def texture_unit(library: ctypes.CDLL) -> TextureUnit:
    """The unit of this runtime library."""

    def error() -> str:
        text = ctypes.create_string_buffer(_MOST)
        library.weft_texture_error(text, _MOST)
        return text.value.decode(errors="replace")

    return TextureUnit(ctypes.cast(library.weft_texture_unit, ctypes.c_void_p).value or 0, error)
