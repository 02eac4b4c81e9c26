"""A real GPU as a device."""

from __future__ import annotations

from typing import NoReturn

from weft.device.base import ArgumentPacker, LaunchTarget, Packed, PreparedLaunch, Program
from weft.device.gpu.facts import GpuFacts, facts
from weft.device.gpu.loaded import LoadedProgram
from weft.device.gpu.plan import GpuPlan
from weft.errors import ArgumentError


class GpuDevice:
    """A real GPU, by its number; `weft.device.devices.real` makes one for each number."""

    def __init__(self, number: int) -> None:
        self.number = number

    @property
    def limits(self) -> GpuFacts:
        return facts(self.number)

    @property
    def architecture(self) -> str:
        """The architecture that sources are compiled for."""
        return facts(self.number).machine

    def get_ready(self) -> None:
        """Do nothing: the code that launches need was loaded to find the architecture."""

    def load(self, program: Program) -> LoadedProgram:
        """Load machine code, or PTX."""
        return LoadedProgram(program, self, self.number)

    def prepare(
        self, kernel: LaunchTarget, packer: ArgumentPacker, stream: object = None
    ) -> GpuPlan:
        """Load the kernel. The driver cannot be stopped meanwhile, so no time limit applies."""
        assert isinstance(kernel.module, LoadedProgram)
        return kernel.module.prepare(kernel.entry, kernel.config, packer, stream)

    def observe(
        self, kernel: LaunchTarget, packed: Packed, observer: object, time_limit: float | None
    ) -> NoReturn:
        """Raise: observers add code to simulated kernels only."""
        assert isinstance(kernel.module, LoadedProgram)
        raise self._refused(kernel.module.program.kernels[kernel.entry].name, "observed")

    def sanitize(
        self, launch: PreparedLaunch, packed: Packed, time_limit: float | None
    ) -> NoReturn:
        """Raise: the sanitizer runs on the simulated GPU only."""
        assert isinstance(launch, GpuPlan)
        raise self._refused(launch.call.name, "sanitized")

    def _refused(self, kernel: str, what: str) -> ArgumentError:
        return ArgumentError(
            f"{kernel} can be {what} on the simulated GPU only",
            got=f"arrays on gpu:{self.number}",
            next="pass copies on the CPU: x.cpu()",
        )
