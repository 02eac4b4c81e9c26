"""The texture unit of a program: functions of the runtime library, and its error messages."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from weft.device.sim.run.module import SimModule, TextureUnit
from weft.frontends.program import loading
from weft.frontends.program.unit import TranslationUnit

_MOST = 1024
"""The most bytes of a message."""


def with_textures(make_unit: Callable[[str], TranslationUnit]) -> Callable[[str], TranslationUnit]:
    """Make units whose kernels use the texture unit of the runtime library, if it is loaded."""

    def make(text: str) -> TranslationUnit:
        unit = make_unit(text)
        unit.textures = _loaded()
        return unit

    return make


def serve() -> None:
    """Make all kernels of this process use the texture unit of the runtime library."""
    SimModule.textures = _loaded()


def _loaded() -> TextureUnit | None:
    plain = loading.function("weft_texture_unit")
    strict = loading.function("weft_texture_unit_strict")
    if plain is None or strict is None:
        return None
    return TextureUnit(_address(plain), _address(strict), _error)


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _error() -> str:
    """The description of the access that failed."""
    text, describe = ctypes.create_string_buffer(_MOST), loading.function("weft_texture_error")
    assert describe is not None
    describe(text, _MOST)
    return text.value.decode(errors="replace")
