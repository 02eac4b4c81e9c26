"""Loads one overload of a Numba kernel on the simulated GPU."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.device.base import LaunchConfig, Program
from weft.device.models import GpuModel
from weft.device.sim.device import module
from weft.frontends.numba.arguments import Packer
from weft.kernels import Kernel
from weft.source.assemble import assemble
from weft.source.resources import Resources
from weft.values import Ptx


class Loaded(Kernel):
    """A kernel whose arguments are packed in Numba's way."""

    def __init__(
        self,
        ptx: Ptx,
        model: GpuModel,
        names: Sequence[str],
        types: Sequence[Any],
        captured: Sequence[Any],
    ) -> None:
        name, entry = next(iter(ptx.entries.items()))
        super().__init__(Program(ptx), model, entry, name, self._assembled)
        params, size = self.summary.params, self.summary.param_bytes
        self._numba = Packer(name, names, types, params, size, captured)

    @property
    def packer(self) -> Any:
        return self._numba

    def _assembled(self) -> Mapping[str, Resources]:
        return assemble(self.ptx, self.model.machine)

    def status(self, what: str) -> NDArray[np.int32]:
        """A variable in which a kernel compiled with debug=True stores an exception."""
        code = module(self.program, self.simulator)
        return code.variable(f"{self.entry}__{what}__", np.int32)

    @property
    def max_threads(self) -> int:
        """The most threads per block: the GPU's limit, or that of `launch_bounds`."""
        bounds = self.summary.directives.get("maxntid")
        most = self.model.max_threads_per_block
        return most if bounds is None else math.prod(bounds)

    def blocks_per_sm(self, threads: int, shared: int) -> int:
        """The number of resident blocks per SM."""
        sim = module(self.program, self.simulator)
        grid = LaunchConfig((1, 1, 1), (threads, 1, 1), shared)
        info = sim.code(self.entry, grid.block).info
        return sim.resident_blocks(info, grid, sim.registers(self.entry)) // sim.model.sms


class Attributes(NamedTuple):
    """Kernel attributes in the driver's form."""

    regs: int
    shared: int
    local: int
    const: int
    maxthreads: int


class Function:
    """A stand-in for a kernel loaded by the driver."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self.handle = self.kernel = self.attributes = self

    @property
    def max_threads_per_block(self) -> int:
        return self.loaded.max_threads

    @property
    def attrs(self) -> Attributes:
        r = self.loaded.resources
        most = self.max_threads_per_block
        return Attributes(r.registers, r.shared_bytes, r.local_bytes, r.constant_bytes, most)
