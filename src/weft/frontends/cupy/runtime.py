"""`cupy.cuda.runtime`: the functions of CUDA's runtime that scripts call."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

from weft.frontends import activity
from weft.frontends.cupy import memory
from weft.frontends.cupy.current import model
from weft.frontends.cupy.device import CUDARuntimeError, Device
from weft.values.time import timeline

__all__ = ["CUDARuntimeError"]

is_hip = False
memcpyHostToHost, memcpyHostToDevice, memcpyDeviceToHost, memcpyDeviceToDevice = range(4)
memcpyDefault = 4
streamDefault, streamNonBlocking = 0, 1
eventDefault, eventBlockingSync, eventDisableTiming, eventInterprocess = 0, 1, 2, 4
_DIRECTIONS = {
    memcpyHostToDevice: timeline.TO_DEVICE,
    memcpyDeviceToHost: timeline.TO_HOST,
    memcpyDeviceToDevice: timeline.ON_DEVICE,
}
_VERSION = 13000
_handles = itertools.count(0x100000, 0x100)
_allocated: dict[int, memory.Memory] = {}


def getDeviceCount() -> int:
    return 1


def getDevice() -> int:
    return 0


def setDevice(device: int) -> None:
    Device(device).use()


def deviceSynchronize() -> None:
    """Return at once: launches are synchronous."""
    activity.waited("cudaDeviceSynchronize", everything=True)


def deviceCanAccessPeer(device: int, peerDevice: int) -> int:
    Device(device).use(), Device(peerDevice).use()
    return 0


def runtimeGetVersion() -> int:
    return _VERSION


def driverGetVersion() -> int:
    return _VERSION


def memGetInfo() -> tuple[int, int]:
    return memory.memory_info(model())


def getDeviceProperties(device: int) -> dict[str, Any]:
    """Return the GPU's properties under the names of `cudaDeviceProp`."""
    Device(device).use()
    gpu = model()
    return {
        "name": gpu.name.encode(), "totalGlobalMem": gpu.memory,
        "sharedMemPerBlock": gpu.static_shared_per_block, "regsPerBlock": gpu.registers_per_block,
        "sharedMemPerBlockOptin": gpu.shared_per_block, "warpSize": gpu.warp_size,
        "sharedMemPerMultiprocessor": gpu.shared_per_sm, "l2CacheSize": gpu.l2,
        "maxThreadsPerBlock": gpu.max_threads_per_block, "maxThreadsDim": gpu.max_block,
        "maxThreadsPerMultiProcessor": gpu.max_warps_per_sm * gpu.warp_size,
        "maxGridSize": gpu.max_grid, "major": gpu.compute_capability[0],
        "minor": gpu.compute_capability[1], "multiProcessorCount": gpu.sms,
        "clockRate": gpu.boost_mhz * 1000, "memoryBusWidth": gpu.memory_bus_bits,
        "regsPerMultiprocessor": gpu.registers_per_sm, "unifiedAddressing": 1,
        "managedMemory": 1, "concurrentKernels": 1, "ECCEnabled": 1, "pciBusID": 0,
    }  # fmt: skip


def malloc(size: int) -> int:
    """Allocate memory and return its address."""
    made = memory.Memory(size)
    _allocated[made.ptr] = made
    return made.ptr


mallocManaged = malloc


def free(ptr: int) -> None:
    if ptr and _allocated.pop(ptr, None) is None:
        raise CUDARuntimeError(1, f"cudaErrorInvalidValue: {ptr:#x} was not allocated")


def memcpy(dst: int, src: int, size: int, kind: int) -> None:
    _record("cudaMemcpy", dst, src, size, kind, 0)
    ctypes.memmove(dst, src, size)


def memcpyAsync(dst: int, src: int, size: int, kind: int, stream: int) -> None:
    _record("cudaMemcpyAsync", dst, src, size, kind, stream)
    ctypes.memmove(dst, src, size)


def _record(call: str, dst: int, src: int, size: int, kind: int, stream: int) -> None:
    """Record a copy for a timeline; of cudaMemcpyDefault the direction is not known."""
    direction = _DIRECTIONS.get(kind)
    if activity.current is not None and direction is not None:
        with activity.call(call):
            memory = src if direction == timeline.TO_HOST else dst
            activity.copied(direction, size, stream=stream, memory=memory)


def memset(ptr: int, value: int, size: int) -> None:
    ctypes.memset(ptr, value, size)


def memsetAsync(ptr: int, value: int, size: int, stream: int) -> None:
    ctypes.memset(ptr, value, size)


def streamCreate() -> int:
    return next(_handles)


def streamCreateWithFlags(flags: int) -> int:
    return next(_handles)


def streamDestroy(stream: int) -> None:
    """Return at once: a stream holds nothing."""


def streamSynchronize(stream: int) -> None:
    """Return at once: launches are synchronous."""
    activity.waited("cudaStreamSynchronize", stream)


def profilerStart() -> None:
    """Return at once: `weft profile` profiles scripts."""


def profilerStop() -> None:
    """Return at once: `weft profile` profiles scripts."""
