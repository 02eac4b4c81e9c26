"""One kernel with its launch shape, and the room that its launches write their parameters to."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any

from weft.device.gpu import driver, pending

_END, _BUFFER, _SIZE = 0, 1, 2
"""CU_LAUNCH_PARAM_END, _BUFFER_POINTER, _BUFFER_SIZE"""


class Slot:
    """What the driver is given for one launch; two launches at once need two."""

    __slots__ = ("_keep", "buffer", "config", "given", "stream")

    def __init__(self, call: Call) -> None:
        grid, block, shared = call.shape
        self.config = driver.LaunchConfig(grid, block, shared, None, None, 0)
        if call.cooperative:
            attribute = driver.LaunchAttribute(driver.COOPERATIVE, 0, (1,))
            self.config.attributes = ctypes.addressof(attribute)
            self.config.attribute_count = 1
        else:
            attribute = None
        size = ctypes.c_size_t(call.param_bytes)
        self.buffer = ctypes.create_string_buffer(max(call.param_bytes, 1))
        extra = (ctypes.c_void_p * 5)(
            _BUFFER, ctypes.addressof(self.buffer), _SIZE, ctypes.addressof(size), _END
        )
        self.stream = 0
        self.given = (ctypes.byref(self.config), ctypes.c_void_p(call.function), None, extra)
        self._keep = (attribute, size)


class Call:
    """A kernel, its shape, and idle slots: taking one and giving it back are atomic."""

    def __init__(
        self,
        name: str,
        function: int,
        device: int,
        param_bytes: int,
        shape: tuple[tuple[int, int, int], tuple[int, int, int], int],
        cooperative: bool,
    ) -> None:
        self.name, self.function, self.device = name, function, device
        self.param_bytes, self.shape, self.cooperative = param_bytes, shape, cooperative
        self.idle: list[Slot] = [Slot(self)]
        self._launch: Any = driver.library().cuLaunchKernelEx
        self._several = driver.count() > 1

    def run(self, params: bytes, stream: int) -> None:
        """Launches with a parameter block on a stream."""
        try:
            slot = self.idle.pop()
        except IndexError:
            slot = Slot(self)
        ctypes.memmove(slot.buffer, params, len(params))
        self.fire(slot, stream)
        self.idle.append(slot)

    def fire(self, slot: Slot, stream: int) -> None:
        """Launches what a slot holds."""
        if slot.stream != stream:
            slot.config.stream = slot.stream = stream
        pending.launched.append(self.name)
        if self._several and not self._is_current():
            self._elsewhere(slot)
        elif code := self._launch(*slot.given):
            self._failed(code, slot)

    def _is_current(self) -> bool:
        """Is this the device of the calling thread? Asked only where there are several."""
        number = ctypes.c_int(-1)
        driver.library().cuCtxGetDevice(ctypes.byref(number))
        return number.value == self.device

    def _failed(self, code: int, slot: Slot) -> None:
        if code in driver.NO_CONTEXT:
            self._elsewhere(slot)
        else:
            raise self._error(code)

    def _elsewhere(self, slot: Slot) -> None:
        """Launches from a thread without a context, or with that of another device."""
        with driver.current(self.device):
            code = self._launch(*slot.given)
        if code:
            raise self._error(code)

    def _error(self, code: int) -> Exception:
        with contextlib.suppress(IndexError, ValueError):
            pending.launched.pop()  # it was not launched
        return pending.failure(code, self.name)
