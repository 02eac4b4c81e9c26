"""Calls NVRTC, NVIDIA's runtime compiler, which needs neither a GPU nor a driver.

The library is loaded at the first cache miss and called through ctypes: to import `cuda.bindings`
takes ten times as long as to load the library. NVRTC compiles in several threads at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import re
import sys
import threading
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p

from weft import progress
from weft.errors import CompileError
from weft.memory_errors import unloadable
from weft.records import dataclass


@dataclass(frozen=True)
class NvrtcOutput:
    """NVRTC's output: PTX, the mangled name of each name expression, and the log.

    cubin  machine code, for real architectures (sm_90a, not compute_90a)
    lto    code for link-time optimisation, with the option -dlto; there is no PTX then
    """

    ptx: str
    lowered: dict[str, str]
    log: str
    cubin: bytes = b""
    lto: bytes = b""


class NvrtcRefused(Exception):
    """NVRTC rejected the source; the text is its log."""


SIGNED_CHARS = "-Xcudafe=--signed_chars"
"""For NVRTC and nvcc, before the user's options: on ARM both make `char` unsigned by default, and
results would depend on the host's CPU."""
_HOST_LAMBDA = re.compile(r"is considered a host function[^\n]*\n[^\n]*\][ \t]*\([^\n]*\bauto\b")
_DEVICE_BY_DEFAULT = "--device-as-default-execution-space"
_RUNTIME = re.compile(r"include|cuda|CU_|\btex|\bsurf|<<<|##", re.IGNORECASE)
"""Words of a source that may need the types and functions that the option `--minimal` leaves out:
those of the runtime and driver, textures and surfaces, launches, or a header that needs them.
"""


def compile(
    source: str, name: str, options: Sequence[str], expressions: Sequence[str] = ()
) -> NvrtcOutput:
    """Compile a translation unit and instantiate the name expressions.

    NVRTC 13.0 takes a generic lambda in a kernel for a host function; later releases do not.
    """
    try:
        return _compile(source, name, options, expressions)
    except NvrtcRefused as refusal:
        if _HOST_LAMBDA.search(str(refusal)) is None or _DEVICE_BY_DEFAULT in options:
            raise
        return _compile(source, name, [*options, _DEVICE_BY_DEFAULT], expressions)


def compile_minimal(
    source: str, name: str, options: Sequence[str], expressions: Sequence[str], named: Sequence[str]
) -> NvrtcOutput | None:
    """The same in less time; None where the runtime may be needed, or the source is rejected.

    named  texts of the user that may contain names of the runtime
    """
    if any(_RUNTIME.search(text) for text in named):
        return None
    # Without the option, errors are the same as those of other sources.
    with contextlib.suppress(NvrtcRefused):
        return compile(source, name, [*options, "--minimal"], expressions)
    return None


def _compile(
    source: str, name: str, options: Sequence[str], expressions: Sequence[str]
) -> NvrtcOutput:
    library = _library()
    program = c_void_p()
    _check(library.nvrtcCreateProgram(byref(program), _bytes(source), _bytes(name), 0, None, None))
    try:
        for expression in expressions:
            _check(library.nvrtcAddNameExpression(program, _bytes(expression)))
        flags = (c_char_p * len(options))(*map(_bytes, options))
        with progress.compiling(name), _running:
            status: int = _loaded().nvrtcCompileProgram(program, len(options), flags)
        if status != _SUCCESS:
            raise NvrtcRefused(_text(program, "ProgramLog").strip() or _error(status))
        lowered = {expression: _lowered(program, expression) for expression in expressions}
        log = _text(program, "ProgramLog")
        if "-dlto" in options:
            return NvrtcOutput("", lowered, log, lto=_data(program, "LTOIR"))
        return NvrtcOutput(_text(program, "PTX"), lowered, log, _data(program, "CUBIN"))
    # NVRTC programs are not freed by Python.
    finally:
        library.nvrtcDestroyProgram(byref(program))


def version() -> str:
    """The version of the library; `headers.wheels` knows it without loading the library."""
    major, minor = c_int(), c_int()
    _check(_library().nvrtcVersion(byref(major), byref(minor)))
    return f"{major.value}.{minor.value}"


def reserve_for_headers(size: int) -> None:
    """Set the bytes of memory for precompiled headers, before any are used."""
    _check(_library().nvrtcSetPCHHeapSize(size))


