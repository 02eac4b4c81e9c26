"""The CUDA driver: found on first use, and called straight where microseconds count.

cuda.core looks after devices, contexts and code. One function goes past it: `cuLaunchKernelEx`
takes four pointers, which ctypes passes in a fraction of the time that any launch object takes.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from typing import Any

from weft.errors import DeviceError, LaunchError, MissingDependency

SUCCESS, NOT_READY = 0, 600
# Not initialised, invalid context, invalid handle, destroyed context.
NO_CONTEXT = (3, 201, 400, 709)
"""Answers to a launch while no context, or that of another device, is current."""
_RELAXED_CAPTURE = 2
_DEVICE_ORDINAL = 9
"""CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL"""


class CuLaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute with its value as numbers."""

    _fields_ = (("id", ctypes.c_uint), ("padding", ctypes.c_uint), ("value", ctypes.c_int * 16))


COOPERATIVE, CLUSTER, PROGRAMMATIC = 2, 4, 6
"""Attributes of launches: blocks wait for each other; the sizes of a cluster; the kernel waits for
the launch before it."""
LARGE_CLUSTERS = 14
"""The attribute of functions that allows clusters of more than eight blocks."""


@functools.cache
def library() -> Any:
    """libcuda, initialised; raises MissingDependency where there is none, or no GPU."""
    try:
        found = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise _missing(str(error)) from None
    code = found.cuInit(0)
    if code != SUCCESS:
        raise _missing(f"cuInit: {_text(found, code)}")
    return found


@functools.cache
def core() -> Any:
    """cuda.core."""
    library()
    try:
        import cuda.core as core
    except ImportError as error:
        raise MissingDependency(
            "kernels on a real GPU need cuda.core",
            got=str(error),
            next="pip install 'cuda-core>=1,<2' 'cuda-bindings>=13,<14'",
        ) from None
    return core


@functools.cache
def bindings() -> Any:
    """cuda.bindings.driver, for what cuda.core does not cover."""
    core()
    from cuda.bindings import driver

    return driver


@functools.cache
def count() -> int:
    """GPUs that this process may use; 0 without a driver."""
    try:
        number = ctypes.c_int()
        code = library().cuDeviceGetCount(ctypes.byref(number))
    except MissingDependency:
        return 0
    return number.value if code == SUCCESS else 0


def absence() -> str:
    """The reason why no GPU can be used, in one line."""
    try:
        library()
    except MissingDependency as error:
        return error.got
    return "the driver finds no GPU"


@functools.cache
def device(number: int) -> Any:
    """The cuda.core device, with its primary context made."""
    if not 0 <= number < count():
        library()
        raise LaunchError(
            f"no GPU {number}", got=f"gpu:{number}", allowed=f"gpu:0 to gpu:{count() - 1}"
        )
    return core().Device(number)


def version() -> int:
    """The CUDA version of the driver, e.g. 13000."""
    number = ctypes.c_int()
    library().cuDriverGetVersion(ctypes.byref(number))
    return number.value


def ptx_limit() -> tuple[int, int]:
    """The newest PTX `.version` that the driver takes."""
    return _ptx_of(version())


def _ptx_of(cuda: int) -> tuple[int, int]:
    major, minor = cuda // 1000, cuda % 1000 // 10
    # CUDA 13.0 takes PTX 9.0; the minor versions have gone together since.
    if major >= 13:
        return major - 4, minor
    return 8, minor if minor <= 5 else minor - 1  # CUDA 12.6 kept PTX 8.5


@contextlib.contextmanager
def current(number: int) -> Iterator[None]:
    """Make a device's primary context current, for a while if another one was."""
    driver, wanted = library(), device(number)
    before = ctypes.c_void_p()
    driver.cuCtxGetCurrent(ctypes.byref(before))
    wanted.set_current()
    try:
        yield
    finally:
        # Where no context was current, this one stays, and the next launch finds it.
        if before.value:
            driver.cuCtxSetCurrent(before)


@contextlib.contextmanager
def relaxed_capture() -> Iterator[None]:
    """Let code be loaded while a stream of this thread is being captured into a graph."""
    # The driver exchanges the mode for the earlier one, so the same call restores it.
    mode = ctypes.c_int(_RELAXED_CAPTURE)
    library().cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
    try:
        yield
    finally:
        library().cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))


def device_of(address: int) -> int:
    """The GPU that memory is on; an empty array has no memory and counts as the first one's."""
    number = ctypes.c_int(0)
    code = library().cuPointerGetAttribute(
        ctypes.byref(number), _DEVICE_ORDINAL, ctypes.c_uint64(address)
    )
    return number.value if code == SUCCESS and number.value >= 0 else 0


def query(stream: int) -> int:
    """SUCCESS when all work of a stream is done, NOT_READY, or what went wrong."""
    return int(library().cuStreamQuery(ctypes.c_void_p(stream)))


def check(code: int, doing: str) -> None:
    """Raise for a failed driver call that is not a launch."""
    if code != SUCCESS:
        raise DeviceError(f"the driver failed while {doing}", got=describe(code))


def describe(code: int) -> str:
    """A result as the driver explains it: `CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal ...`."""
    return _text(library(), code)


def _text(lib: Any, code: int) -> str:
    name, words = ctypes.c_char_p(), ctypes.c_char_p()
    lib.cuGetErrorName(code, ctypes.byref(name))
    lib.cuGetErrorString(code, ctypes.byref(words))
    return f"{(name.value or b'?').decode()} ({code}): {(words.value or b'').decode()}"


def _missing(why: str) -> MissingDependency:
    return MissingDependency(
        "no NVIDIA GPU can be used here",
        got=why,
        next="pass NumPy arrays or CPU tensors: they run on the simulated GPU",
    )
