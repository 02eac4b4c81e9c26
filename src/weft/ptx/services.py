"""Host services for kernels: the functions that no PTX text defines."""

from __future__ import annotations

LANGUAGE = {"vprintf": 2, "__assertfail": 5, "malloc": 1, "free": 1}
"""Functions of CUDA C++ that the host carries out, and how many arguments they have."""

_CALLS = {
    "GetParameterBufferV2": 4, "LaunchDeviceV2": 2, "LaunchDeviceV2_ptsz": 2,
    "GetLastError": 0, "PeekAtLastError": 0, "GetDevice": 1, "GetDeviceCount": 1,
    "RuntimeGetVersion": 1, "StreamCreateWithFlags": 2, "StreamDestroy": 1,
    "StreamWaitEvent": 3, "StreamWaitEvent_ptsz": 3, "EventCreateWithFlags": 2,
    "EventRecord": 2, "EventRecord_ptsz": 2, "EventDestroy": 1, "Malloc": 2, "Free": 1,
    "MemcpyAsync": 5, "MemcpyAsync_ptsz": 5, "MemsetAsync": 4, "MemsetAsync_ptsz": 4,
}  # fmt: skip
DEVICE_RUNTIME = {f"__cudaCDP2{name}": count for name, count in _CALLS.items()}
"""The calls of the device runtime, `cudadevrt`; a structure is one argument."""

OUTPUTS = {
    **{f"__cudaCDP2{x}": 4 for x in ("GetDevice", "GetDeviceCount", "RuntimeGetVersion")},
    **{f"__cudaCDP2{x}": 8 for x in ("StreamCreateWithFlags", "EventCreateWithFlags", "Malloc")},
}
"""Services whose result is stored where their first argument points, and its size in bytes."""

NO_MEMORY = 2
"""The result of such a call that returns a null pointer: cudaErrorMemoryAllocation."""

SET_CONDITIONAL = "cudaGraphSetConditional"
SERVICES = {**LANGUAGE, **DEVICE_RUNTIME, SET_CONDITIONAL: 2}
"""Functions that the host carries out, and how many arguments they have."""

STACK_FULL, NOT_A_FUNCTION = "stack:full", "call:unknown"
"""Calls that end the launch; linking puts them in."""

STACK_BYTES = 16 << 10
"""The stack of each thread for the frames of recursive functions; a GPU's own default is 1 KiB."""

NUMBERS = {name: i for i, name in enumerate((*SERVICES, STACK_FULL, NOT_A_FUNCTION))}
"""The number of each service, as compiled code says it."""
