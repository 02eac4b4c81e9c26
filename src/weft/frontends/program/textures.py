"""The texture unit of a program: a function of the runtime library, and what it says of errors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from weft.device.sim.run.module import SimModule, TextureUnit
from weft.frontends.program.unit import Unit

_MOST = 1024
"""Bytes of a message."""


def with_textures(make_unit: Callable[[str], Unit], library: ctypes.CDLL) -> Callable[[str], Unit]:
    """Makes units whose kernels use the texture unit of this runtime library."""

    def make(text: str) -> Unit:
        unit = make_unit(text)
        unit.textures = _unit_of(library)
        return unit

    return make


def serve(library: ctypes.CDLL) -> None:
    """From now on all kernels of this process use the texture unit of this library."""
    SimModule.textures = _unit_of(library)


def _unit_of(library: ctypes.CDLL) -> TextureUnit:
    def error() -> str:
        text = ctypes.create_string_buffer(_MOST)
        library.weft_texture_error(text, _MOST)
        return text.value.decode(errors="replace")

    plain, strict = (
        ctypes.cast(function, ctypes.c_void_p).value or 0
        for function in (library.weft_texture_unit, library.weft_texture_unit_strict)
    )
    return TextureUnit(plain, strict, error)
