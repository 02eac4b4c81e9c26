"""One compilation on the GPUs it is launched on: machine code where a source is at hand, or PTX."""

from __future__ import annotations

import threading
from collections.abc import Callable

from weft.device.gpu.facts import facts
from weft.device.gpu.module import GpuModule, load
from weft.errors import CompileError
from weft.values import Ptx

Assemble = Callable[[str], bytes]
"""An architecture, e.g. sm_90a -> machine code for it."""


class Program:
    """Loaded on a GPU by the first launch there, once."""

    def __init__(self, ptx: Ptx, assemble: Assemble | None) -> None:
        self.ptx, self._assemble = ptx, assemble
        self._modules: dict[int, GpuModule] = {}
        self._lock = threading.Lock()

    def on(self, device: int) -> GpuModule:
        """The module on a GPU."""
        found = self._modules.get(device)
        if found is None:
            with self._lock:
                found = self._modules.get(device) or self._load(device)
                self._modules[device] = found
        return found

    def _load(self, device: int) -> GpuModule:
        text, origin = self.ptx.text, self.ptx.origin
        return load(self._image(facts(device).machine), device, origin=origin, ptx=text)

    def _image(self, machine: str) -> str | bytes:
        if self._assemble is None:
            return self.ptx.text
        try:
            return self._assemble(machine)
        except CompileError as error:
            if "gpu-architecture" not in f"{error} {error.log}":
                raise
            return self.ptx.text  # a GPU newer than the compiler: its driver knows how
