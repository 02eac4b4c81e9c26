"""Calls NVRTC, NVIDIA's runtime compiler, which needs neither a GPU nor a driver.

`cuda.bindings` is imported at the first cache miss, because the import takes a tenth of a second.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weft import progress
from weft.errors import CompileError
from weft.memory_errors import unloadable


@dataclass(frozen=True)
class Compiled:
    """NVRTC's output: PTX, the mangled name of each name expression, and the log.

    cubin  machine code, for real architectures (sm_90a, not compute_90a)
    lto    code for link-time optimisation, with the option -dlto; there is no PTX then
    """

    ptx: str
    lowered: dict[str, str]
    log: str
    cubin: bytes = b""
    lto: bytes = b""


class Refused(Exception):
    """NVRTC rejected the source; the text is its log."""


_HOST_LAMBDA = re.compile(r"is considered a host function[^\n]*\n[^\n]*\][ \t]*\([^\n]*\bauto\b")
_DEVICE_BY_DEFAULT = "--device-as-default-execution-space"


def compile(
    source: str, name: str, options: Sequence[str], expressions: Sequence[str] = ()
) -> Compiled:
    """Compiles a translation unit and instantiates the name expressions.

    NVRTC 13.0 takes a generic lambda in a kernel for a host function; later releases do not.
    """
    try:
        return _compile(source, name, options, expressions)
    except Refused as refusal:
        if _HOST_LAMBDA.search(str(refusal)) is None or _DEVICE_BY_DEFAULT in options:
            raise
        return _compile(source, name, [*options, _DEVICE_BY_DEFAULT], expressions)


def _compile(
    source: str, name: str, options: Sequence[str], expressions: Sequence[str]
) -> Compiled:
    nvrtc = _library()
    program = _check(nvrtc, nvrtc.nvrtcCreateProgram(_bytes(source), _bytes(name), 0, [], []))
    try:
        for expression in expressions:
            _check(nvrtc, nvrtc.nvrtcAddNameExpression(program, _bytes(expression)))
        flags = [_bytes(option) for option in options]
        with progress.compiling(name):
            (result,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
        if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise Refused(_text(nvrtc, program, "ProgramLog").strip() or result.name)
        lowered = {
            expression: _check(
                nvrtc, nvrtc.nvrtcGetLoweredName(program, _bytes(expression))
            ).decode()
            for expression in expressions
        }
        log = _text(nvrtc, program, "ProgramLog")
        if "-dlto" in options:
            return Compiled("", lowered, log, lto=_data(nvrtc, program, "LTOIR"))
        ptx = _text(nvrtc, program, "PTX")
        return Compiled(ptx, lowered, log, _data(nvrtc, program, "CUBIN"))
    # NVRTC programs are not freed by Python.
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def version() -> str:
    """The version of the library; `headers.wheels` knows it without loading the library."""
    nvrtc = _library()
    _, major, minor = nvrtc.nvrtcVersion()
    return f"{major}.{minor}"


@functools.cache
def _library() -> Any:
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()  # the first call loads the shared library
    except (ImportError, OSError, RuntimeError, MemoryError) as error:
        needs = "pip install 'cuda-bindings>=13,<14' 'nvidia-cuda-nvrtc>=13,<14'"
        raise unloadable("NVRTC (the CUDA C++ compiler)", error, needs) from error
    return nvrtc


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise CompileError(
            "a lone surrogate is no character",
            got=ascii(text[error.start - 20 if error.start > 20 else 0 : error.end + 20]),
            next="read the source with errors='replace' or 'surrogateescape'",
        ) from None


def _text(nvrtc: Any, program: Any, what: str) -> str:
    return _data(nvrtc, program, what).rstrip(b"\0").decode("utf-8", "surrogateescape")


def _data(nvrtc: Any, program: Any, what: str) -> bytes:
    """Output of the program, by NVRTC's pair of size and data calls."""
    size = _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program))
    buffer = bytearray(size)
    if size:
        _check(nvrtc, (*getattr(nvrtc, f"nvrtcGet{what}")(program, buffer), None))
    return bytes(buffer)


def _check(nvrtc: Any, answer: tuple[Any, ...]) -> Any:
    """The result of a call; raises Refused with NVRTC's error text."""
    result, *values = answer
    if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise Refused(nvrtc.nvrtcGetErrorString(result)[1].decode())
    return values[0] if values else None