class _Running:
    """Compilations that run now. A thread that forks waits for them.

    NVRTC has a lock of its own: a child whose parent was compiling could never compile.
    """

    def __init__(self) -> None:
        self._count, self._changed = 0, threading.Condition()
        if hasattr(os, "register_at_fork"):
            release = self._changed.release
            os.register_at_fork(before=self._stop, after_in_parent=release, after_in_child=release)

    def __enter__(self) -> None:
        with self._changed:
            self._count += 1

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def _stop(self) -> None:
        """Wait for all; none begins until the lock is released."""
        self._changed.acquire()
        self._changed.wait_for(lambda: not self._count)


_running = _Running()
_SUCCESS = 0
_OUTPUTS = ("ProgramLog", "PTX", "CUBIN", "LTOIR")
_NAME = "libnvrtc.so.13"
_WHEEL = os.path.join("nvidia", "cu13", "lib", _NAME)
"""The path of the wheel's library, in a folder of `sys.path`."""
_BUILTINS = "libnvrtc-builtins.so.13.0"
"""A part of NVRTC that its release 13.0 does not find beside itself; later ones do."""
_PROGRAM, _OUT = c_void_p, POINTER(c_void_p)
_FUNCTIONS: dict[str, list[type]] = {
    "nvrtcVersion": [POINTER(c_int), POINTER(c_int)],
    "nvrtcCreateProgram": [_OUT, c_char_p, c_char_p, c_int, c_void_p, c_void_p],
    "nvrtcDestroyProgram": [_OUT],
    "nvrtcAddNameExpression": [_PROGRAM, c_char_p],
    "nvrtcSetPCHHeapSize": [c_size_t],
    "nvrtcGetLoweredName": [_PROGRAM, c_char_p, POINTER(c_char_p)],
    **{f"nvrtcGet{x}Size": [_PROGRAM, POINTER(c_size_t)] for x in _OUTPUTS},
    **{f"nvrtcGet{x}": [_PROGRAM, c_char_p] for x in _OUTPUTS},
}


@functools.cache
def _library() -> ctypes.PyDLL:
    """The library, for calls that return at once and keep Python's lock.

    A thread that releases the lock waits for others that run Python.
    """
    try:
        library = ctypes.PyDLL(_loaded()._name, handle=_loaded()._handle)
        for name, arguments in _FUNCTIONS.items():
            getattr(library, name).argtypes = arguments
        library.nvrtcGetErrorString.restype = c_char_p
    except (ImportError, OSError, RuntimeError, MemoryError, AttributeError) as error:
        needs = "pip install 'cuda-bindings>=13,<14' 'nvidia-cuda-nvrtc>=13,<14'"
        raise unloadable("NVRTC (the CUDA C++ compiler)", error, needs) from error
    return library


@functools.cache
def _loaded() -> ctypes.CDLL:
    """The library that the process has already, that of the wheel, or another that is installed."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return ctypes.CDLL(_NAME, os.RTLD_NOLOAD | os.RTLD_NOW)
        for folder in sys.path:
            if os.path.isfile(path := os.path.join(folder, _WHEEL)):
                if os.path.isfile(part := os.path.join(os.path.dirname(path), _BUILTINS)):
                    ctypes.CDLL(part)
                return ctypes.CDLL(path)
    from cuda.pathfinder import load_nvidia_dynamic_lib

    return ctypes.CDLL(load_nvidia_dynamic_lib("nvrtc").abs_path)


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise CompileError(
            "a lone surrogate is no character",
            got=ascii(text[error.start - 20 if error.start > 20 else 0 : error.end + 20]),
            next="read the source with errors='replace' or 'surrogateescape'",
        ) from None


def _text(program: c_void_p, output: str) -> str:
    return _data(program, output).rstrip(b"\0").decode("utf-8", "surrogateescape")


def _data(program: c_void_p, output: str) -> bytes:
    """Output of the program, by NVRTC's pair of size and data calls."""
    library, size = _library(), c_size_t()
    _check(getattr(library, f"nvrtcGet{output}Size")(program, byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    if size.value:
        _check(getattr(library, f"nvrtcGet{output}")(program, buffer))
    return buffer.raw


def _lowered(program: c_void_p, expression: str) -> str:
    """The mangled name of a name expression."""
    name = c_char_p()
    _check(_library().nvrtcGetLoweredName(program, _bytes(expression), byref(name)))
    return (name.value or b"").decode()


def _check(status: int) -> None:
    """Raise Refused with NVRTC's error text."""
    if status != _SUCCESS:
        raise NvrtcRefused(_error(status))


def _error(status: int) -> str:
    text: bytes = _library().nvrtcGetErrorString(status)
    return text.decode()
