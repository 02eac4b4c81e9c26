"""A program on one real GPU: machine code where a source is at hand, else PTX."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from weft.device.arguments import Packer
from weft.device.base import ArgumentPacker as AnyPacker
from weft.device.base import Device, LaunchConfig, Program
from weft.device.gpu import memory
from weft.device.gpu.call import ParameterLayout
from weft.device.gpu.facts import facts
from weft.device.gpu.module import GpuModule, load
from weft.device.gpu.plan import GpuPlan
from weft.device.gpu.variable import GpuVariable
from weft.device.summary import choose, matching
from weft.errors import CompileError
from weft.source.resources import Resources


class LoadedProgram:
    """A program that is loaded on a real GPU.

    A template instance has variables of its own there. What the host writes to the variables of
    its module is also written to those of the instances, and an instance that is loaded later
    starts with the values that the module's variables have.
    """

    def __init__(self, program: Program, device: Device, number: int) -> None:
        self.program, self._device, self._number = program, device, number
        self._admitted: list[str] = []
        text, origin = program.ptx.text, program.ptx.origin
        self.module = load(_image(program, facts(number).machine), number, origin=origin, ptx=text)
        base = None if program.base is None else program.base.loaded(device)
        if isinstance(base, LoadedProgram):
            # A variable with addresses in it must keep those of its own program.
            plain = [v.name for v in program.summary.variables if not v.relocations]
            _inherit(self.module, base.module, plain)

    def resources(self, entry: str) -> Resources:
        """The resources of a kernel, as the driver reports them."""
        return self.module.resources(entry)

    def find(self, name: str) -> list[str]:
        """The variables that a C++ name may mean, as PTX names them."""
        return matching(name, self._names())

    def admit(self, instance: Program) -> None:
        """Accept the names of its variables; `variable` finds the loaded code that has them."""
        self._admitted += (v.name for v in instance.summary.variables)

    def variable(self, name: str, dtype: Any) -> GpuVariable:
        """A variable that is read and written by copies."""
        symbol = choose(name, self._names())
        return GpuVariable(lambda: self._holders(symbol), symbol, np.dtype(dtype), self._number)

    def prepare(
        self, entry: str, config: LaunchConfig, packer: AnyPacker, stream: object
    ) -> GpuPlan:
        """A kernel with its configuration, ready to launch."""
        assert isinstance(packer, Packer)  # the fast paths read how it packs
        parameters = self.program.summary.entries[entry]
        layout = ParameterLayout(parameters.param_bytes, tuple(p.offset for p in parameters.params))
        call = self.module.call(entry, layout, *config, name=packer.kernel)
        return GpuPlan(packer, call, stream)

    def _names(self) -> Iterable[str]:
        """The variables of the program, and of the module whose template it instantiates."""
        programs = [p for p in (self.program.base, self.program) if p is not None]
        names = [v.name for p in programs for v in p.summary.variables]
        return dict.fromkeys([*names, *self._admitted])

    def _holders(self, name: str) -> list[tuple[int, int]]:
        """Address and size of a variable here, and in the instances that are loaded."""
        loaded = (instance.loaded(self._device) for instance in self.program.instances)
        modules = [self.module, *(x.module for x in loaded if isinstance(x, LoadedProgram))]
        return [place for m in modules if (place := m.symbol(name)) is not None]


def _image(program: Program, machine: str) -> str | bytes:
    if program.assemble is None:
        return program.ptx.text
    try:
        return program.assemble(machine)
    except CompileError as error:
        if "gpu-architecture" not in f"{error} {error.log}":
            raise
        return program.ptx.text  # the GPU is newer than the compiler; its driver assembles PTX


def _inherit(module: GpuModule, base: GpuModule, names: Iterable[str]) -> None:
    """Copy the values of variables from the module that a template instance belongs to."""
    for name in names:
        to, source = module.symbol(name), base.symbol(name)
        if to is not None and source is not None and to[1] == source[1]:
            memory.write(to[0], memory.read(*source, module.device), module.device)
