"""The names of `cupy.cuda`."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any

from weft.errors import CompileError
from weft.frontends import activity
from weft.frontends.cupy import device, memory, pinned, raw, runtime, stream
from weft.frontends.cupy.device import Device, get_device_id
from weft.frontends.cupy.memory import (
    Memory,
    MemoryAsyncPool,
    MemoryPointer,
    MemoryPool,
    OutOfMemoryError,
    PythonFunctionAllocator,
    UnownedMemory,
    alloc,
    get_allocator,
    malloc_async,
    malloc_managed,
    set_allocator,
    using_allocator,
)
from weft.frontends.cupy.pinned import (
    PinnedMemory,
    PinnedMemoryPointer,
    PinnedMemoryPool,
    alloc_pinned_memory,
    set_pinned_memory_allocator,
)
from weft.frontends.cupy.raw import RawKernel as Function
from weft.frontends.cupy.raw import RawModule as Module
from weft.frontends.cupy.stream import (
    Event,
    ExternalStream,
    Stream,
    get_current_stream,
    get_elapsed_time,
)
from weft.values.time import timeline

__all__ = [
    "Device", "Event", "ExternalStream", "Function", "Memory", "MemoryAsyncPool", "MemoryPointer",
    "MemoryPool", "Module", "OutOfMemoryError", "PinnedMemory", "PinnedMemoryPointer",
    "PinnedMemoryPool", "PythonFunctionAllocator", "Stream", "UnownedMemory", "alloc",
    "alloc_pinned_memory", "device", "get_allocator", "get_current_stream", "get_device_id",
    "get_elapsed_time", "malloc_async", "malloc_managed", "memory", "raw", "runtime",
    "set_allocator", "set_pinned_memory_allocator", "stream", "using_allocator",
]  # fmt: skip

__path__: list[str] = []
pinned_memory = pinned
compiler = types.ModuleType("cupy.cuda.compiler")
vars(compiler)["CompileException"] = CompileError


@contextlib.contextmanager
def profile() -> Iterator[None]:
    """Do nothing more: `weft profile` profiles scripts."""
    yield


profiler = types.ModuleType("cupy.cuda.profiler")
vars(profiler).update(start=runtime.profilerStart, stop=runtime.profilerStop)
nvtx = types.ModuleType("cupy.cuda.nvtx")


def _push(message: str, *_: Any, **__: Any) -> None:
    """Begin a range, which a timeline shows."""
    activity.note(timeline.PUSH, message)


def _pop(*_: Any) -> None:
    activity.note(timeline.POP)


def _mark(message: str, *_: Any, **__: Any) -> None:
    activity.note(timeline.MARK, message)


vars(nvtx).update(RangePush=_push, RangePop=_pop, Mark=_mark, MarkC=_mark, RangePushC=_push)


def is_available() -> bool:
    return True


def synchronize() -> None:
    """Return at once: launches are synchronous."""
    activity.waited("cudaDeviceSynchronize", everything=True)
