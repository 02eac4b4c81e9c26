"""Launches: the module on the simulated device, its compiled kernels, and running a grid."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from weft.device.base import Allocation, Dim3, LaunchConfig
from weft.device.models import GpuModel
from weft.device.occupancy import occupancy
from weft.device.sim.layout import Context, Run
from weft.device.sim.run import draft, settings
from weft.device.sim.run.arena import Arena
from weft.device.sim.run.compile import Compiled, compile_kernel
from weft.device.sim.run.deadlock_detection import PAUSE, Watch
from weft.device.sim.run.host_threads import Crew
from weft.device.sim.run.image import Image
from weft.device.summary import Entry, ModuleSummary, summarize
from weft.device.time_limit import limited
from weft.errors import Error, LaunchError, memory_for
from weft.values import Ptx

if TYPE_CHECKING:  # a launch from the cache needs none of these, and they take long to import
    from weft.device.sim.run.observation import Observation, Observer
    from weft.device.sim.run.services import Services
    from weft.ptx.model import Function, Module
    from weft.source.resources import Resources

QUICK_WARPS = 64
"""Up to so many warps without a loop are run by the calling thread itself."""

SPARE_ROWS = 32
"""Room in the table of allocations for variables of template instances that come later."""


def thread_count() -> int:
    """Host threads a launch may use: WEFT_THREADS, or the cores this process may run on."""
    given = os.environ.get("WEFT_THREADS")
    if given and given.isdigit() and int(given) > 0:
        return int(given)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


class KernelInfo(NamedTuple):
    """A kernel's name in the source, and how to get the assembler's resource report."""

    name: str
    resources: Callable[[], Resources]


class SimModule:
    """PTX loaded on a simulated GPU; `kernels` describes its kernels, by entry."""

    def __init__(
        self, ptx: Ptx, model: GpuModel, *, fast: bool = False, within: SimModule | None = None
    ) -> None:
        """`within` another one it shares that one's variables and heap."""
        self.ptx, self.model, self.fast = ptx, model, fast
        self._module: Module | None = None
        self._summary: ModuleSummary | None = None
        self._symbols: NDArray[np.int64] | None = None
        self._services: Services | None = None
        self._compiled: dict[tuple[str, Dim3, str, bool], Compiled] = {}
        self._idle: dict[tuple[object, ...], list[Arena]] = {}
        self._lock = threading.RLock()
        self.root: SimModule = within.root if within else self
        self.image: Image = within.image if within else Image()
        self.allocates = False
        self.kernels: dict[str, KernelInfo] = {}

    @property
    def module(self) -> Module:
        """The parsed PTX."""
        if self._module is None:
            from weft.ptx.parse import parse

            self._module = parse(self.ptx.text, self.ptx.sources, name=self.ptx.origin)
        return self._module

    @property
    def summary(self) -> ModuleSummary:
        """The module without its code."""
        if self._summary is None:
            self._summary = summarize(self.ptx.text, lambda: self.module)
            self.root.allocates |= self._summary.allocates
        return self._summary

    @property
    def services(self) -> Services:
        """What kernels may ask of the host."""
        root = self.root
        if root._services is None:
            from weft.device.sim.run.services import Services

            with root._lock:
                root._services = root._services or Services()
        return root._services

    def entry(self, name: str) -> Entry:
        return self.summary.entries[name]

    def function(self, entry: str) -> Function:
        return self.module.functions[entry]

    def place(self) -> NDArray[np.int64]:
        """Where the module's variables are, in its order."""
        if self._symbols is None:
            with self.image.lock, memory_for("the variables of the module"):
                self._symbols = self.image.place(self.summary)
        return self._symbols

    def find(self, name: str) -> list[str]:
        """The variables that a C++ name may mean."""
        self.place()
        return self.image.find(name)

    def variable(self, name: str, dtype: DTypeLike) -> NDArray[Any]:
        """A variable as an array that shares its memory."""
        return self.image.view(self.symbol(name), np.dtype(dtype))

    def symbol(self, name: str) -> str:
        """The variable that a C++ name means, as PTX calls it."""
        found = self.find(name)
        if len(found) == 1:
            return found[0]
        raise LaunchError(
            f"'{name}' may be one of several variables" if found else f"no variable '{name}'",
            got=name,
            allowed=", ".join(found or self.image.placed) or "none",
        )

    def owned(self) -> list[Allocation]:
        """Memory that no argument gives: blocks of the heap, and the module's variables."""
        live = self.services.heap.live
        blocks = [Allocation(at, size, True, "heap block") for at, size in live.items()]
        return blocks + [
            Allocation(x.address, x.variable.size, x.variable.space == "global", name)
            for name, x in self.image.placed.items()
        ]

    def compiled(self, entry: str, block: Dim3, observer: Observer | None = None) -> Compiled:
        """Machine code of a kernel for one block size, with an observer's beside it."""
        place = entry, block, "" if observer is None else observer.key, draft.wanted()
        with self._lock:
            found = self._compiled.get(place)
            if found is None:
                how: dict[str, Any] = {"fast": self.fast, "observer": observer, "draft": place[3]}
                found = compile_kernel(lambda: self.module, self.ptx.text, entry, block, **how)
                self._compiled[place] = found
        return found

    def idle(self, *place: object) -> list[Arena]:
        """Arenas that wait for a launch of their kind; taking and giving back are atomic."""
        return self._idle.setdefault(place, [])

    def resident_blocks(
        self, compiled: Compiled, config: LaunchConfig, registers: int | None = None
    ) -> int:
        """Blocks the simulated GPU holds at once; registers that are not given limit nothing."""
        fits = occupancy(
            self.model,
            threads=compiled.facts.threads,
            registers=registers,
            shared_bytes=compiled.facts.shared_bytes + config.shared_bytes,
        )
        return max(1, fits.blocks) * self.model.sms

    def registers(self, entry: str) -> int | None:
        """Of a thread, where the assembler can say."""
        with contextlib.suppress(Error):  # PTX alone cannot always be assembled
            return self.kernels[entry].resources().registers if entry in self.kernels else None
        return None

    def check_cooperative(self, entry: str, config: LaunchConfig) -> None:
        """Refuses a grid whose blocks wait for each other and do not all run at once."""
        compiled = self.compiled(entry, config.block)
        registers, total = self.registers(entry), math.prod(config.grid)
        most = self.resident_blocks(compiled, config, registers)
        if total > most:
            name = self.kernels[entry].name if entry in self.kernels else entry
            raise LaunchError(
                f"{name}: too many blocks for a cooperative launch",
                got=f"{total} blocks of {math.prod(config.block)} threads",
                allowed=f"{most}, which {self.model.name} holds at once",
                next="launch fewer blocks and let each do more, in a loop over the grid",
            )


