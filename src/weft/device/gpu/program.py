"""One compilation on the GPUs it is launched on: machine code where a source is at hand, or PTX."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from weft.device.gpu import memory
from weft.device.gpu.facts import facts
from weft.device.gpu.module import GpuModule, load
from weft.errors import CompileError
from weft.values import Ptx

Assemble = Callable[[str], bytes]
"""An architecture, e.g. sm_90a -> machine code for it."""


class Program:
    """Loaded on a GPU by the first launch there, once.

    An instance of a template is a program of its own, with variables of its own; `base` is that of
    its module. What the host writes to the module's variables is written to those of the instances
    too, and an instance that is loaded later begins with it; `variables` are their names.
    """

    def __init__(
        self,
        ptx: Ptx,
        assemble: Assemble | None,
        base: Program | None = None,
        variables: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self.ptx, self._assemble, self._base, self._variables = ptx, assemble, base, variables
        self._modules: dict[int, GpuModule] = {}
        self._instances: list[Program] = []
        self._lock = threading.Lock()
        if base is not None:
            base._instances.append(self)

    def holders(self, name: str, device: int) -> list[tuple[int, int]]:
        """Address and size of a variable here, and in the instances that are loaded."""
        loaded = (p._modules.get(device) for p in self._instances)
        modules = [self.on(device), *(m for m in loaded if m is not None)]
        return [found for m in modules if (found := m.symbol(name)) is not None]

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
        module = load(self._image(facts(device).machine), device, origin=origin, ptx=text)
        elder = self._base._modules.get(device) if self._base is not None else None
        if elder is not None:
            _inherit(module, elder, self._variables())
        return module

    def _image(self, machine: str) -> str | bytes:
        if self._assemble is None:
            return self.ptx.text
        try:
            return self._assemble(machine)
        except CompileError as error:
            if "gpu-architecture" not in f"{error} {error.log}":
                raise
            return self.ptx.text  # a GPU newer than the compiler: its driver knows how


def _inherit(module: GpuModule, elder: GpuModule, names: Iterable[str]) -> None:
    """Gives variables the values that they have in another module."""
    for name in names:
        mine, theirs = module.symbol(name), elder.symbol(name)
        if mine is not None and theirs is not None and mine[1] == theirs[1]:
            data = memory.read(*theirs, module.device)
            memory.write(mine[0], data, module.device)
