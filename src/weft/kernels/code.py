"""The code of a kernel: its program, its parameters and resources, and the devices it runs on."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from weft.device import devices
from weft.device.arguments import Packer
from weft.device.base import Device, KernelInfo, LaunchConfig, Packed, Program
from weft.device.models import GpuModel
from weft.device.summary import KernelSummary
from weft.errors import ArgumentError, LaunchError
from weft.kernels.limits import check

if TYPE_CHECKING:
    from weft.source.resources import Resources


class KernelCode:
    """The facts about a kernel that its launches need."""

    def __init__(
        self,
        program: Program,
        model: GpuModel,
        entry: str,
        name: str,
        measure: Callable[[], Mapping[str, Resources]],
        *,
        fast: bool = False,
        home: Device | None = None,
    ) -> None:
        """A kernel of a program, by its entry in the PTX and its name in the source.

        model    the GPU to simulate for arrays in host memory; `fast` as in SimDevice
        measure  returns the assembler's report on the program's kernels, by entry
        home     the real GPU that the program was compiled for, which runs all launches
        """
        self.program, self.model, self.home = program, model, home
        self.simulator = devices.simulated(model, fast=fast)
        self.entry, self.name, self._measure = entry, name, measure
        self._resources: Resources | None = None
        self._packer: Packer | None = None
        self._launches: dict[Hashable, Any] = {}  # by configuration, which `Kernel` keeps prepared
        program.kernels[entry] = KernelInfo(name, lambda: self.resources)

    @property
    def packer(self) -> Packer:
        """The object that checks its arguments and converts them to parameters."""
        if self._packer is None:
            summary, types = self.summary, self.program.ptx.signatures.get(self.entry)
            self._packer = Packer(self.name, summary.params, summary.param_bytes, types)
        return self._packer

    @property
    def summary(self) -> KernelSummary:
        """Its parameters, launch bounds and shared memory."""
        return self.program.summary.entries[self.entry]

    @property
    def ptx(self) -> str:
        """The PTX of the module this kernel is in."""
        return self.program.ptx.text

    @property
    def static_shared(self) -> int:
        """Bytes of static shared memory per block."""
        return self.summary.static_shared

    @property
    def resources(self) -> Resources:
        """Registers, spills and shared memory on the simulated GPU, or the one it is for.

        The first call compiles to machine code; launches are then also checked for registers.
        """
        if self._resources is None:
            variables = self.program.summary.variables
            constant = sum(v.size for v in variables if v.space == "const")
            report = self._measure().get(self.entry)
            if report is None:
                raise LaunchError(
                    f"the assembler did not say what {self.name} needs",
                    next="run `weft cache clear`, so that it is assembled again",
                )
            self._resources = replace(report, constant_bytes=constant)
            self._launches.clear()  # they were checked without its registers
        return self._resources

    def device_of(self, packed: Packed) -> Device:
        """The device where the arrays of a launch are."""
        _, memory, _, place = packed
        if place is not None:
            return devices.real(place.device)
        if self.home is None:
            return self.simulator
        if memory:
            raise ArgumentError(
                f"{self.name} was compiled for a real GPU, its arrays are in host memory",
                got="arrays on the CPU",
                next="move them, e.g. x.cuda(), or leave device= out: the device follows the data",
            )
        # Without arrays, a kernel that was compiled for a real GPU runs there.
        return self.home

    def check(self, config: LaunchConfig, device: Device) -> None:
        """Raise LaunchError where a device cannot run the launch."""
        resources = self.program.on(device).resources(self.entry) or self._resources
        check(self.name, self.summary, config, device.limits, resources)
