"""Pending launches: the kernels launched since the last synchronisation, and the report of faults.

A launch returns before its kernel has run. The driver reports a fault at a later call: the next
launch, or `synchronize`. It does not name the kernel, so the candidates are recorded. After such a
fault the context is lost: every further call in this process fails.
"""

from __future__ import annotations

import ctypes
from collections import deque

from weft.device import driver
from weft.errors import AssertFailed, DeviceError, IllegalAddress, MisalignedAddress, TimeLimit

RECORDED = 32
"""The number of launches that are recorded by name."""

launched: deque[str] = deque(maxlen=RECORDED)
"""Kernels that may still run; recording one costs a single append per launch."""

# Native launches write to it before they release the interpreter's lock, so it needs no other.
ring = (ctypes.c_uint64 * (RECORDED + 1))()
"""The same for launches by machine code: their count, then the kernels' numbers in turn."""
_numbers: dict[str, int] = {}


def number(name: str) -> int:
    """The number of a kernel in the ring."""
    return _numbers.setdefault(name, len(_numbers))


_KINDS: dict[int, tuple[type[DeviceError], str]] = {
    700: (IllegalAddress, "an access outside of every allocation"),
    716: (MisalignedAddress, "an access whose address is not a multiple of its size"),
    717: (IllegalAddress, "an access outside of every allocation, in another memory space"),
    710: (AssertFailed, "a device assert was false"),
    702: (TimeLimit, "the kernel ran longer than this system allows"),
    714: (DeviceError, "the hardware reports a corrupted stack"),
    715: (DeviceError, "an illegal instruction"),
    718: (DeviceError, "a jump outside of the code"),
    719: (DeviceError, "the kernel failed: a trap, or an access that the hardware refused"),
    214: (DeviceError, "a memory error that could not be corrected (ECC)"),
    226: (DeviceError, "a memory error that was contained to this process"),
}
"""Results that mean that a kernel failed and destroyed the context."""


def synchronize(device: int | None = None) -> None:
    """Wait for all work of a GPU (of every one in use); raise what went wrong there."""
    if not driver.count():
        return
    for number in range(driver.count()) if device is None else (device,):
        # Making a context current creates it: GPUs that are not in use are left alone.
        if device is None and not _active(number):
            continue
        with driver.current(number):
            code = driver.library().cuCtxSynchronize()
        if code:
            raise failure(code)
    # The names do not say which GPU a kernel runs on: they go when all GPUs have been waited for.
    if device is None or driver.count() == 1:
        launched.clear()
        ring[0] = 0


def failure(code: int, kernel: str = "") -> DeviceError:
    """The error for a result of a launch or a synchronisation."""
    if code not in _KINDS:
        return DeviceError(
            f"the driver refused to launch {kernel}" if kernel else "the driver failed",
            got=driver.describe(code),
        )
    kind, what = _KINDS[code]
    names = _names()
    error = kind(
        f"{what}, in {_or(names)}" if names else what,
        got=driver.describe(code),
        next="rerun it on the simulated GPU with the arrays on the CPU for the exact line; "
        "the CUDA context is lost, so start a new process for the GPU",
    )
    error.kernel = names[0] if len(names) == 1 else ""
    return error


def _names() -> list[str]:
    """The kernels that may still run, each once."""
    by_number = list(_numbers)
    noted = [by_number[ring[1 + i]] for i in range(min(ring[0], RECORDED))]
    return list(dict.fromkeys([*launched, *noted]))


def _or(names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    return f"one of the kernels launched since the last synchronisation: {', '.join(names)}"


def _active(number: int) -> bool:
    """Return whether the primary context of this device exists."""
    flags, state = ctypes.c_uint(), ctypes.c_int()
    code = driver.library().cuDevicePrimaryCtxGetState(
        number, ctypes.byref(flags), ctypes.byref(state)
    )
    return code != 0 or state.value != 0
