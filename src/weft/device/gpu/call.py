"""One kernel with its launch configuration, and the buffers that launches write parameters to."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

from weft.device import driver
from weft.device.base import LaunchConfig
from weft.device.gpu import pending

Launcher = Callable[..., int]
"""cuLaunchKernelEx: takes what a slot gives, and answers with a result."""


class ParameterLayout(NamedTuple):
    """The offsets of a kernel's parameters in its parameter block, and the size of the block."""

    size: int
    offsets: tuple[int, ...]


class LaunchSlot:
    """The arguments of one driver launch; two simultaneous launches need two slots.

    The driver is given a pointer to each parameter, never the block as a whole: ptxas moves
    parameters that are aligned to more than 16 bytes, and only the driver knows where to.
    `keep` is what must live as long as the slot does.
    """

    __slots__ = ("_keep", "buffer", "config", "given", "stream")

    def __init__(self, call: KernelCall, keep: object = None) -> None:
        grid, block, shared, cluster, early = call.shape
        self.config = driver.CuLaunchConfig(grid, block, shared, None, None, 0)
        wanted = []
        if call.cooperative:
            wanted.append(driver.LaunchAttribute(driver.COOPERATIVE, 0, (1,)))
        if cluster is not None:
            wanted.append(driver.LaunchAttribute(driver.CLUSTER, 0, cluster))
        if early:
            wanted.append(driver.LaunchAttribute(driver.PROGRAMMATIC, 0, (1,)))
        attributes = (driver.LaunchAttribute * max(len(wanted), 1))(*wanted)
        if wanted:
            self.config.attributes = ctypes.addressof(attributes)
            self.config.attribute_count = len(wanted)
        size, offsets = call.layout
        self.buffer = ctypes.create_string_buffer(max(size, 1))
        start = ctypes.addressof(self.buffer)
        params = (ctypes.c_void_p * max(len(offsets), 1))(*(start + offset for offset in offsets))
        self.stream = 0
        self.given = (ctypes.byref(self.config), ctypes.c_void_p(call.function), params, None)
        self._keep = (attributes, keep)


class KernelCall:
    """A kernel, its configuration, and idle slots; taking and returning a slot are atomic."""

    def __init__(
        self,
        name: str,
        function: int,
        device: int,
        layout: ParameterLayout,
        shape: LaunchConfig,
        cooperative: bool,
    ) -> None:
        self.name, self.function, self.device = name, function, device
        self.layout, self.shape, self.cooperative = layout, shape, cooperative
        self.idle: list[LaunchSlot] = [LaunchSlot(self)]
        direct: Launcher = driver.library().cuLaunchKernelEx
        self.launcher = direct if driver.count() == 1 else self._placed(direct)

    def run(self, params: bytes, stream: int) -> None:
        """Launch with a parameter block on a stream."""
        try:
            slot = self.idle.pop()
        except IndexError:
            slot = LaunchSlot(self)
        ctypes.memmove(slot.buffer, params, len(params))
        self.fire(slot, stream)
        self.idle.append(slot)

    def bound(self, params: bytes, current: Callable[[], int], keep: object) -> Callable[[], None]:
        """A launch whose parameters stay; each stream has a slot that only it writes to."""
        slots: dict[int, LaunchSlot] = {}
        note, name, launcher = pending.launched.append, self.name, self.launcher

        def slot_for(stream: int) -> LaunchSlot:
            slot = slots[stream] = LaunchSlot(self, keep)
            ctypes.memmove(slot.buffer, params, len(params))
            slot.config.stream = slot.stream = stream
            return slot

        def launch() -> None:
            stream = current()
            slot = slots.get(stream) or slot_for(stream)
            note(name)
            if code := launcher(*slot.given):
                self.failed(code, slot)

        return launch

    def fire(self, slot: LaunchSlot, stream: int) -> None:
        """Launch with the arguments of a slot."""
        if slot.stream != stream:
            slot.config.stream = slot.stream = stream
        pending.launched.append(self.name)
        if code := self.launcher(*slot.given):
            self.failed(code, slot)

    def failed(self, code: int, slot: LaunchSlot) -> None:
        """Retry if only the context was missing; else raise the driver's error."""
        # A new thread has no current context. With one GPU, this retry is cheaper than a look at it
        # before every launch.
        if code in driver.NO_CONTEXT:
            with driver.current(self.device):
                code = driver.library().cuLaunchKernelEx(*slot.given)
        if code:
            with contextlib.suppress(IndexError):
                pending.launched.pop()  # it was not launched
            raise pending.failure(code, self.name)

    def _placed(self, direct: Launcher) -> Launcher:
        """Make the device's context current before each launch: with several GPUs it may not be."""
        get = driver.library().cuCtxGetDevice

        def launch(*given: Any) -> int:
            number = ctypes.c_int()
            if get(ctypes.byref(number)) == driver.SUCCESS and number.value == self.device:
                return direct(*given)
            with driver.current(self.device):
                return direct(*given)

        return launch
