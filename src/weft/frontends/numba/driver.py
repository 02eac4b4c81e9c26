"""Implements the CUDA driver functions that Numba calls, for the simulated GPU.

Numba looks up driver functions as attributes of one object; these functions replace them. Launches
are synchronous, so streams and events never wait. Device memory is allocated in this process.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
import time
from typing import Any

import numpy as np
from numba.cuda.cudadrv import driver as numba_driver

from weft.device.base import Allocation
from weft.device.models import GpuModel
from weft.errors import LaunchError
from weft.frontends import activity
from weft.frontends.numba.attributes import attribute
from weft.frontends.numba.image import ImageEntry, of_handle
from weft.values.time import timeline

_binding = numba_driver.binding
_Result = _binding.CUresult
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.py_object)

ALIGN = 256
FRESH = 0xCD
"""Fill byte of new memory, which makes reads of uninitialised memory visible."""

_PHYSICAL = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
"""Bytes of memory of this machine."""

CONTEXT = 1
"""The handle of the only context."""


class Handle(int):
    """The handle of a stream or an event."""

    @property
    def value(self) -> int:
        return int(self)


class SimDriver:
    """The driver, with one device."""

    def __init__(self, model: GpuModel) -> None:
        self.model = model
        self._memory: dict[int, tuple[int, Any]] = {}
        self._used = 0
        self._lock = threading.Lock()
        self._threads = threading.local()
        self._handles = itertools.count(0x1000)
        self._events: dict[int, float] = {}
        self._variables: dict[int, int] = {}
        self._pinned: dict[int, int] = {}

    # ---- devices and contexts ---------------------------------------------------------------
    def cuInit(self, flags: int) -> None:
        pass

    def cuDriverGetVersion(self) -> int:
        return int(_binding.CUDA_VERSION)

    def cuDeviceGetCount(self) -> int:
        return 1

    def cuDeviceGetAttribute(self, what: Any, device: int) -> int:
        return attribute(self.model, what.name.removeprefix("CU_DEVICE_ATTRIBUTE_"))

    def cuDeviceCanAccessPeer(self, device: Any, peer: Any) -> int:
        return 0

    def cuDevicePrimaryCtxRelease(self, device: int) -> None:
        pass

    def cuDevicePrimaryCtxReset(self, device: int) -> None:
        """Free all memory, as it does on a GPU."""
        with self._lock:
            self._memory.clear()
            self._used = 0

    @property
    def _contexts(self) -> list[int]:
        """The contexts that this thread has pushed."""
        if not hasattr(self._threads, "contexts"):
            self._threads.contexts = []
        pushed: list[int] = self._threads.contexts
        return pushed

    def cuCtxGetCurrent(self) -> Any:
        return _binding.CUcontext(self._contexts[-1] if self._contexts else 0)

    def cuCtxGetDevice(self) -> int:
        return 0

    def cuCtxPushCurrent(self, context: Any) -> None:
        self._contexts.append(int(context))

    def cuCtxPopCurrent(self) -> Any:
        return _binding.CUcontext(self._contexts.pop())

    def cuCtxSynchronize(self) -> None:
        activity.note(timeline.HOST_WAITS_ALL)

    # ---- memory -----------------------------------------------------------------------------
    def cuMemGetInfo(self) -> tuple[int, int]:
        return self.model.memory - self._used, self.model.memory

    def cuMemAlloc(self, size: int) -> int:
        if self._used + size > self.model.memory:
            raise _error(_Result.CUDA_ERROR_OUT_OF_MEMORY, f"{size} bytes of memory")
        # The pattern takes memory at once, and Linux ends a process that takes too much.
        if size > _PHYSICAL:
            raise _error(_Result.CUDA_ERROR_OUT_OF_MEMORY, f"{size} bytes on this machine")
        address = self._allocate(size)
        ctypes.memset(address, FRESH, size)
        return address

    def _allocate(self, size: int) -> int:
        """Zeros, which take no memory until they are written."""
        with self._lock:
            try:
                buffer = np.zeros(size + ALIGN, np.uint8)
            except MemoryError:
                raise _error(_Result.CUDA_ERROR_OUT_OF_MEMORY, f"{size} bytes here") from None
            # cudaMalloc guarantees this alignment.
            address = -(-int(buffer.ctypes.data) // ALIGN) * ALIGN
            self._memory[address] = size, buffer
            self._used += size
        return address

    def allocations(self) -> list[Allocation]:
        """The memory that kernels may access."""
        with self._lock:
            return [Allocation(at, n, True, "device memory") for at, (n, _) in self._memory.items()]

    def cuMemAllocManaged(self, size: int, flags: int) -> int:
        """Allocate zeros; managed memory may be larger than the GPU's."""
        return self._allocate(size)

    def cuMemHostAlloc(self, size: int, flags: int) -> int:
        address = self.cuMemAlloc(size)
        self._pinned[address] = size
        return address

    def cuMemFree(self, pointer: Any) -> None:
        with self._lock:
            size, _ = self._memory.pop(int(pointer), (0, None))
            self._used -= size

    cuMemFreeHost = cuMemFree

    def cuMemHostRegister(self, pointer: Any, size: int, flags: int) -> None:
        self._pinned[int(pointer)] = size

    def cuMemHostUnregister(self, pointer: Any) -> None:
        self._pinned.pop(int(pointer), None)

    def cuMemHostGetDevicePointer(self, pointer: Any, flags: int) -> int:
        return int(pointer)

    def cuPointerGetAttribute(self, what: Any, pointer: Any) -> Any:
        return pointer

    def cuMemGetAddressRange(self, pointer: Any) -> tuple[int, int]:
        at = int(pointer)
        sizes = ((start, size) for start, (size, _) in self._memory.items())
        for start, size in itertools.chain(sizes, self._variables.items()):
            if start <= at < start + size:
                return start, size
        raise _error(_Result.CUDA_ERROR_INVALID_VALUE, f"{at:#x} is not device memory")

    def _device(self, pointer: Any, size: int) -> int:
        """Check that a range is device memory, and return its address."""
        at = int(pointer)
        if size:
            start, length = self.cuMemGetAddressRange(at)
            if at + size > start + length:
                what = f"{size} bytes at {at:#x}, of which {start + length - at} are device memory"
                raise _error(_Result.CUDA_ERROR_INVALID_VALUE, what)
        return at

    def _copied(self, direction: str, host: Any, device: int, size: int, stream: Any) -> None:
        """Record a copy for a timeline; one without a stream waits (None)."""
        if activity.current is None:
            return
        at = int(host)
        pinned = any(start <= at < start + n for start, n in self._pinned.items())
        waits = not pinned if stream is not None else direction != timeline.ON_DEVICE
        handle, memory = activity.handle(stream or 0), self.cuMemGetAddressRange(device)[0]
        activity.copied(
            direction, size, stream=handle, pageable=not pinned, memory=memory, waits=waits
        )

    def cuMemcpyHtoD(self, to: Any, source: Any, size: int, stream: Any = None) -> None:
        at = self._device(to, size)
        ctypes.memmove(at, int(source), size)
        if size:
            self._copied(timeline.TO_DEVICE, source, at, size, stream)

    def cuMemcpyDtoH(self, to: Any, source: Any, size: int, stream: Any = None) -> None:
        at = self._device(source, size)
        ctypes.memmove(int(to), at, size)
        if size:
            self._copied(timeline.TO_HOST, to, at, size, stream)

    def cuMemcpyDtoD(self, to: Any, source: Any, size: int, stream: Any = None) -> None:
        at = self._device(to, size)
        ctypes.memmove(at, self._device(source, size), size)
        if size:
            self._copied(timeline.ON_DEVICE, source, at, size, stream)

    def cuMemsetD8(self, to: Any, byte: int, count: int, stream: Any = 0) -> None:
        ctypes.memset(self._device(to, count), byte, count)
        activity.note(timeline.FILL, "memset", activity.handle(stream or 0), bytes=count)

    cuMemcpyHtoDAsync, cuMemcpyDtoHAsync = cuMemcpyHtoD, cuMemcpyDtoH
    cuMemcpyDtoDAsync, cuMemsetD8Async = cuMemcpyDtoD, cuMemsetD8

    # ---- streams and events -----------------------------------------------------------------
    def cuStreamCreate(self, flags: int) -> Handle:
        made = Handle(next(self._handles))
        activity.note(timeline.CREATED, stream=made, number=int(flags))
        return made

    def cuStreamDestroy(self, stream: Any) -> None:
        pass

    def cuStreamSynchronize(self, stream: Any) -> None:
        activity.note(timeline.HOST_WAITS_STREAM, stream=int(stream))

    def cuStreamWaitEvent(self, stream: Any, event: Any, flags: int) -> None:
        activity.note(timeline.WAITS, stream=int(stream), number=int(event))

    def cuStreamAddCallback(self, stream: Any, callback: Any, data: int, flags: int) -> None:
        """Call it now: all earlier work is complete."""
        owner = ctypes.cast(data, ctypes.py_object).value
        _CALLBACK(int(callback))(int(stream), 0, owner)

    def cuEventCreate(self, flags: int) -> Handle:
        return Handle(next(self._handles))

    def cuEventDestroy(self, event: Any) -> None:
        self._events.pop(int(event), None)

    def cuEventRecord(self, event: Any, stream: Any) -> None:
        self._events[int(event)] = time.perf_counter()
        activity.note(timeline.RECORDED, stream=int(stream), number=int(event))

    def cuEventQuery(self, event: Any) -> None:
        pass

    def cuEventSynchronize(self, event: Any) -> None:
        activity.note(timeline.HOST_WAITS_EVENT, number=int(event))

    def cuEventElapsedTime(self, start: Any, end: Any) -> float:
        """Milliseconds of the simulation, not of a GPU."""
        try:
            return 1e3 * (self._events[int(end)] - self._events[int(start)])
        except KeyError:
            raise _error(_Result.CUDA_ERROR_INVALID_HANDLE, "an event not recorded") from None

    # ---- kernels ----------------------------------------------------------------------------
    def cuOccupancyMaxActiveBlocksPerMultiprocessor(
        self, function: ImageEntry, threads: int, shared: int
    ) -> int:
        return function.blocks_per_sm(threads, shared)

    def cuKernelSetCacheConfig(self, function: ImageEntry, config: Any, device: int) -> None:
        pass

    def cuKernelSetAttribute(
        self, what: Any, value: int, function: ImageEntry, device: int
    ) -> None:
        pass

    # ---- modules ----------------------------------------------------------------------------
    def cuLibraryGetGlobal(self, handle: Any, name: bytes) -> tuple[Any, int]:
        """The address and the size of a variable, which copies then accept."""
        variable = of_handle(handle).variable(name.decode())
        address = int(variable.ctypes.data)
        self._variables[address] = variable.nbytes
        return _binding.CUdeviceptr(address), variable.nbytes

    def cuLibraryUnload(self, handle: Any) -> None:
        pass

    # ---- profilers: there is none to start ---------------------------------------------------
    def cuProfilerStart(self) -> None:
        pass

    def cuProfilerStop(self) -> None:
        pass


_current: list[SimDriver] = []


def reachable() -> list[Allocation]:
    """All device memory, for kernels that know some by address only."""
    return [a for sim in _current for a in sim.allocations()]


def functions(model: GpuModel) -> dict[str, Any]:
    """Driver function -> replacement."""
    sim = SimDriver(model)
    _current[:] = [sim]
    named = ((name, getattr(sim, name)) for name in dir(sim) if name.startswith("cu"))
    return {name: activity.called(name, function) for name, function in named}


def unserved(name: str) -> Any:
    """Raise for every other driver function."""
    raise LaunchError(
        "the simulated GPU does not serve this function of the CUDA driver",
        got=name,
        allowed="memory, copies, streams, events, one device and its attributes",
    )


def _error(code: Any, what: str) -> Exception:
    """A driver error in Numba's form."""
    error: Exception = numba_driver.CudaAPIError(code, f"{code.name}: {what}")
    return error
