"""A simulated GPU as a device: programs are loaded on it, and tools attach to its launches."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from weft.device.base import ArgumentPacker, LaunchTarget, Packed, PreparedLaunch, Program
from weft.device.models import GpuModel
from weft.device.sim.run import settings
from weft.device.sim.run.compile import load_compiler
from weft.device.sim.run.launch import LaunchPlan
from weft.device.sim.run.module import SimModule
from weft.device.sim.run.settings import LaunchRequest, Session
from weft.device.time_limit import within
from weft.records import dataclass

if TYPE_CHECKING:  # code that emits is imported by the kernels that must be compiled
    from weft.device.sim.run.observation import Observer


@dataclass(frozen=True, eq=False)
class SimDevice:
    """The simulated GPU of a model; `fast` computes tensor-core products with plain FMA."""

    model: GpuModel
    fast: bool = False

    def __eq__(self, other: object) -> bool:
        """A model is compared by identity: a table of figures has no quick hash."""
        return isinstance(other, SimDevice) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[int, bool]:
        return id(self.model), self.fast

    @property
    def limits(self) -> GpuModel:
        return self.model

    @property
    def architecture(self) -> str:
        """The architecture that sources are compiled for."""
        return self.model.compile_for

    def get_ready(self) -> None:
        """Import the code generator, which takes a while, before there is a kernel to compile."""
        load_compiler()

    def load(self, program: Program) -> SimModule:
        """A template instance shares the variables and the heap of its module."""
        base = None if program.base is None else module(program.base, self)
        return SimModule(program, self.model, fast=self.fast, within=base)

    def prepare(
        self, kernel: LaunchTarget, packer: ArgumentPacker, stream: object = None
    ) -> LaunchPlan:
        """A launch that is compiled when it first runs; it runs at once, whatever its stream."""
        return LaunchPlan(cast(SimModule, kernel.module), kernel.entry, kernel.config, lazy=True)

    def observe(
        self, kernel: LaunchTarget, packed: Packed, observer: object, time_limit: float | None
    ) -> None:
        """Run one launch under an observer."""
        sim, watching = cast(SimModule, kernel.module), cast("Observer", observer)
        make = partial(LaunchPlan, sim, kernel.entry, kernel.config, watching)
        within(time_limit, sim.name(kernel.entry), make).run((), packed, time_limit)

    def sanitize(self, launch: PreparedLaunch, packed: Packed, time_limit: float | None) -> None:
        """Run one launch under the sanitizer; raise SanitizerError for its findings."""
        params, memory, keep, _ = packed
        _strict().run(LaunchRequest(cast(LaunchPlan, launch), params, memory, keep, time_limit))


def _strict() -> Session:
    """A session in which every launch raises its own findings."""
    from weft.device.sim.tools.sanitizer.session import Strict  # other launches do without

    return Strict()


settings.provide(_strict)


def module(program: Program, device: object) -> SimModule:
    """A program's module on a simulated GPU, which tools read."""
    assert isinstance(device, SimDevice)
    loaded = program.on(device)
    assert isinstance(loaded, SimModule)
    return loaded