class Plan:
    """A kernel and a grid with all that its launches have in common."""

    def __init__(
        self,
        sim: SimModule,
        entry: str,
        config: LaunchConfig,
        observer: Observer | None = None,
        *,
        cooperative: bool = True,
    ) -> None:
        """In a launch that is not `cooperative`, a barrier of the grid traps, as on a GPU."""
        self.sim, self.entry, self.config, self.observer = sim, entry, config, observer
        self.cooperative = cooperative
        self.total = config.grid[0] * config.grid[1] * config.grid[2]
        self.compiled = compiled = sim.compiled(entry, config.block, observer)
        facts = compiled.facts
        if facts.grid_barrier and cooperative:
            sim.check_cooperative(entry, config)
        self._small = not facts.loops and self.total * facts.warps <= QUICK_WARPS
        self._slots = 1
        if facts.waits:  # in steps, so that grids of about a size share their memory
            resident = sim.resident_blocks(compiled, config)
            self._slots = min(1 << (self.total - 1).bit_length(), resident)
        self._symbols = int(sim.place().ctypes.data)
        self._idle_one = self._idle(1)
        self._under: dict[str, Plan] = {}

    def under(self, observer: Observer) -> Plan:
        """The same launches under an observer."""
        with self.sim._lock:
            if observer.key not in self._under:
                self._under[observer.key] = Plan(
                    self.sim, self.entry, self.config, observer, cooperative=self.cooperative
                )
        found = self._under[observer.key]
        found.observer = observer
        return found

    def run(
        self, params: bytes, memory: Sequence[Allocation], keep: object, time_limit: float | None
    ) -> None:
        """Runs the grid to its end; raises what went wrong. `keep` owns the memory."""
        report = settings.active() if self.observer is None else None
        if report is not None:
            report.run(settings.Request(self, params, memory, keep, time_limit))
            return
        self.run_plain(params, memory, keep, time_limit)

    def run_plain(
        self, params: bytes, memory: Sequence[Allocation], keep: object, time_limit: float | None
    ) -> None:
        """The same, whatever the switch says."""
        quick = self._small and time_limit is None
        idle = self._idle_one if quick else self._idle(min(thread_count(), self.total))
        sim = self.sim
        served = self.compiled.facts.calls_host or sim.root.allocates
        rows = [number for a in memory for number in (a.address, a.nbytes, a.writable, 0)]
        rows += sim.image.rows
        arena = self._take(idle, len(rows) // 4 + 1, quick)
        rows += arena.workspace
        arena.begin(
            self.config.grid,
            self.config.shared_bytes,
            params,
            rows,
            self._symbols,
            sim.image.const,
            sim.services.address if served else 0,
            self.cooperative,
        )
        if served:
            sim.services.begin(arena, self.config.block, len(rows) // 4)
        seen = self._observe(arena, memory) if self.observer is not None else None
        try:
            if quick:
                results = [self.compiled.code.run(arena.address, arena.workers[0].address)]
            else:
                results = self._run_threads(arena, keep, time_limit)
            if results.count(Run.FINISHED) < len(results) or (
                served and sim.services.failed is not None
            ):
                from weft.device.sim.run import faults

                error = faults.explain(
                    sim, self.entry, self.config, arena, results, memory, time_limit
                )
                if seen is not None:
                    seen.error = error
                raise error
        finally:
            if seen is not None and self.observer is not None:
                self.observer.end(seen)
            if served:
                sim.services.end()
        idle.append(arena)  # after a failure it is left alone: its slots hold unfinished blocks

    def _observe(self, arena: Arena, memory: Sequence[Allocation]) -> Observation:
        from weft.device.sim.run.observation import Observation

        assert self.observer is not None
        every = [*memory, *self.sim.owned()]
        seen = Observation(self.compiled.facts, self.config, every, arena)
        if self.sim.root.allocates:
            seen.heap = self.sim.services.heap
        with memory_for(f"what is observed of {self.entry}"):
            self.observer.begin(seen)
        return seen

    def _idle(self, workers: int) -> list[Arena]:
        block, shared = self.config.block, self.config.shared_bytes
        key = "" if self.observer is None else self.observer.key
        return self.sim.idle(self.entry, block, shared, workers, self._slots, key)

    def _take(self, idle: list[Arena], rows: int, quick: bool) -> Arena:
        sim, facts = self.sim, self.compiled.facts
        need = rows + (sim.services.heap.most if sim.root.allocates else 0)
        with contextlib.suppress(IndexError):
            arena = idle.pop()
            if need <= len(arena.table):
                return arena
        with memory_for(f"the blocks of {self.entry}"):
            return Arena(
                facts,
                workers=1 if quick else min(thread_count(), self.total),
                slots=self._slots,
                shared_bytes=facts.shared_bytes + self.config.shared_bytes,
                param_bytes=sim.entry(self.entry).param_bytes,
                rows=need + SPARE_ROWS,
            )

    def _run_threads(self, arena: Arena, keep: object, time_limit: float | None) -> list[int]:
        workers = range(len(arena.workers))
        limit = limited(time_limit)
        deadline = math.inf if limit is None else limit.end
        with Watch(arena) as watch:
            crew = Crew([functools.partial(_work, self.compiled, arena, i, keep) for i in workers])
            try:
                while not crew.wait(max(0.0, min(PAUSE, deadline - time.monotonic()))):
                    watch.expired = time.monotonic() >= deadline
                    if watch.expired or watch.stuck():
                        arena.context[Context.STOP // 8] = 1
                        crew.wait()
            except BaseException:
                arena.context[Context.STOP // 8] = 1  # Ctrl-C: stop the workers, let it through
                crew.wait()
                raise
        arena.verdict = watch.verdict
        return crew.results()


def _work(compiled: Compiled, arena: Arena, worker: int, keep: object) -> int:
    """One thread's part; it holds all that the code touches, should its caller not wait for it."""
    return compiled.code.run(arena.address, arena.workers[worker].address)
