"""PTX on the simulated device: its variables, its services, its compiled kernels."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.device.base import Allocation, Dim3, LaunchConfig, Program
from weft.device.models import GpuModel
from weft.device.occupancy import occupancy
from weft.device.sim.code_info import CodeInfo
from weft.device.sim.run import draft
from weft.device.sim.run.arena import Arena
from weft.device.sim.run.compile import CompileJob
from weft.device.sim.run.image import VariableImage
from weft.device.sim.run.tiers.kernel_code import TieredCode
from weft.device.summary import KernelSummary, ModuleSummary, choose, matching
from weft.errors import Error, LaunchError
from weft.memory_errors import memory_for
from weft.records import dataclass

if TYPE_CHECKING:  # a launch from the cache needs none of these, and they take long to import
    from numpy.typing import DTypeLike, NDArray

    from weft.device.sim.run.observation import Observer
    from weft.device.sim.run.services import Services
    from weft.ptx.model import PtxFunction, PtxModule


REMEMBERED = 128
"""The number of kernels and block sizes whose code a module stores."""


@dataclass(frozen=True, slots=True)
class TextureUnit:
    """The unit that executes texture and surface instructions: a function of a program's library.

    address  of the function; `memory.textures` calls it
    strict   the same for launches under the sanitizer: it refuses what a GPU reads as zero
    error    describes the access that failed
    """

    address: int
    strict: int
    error: Callable[[], str]


class SimModule:
    """A program that is loaded on a simulated GPU."""

    textures: TextureUnit | None = None
    """The default for all kernels of a process; a unit of a whole program has its own."""

    def __init__(
        self,
        program: Program,
        model: GpuModel,
        *,
        fast: bool = False,
        within: SimModule | None = None,
    ) -> None:
        """A template instance, `within` its module, shares the module's variables and heap."""
        self.program, self.ptx, self.kernels = program, program.ptx, program.kernels
        self.model, self.fast = model, fast
        self._summary: ModuleSummary | None = None
        self._symbols: NDArray[np.int64] | None = None
        self._services: Services | None = None
        self._code: dict[tuple[str, Dim3, str, draft.Tier, bool], TieredCode] = {}
        self._idle: dict[tuple[object, ...], list[Arena]] = {}
        # Reentrant: `Plan.under` holds it while its plan compiles.
        self._lock = threading.RLock()
        self.root: SimModule = within.root if within else self
        self.image: VariableImage = within.image if within else VariableImage()
        self.allocates = False

    @property
    def exclusive(self) -> contextlib.AbstractContextManager[object]:
        """No other thread compiles kernels of this module inside of a `with` block."""
        return self._lock

    @property
    def module(self) -> PtxModule:
        """The parsed PTX."""
        return self.program.module

    @property
    def summary(self) -> ModuleSummary:
        """The module without its code."""
        if self._summary is None:
            self._summary = self.program.summary
            # Instances share a heap, so launches of each must admit what any of them allocates.
            self.root.allocates |= self._summary.allocates
        return self._summary

    @property
    def services(self) -> Services:
        """The host services of the module's kernels."""
        root = self.root
        if root._services is None:
            from weft.device.sim.run.services import Services

            with root._lock:
                root._services = root._services or Services(root)
        return root._services

    def entry(self, name: str) -> KernelSummary:
        return self.summary.entries[name]

    def function(self, entry: str) -> PtxFunction:
        return self.module.functions[entry]

    def place(self) -> NDArray[np.int64]:
        """The addresses of the module's variables, in its order."""
        if self._symbols is None:
            with self.image.lock, memory_for("the variables of the module"):
                self._symbols = self.image.place(self.summary)
        return self._symbols

    def find(self, name: str) -> list[str]:
        """The variables that a C++ name may mean, as PTX names them."""
        self.place()
        return matching(name, self.image.placed)

    def admit(self, instance: Program) -> None:
        """Place the variables of a template instance in the image that instances share."""
        SimModule(instance, self.model, fast=self.fast, within=self).place()

    def variable(self, name: str, dtype: DTypeLike) -> NDArray[Any]:
        """A variable as an array that shares its memory."""
        self.place()
        return self.image.view(choose(name, self.image.placed), np.dtype(dtype))

    def resources(self, entry: str) -> None:
        """None: only an assembler knows; `registers` calls it."""

    def name(self, entry: str) -> str:
        """A kernel's name in the source, where it is known."""
        return self.kernels[entry].name if entry in self.kernels else entry

    def owned(self) -> list[Allocation]:
        """Memory that no argument gives: blocks of the heap, and the module's variables."""
        live = self.services.heap.live
        blocks = [Allocation(at, size, True, "heap block") for at, size in live.items()]
        return blocks + [
            Allocation(x.address, x.variable.size, x.variable.space == "global", name)
            for name, x in self.image.placed.items()
        ]

    def code(
        self, entry: str, block: Dim3, observer: Observer | None = None, *, scheduled: bool = False
    ) -> TieredCode:
        """Machine code of a kernel for one block size, with an observer's beside it.

        scheduled  code that runs under schedules
        """
        tier = draft.chosen()
        place = entry, block, "" if observer is None else observer.key, tier, scheduled
        with self._lock:
            code = self._code.get(place)
            if code is None:
                if len(self._code) >= REMEMBERED:  # prepared launches keep what they run
                    del self._code[next(iter(self._code))]
                    self._idle.clear()
                job = CompileJob(
                    lambda: self.module, self.ptx.text, entry, block, self.fast, observer, scheduled
                )
                self._code[place] = code = TieredCode(job, tier)
        return code

    def idle(self, *place: object) -> list[Arena]:
        """Arenas that wait for a launch of their kind; taking and giving back are atomic."""
        return self._idle.setdefault(place, [])

    def resident_blocks(
        self, info: CodeInfo, config: LaunchConfig, registers: int | None = None
    ) -> int:
        """Blocks the simulated GPU holds at once; registers that are not given limit nothing."""
        fits = occupancy(
            self.model,
            threads=info.threads,
            registers=registers,
            shared_bytes=info.shared_bytes + config.shared_bytes,
        )
        return max(1, fits.blocks) * self.model.sms

    def registers(self, entry: str) -> int | None:
        """The registers of a thread, if the assembler reports them."""
        with contextlib.suppress(Error):  # PTX alone cannot always be assembled
            return self.kernels[entry].resources().registers if entry in self.kernels else None
        return None

    def check_cooperative(self, entry: str, config: LaunchConfig) -> None:
        """Refuse a grid whose blocks wait for each other and cannot all run at once."""
        info = self.code(entry, config.block).info
        registers, total = self.registers(entry), math.prod(config.grid)
        most = self.resident_blocks(info, config, registers)
        if total > most:
            raise LaunchError(
                f"{self.name(entry)}: too many blocks for a cooperative launch",
                got=f"{total} blocks of {math.prod(config.block)} threads",
                allowed=f"{most}, which {self.model.name} holds at once",
                next="launch fewer blocks and let each do more, in a loop over the grid",
            )
