"""Launches: the module on the simulated device, its compiled kernels, and running a grid."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from weft.device.models import GpuModel
from weft.device.sim import faults
from weft.device.sim.arena import Arena
from weft.device.sim.compile import Compiled, compile_kernel
from weft.device.sim.image import Image
from weft.device.sim.layout import Context, Run
from weft.device.sim.services import Services
from weft.device.sim.special import Shape
from weft.device.sim.watch import Watch
from weft.errors import LaunchError
from weft.ptx.link import function_ids
from weft.ptx.model import Function, Module
from weft.ptx.parse import parse
from weft.values import Ptx

QUICK_WARPS = 64
"""Up to so many warps without a loop are run by the calling thread itself."""

_pool: ThreadPoolExecutor | None = None
_pool_lock = threading.Lock()


def thread_count() -> int:
    """Host threads a launch may use: WEFT_THREADS, or the cores this process may run on."""
    given = os.environ.get("WEFT_THREADS")
    if given and given.isdigit() and int(given) > 0:
        return int(given)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _executor() -> ThreadPoolExecutor:
    global _pool
    with _pool_lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(64, thread_name_prefix="weft")
        return _pool


@dataclass(frozen=True, slots=True)
class Allocation:
    """Memory a launch may touch."""

    address: int
    nbytes: int
    writable: bool
    name: str


@dataclass(frozen=True, slots=True)
class Grid:
    """A launch's shape."""

    grid: Shape
    block: Shape
    shared_bytes: int = 0


class SimModule:
    """PTX loaded on a simulated GPU."""

    def __init__(
        self, ptx: Ptx, model: GpuModel, *, fast: bool = False, within: SimModule | None = None
    ) -> None:
        """`within` another one it shares that one's variables and heap."""
        self.ptx, self.model, self.fast = ptx, model, fast
        self._module: Module | None = None
        self._symbols: NDArray[np.int64] | None = None
        self._compiled: dict[tuple[str, Shape], Compiled] = {}
        self._idle: dict[tuple[str, Shape, int, int, int], list[Arena]] = {}
        self._lock = threading.Lock()
        self.image = within.image if within else Image()
        self.services = within.services if within else Services()

    @property
    def module(self) -> Module:
        """The parsed PTX."""
        if self._module is None:
            self._module = parse(self.ptx.text, self.ptx.sources, name=self.ptx.origin)
        return self._module

    def place(self) -> NDArray[np.int64]:
        """Where the module's variables are, in its order."""
        if self._symbols is None:
            with self.image.lock:
                self._symbols = self.image.place(self.module, function_ids(self.module))
        return self._symbols

    def find(self, name: str) -> list[str]:
        """The variables that a C++ name may mean."""
        self.place()
        return self.image.find(name)

    def variable(self, name: str, dtype: DTypeLike) -> NDArray[Any]:
        """A variable as an array that shares its memory."""
        found = self.find(name)
        if len(found) == 1:
            return self.image.view(found[0], np.dtype(dtype))
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

    def function(self, entry: str) -> Function:
        return self.module.functions[entry]

    def static_shared(self, entry: str) -> int:
        """Bytes of shared memory a kernel declares."""
        end = 0
        function = self.function(entry)
        for v in [*self.module.variables.values(), *function.variables.values()]:
            if v.space == "shared" and not v.unsized:
                end = -(-end // v.align) * v.align + v.size
        return end

    def compiled(self, entry: str, shape: Shape) -> Compiled:
        """Machine code of a kernel for a block shape."""
        found = self._compiled.get((entry, shape))
        if found is None:
            with self._lock:
                found = compile_kernel(self.module, self.ptx.text, entry, shape, fast=self.fast)
                self._compiled[entry, shape] = found
        return found

    # ---- running ----------------------------------------------------------------------------
    def launch(
        self,
        entry: str,
        shape: Grid,
        params: bytes,
        memory: Sequence[Allocation],
        *,
        time_limit: float | None = None,
    ) -> None:
        """Runs a grid to its end; raises what went wrong."""
        total = shape.grid[0] * shape.grid[1] * shape.grid[2]
        if total == 0:
            return
        compiled = self.compiled(entry, shape.block)
        facts = compiled.facts
        quick = not facts.loops and total * facts.warps <= QUICK_WARPS and time_limit is None
        workers = 1 if quick else min(thread_count(), total)
        slots = 1 if not facts.waits else min(total, self.resident_blocks(compiled, shape))
        shared = facts.shared_bytes + shape.shared_bytes
        place = (entry, shape.block, shared, workers, slots)
        arena = self._take(place, compiled)
        try:
            keep = self._fill(arena, shape, total, params, memory)
            self.services.begin(arena, compiled, shape.block, keep[1])
            if quick:
                results = [compiled.code.run(arena.context.ctypes.data, _fields(arena, 0))]
            else:
                results = self._run_threads(compiled, arena, time_limit)
            if any(r != Run.FINISHED for r in results) or self.services.failed is not None:
                raise faults.explain(self, entry, shape, arena, results, memory, time_limit)
            self.services.end()
        finally:
            with self._lock:
                self._idle.setdefault(place, []).append(arena)

    def resident_blocks(self, compiled: Compiled, shape: Grid) -> int:
        """Blocks the simulated GPU holds at once."""
        m = self.model
        threads = compiled.facts.warps * 32
        shared = compiled.facts.shared_bytes + shape.shared_bytes
        per_sm = min(m.max_blocks_per_sm, m.max_warps_per_sm * 32 // threads)
        if shared:
            per_sm = min(per_sm, m.shared_per_sm // (shared + m.reserved_shared))
        return max(1, per_sm) * m.sms

    def _take(self, place: tuple[str, Shape, int, int, int], compiled: Compiled) -> Arena:
        with self._lock:
            idle = self._idle.get(place)
            if idle:
                arena = idle.pop()
                arena.reset()
                return arena
        _, _, shared, workers, slots = place
        return Arena(compiled.facts, workers, slots, shared)

    def _fill(
        self, arena: Arena, shape: Grid, total: int, params: bytes, memory: Sequence[Allocation]
    ) -> tuple[object, ...]:
        """Writes the context; returns what must stay alive during the launch."""
        symbols, (consts, const_bytes) = self.place(), self.image.const
        rows = [(a.address, a.nbytes, int(a.writable), 0) for a in memory]
        rows += self.image.rows
        workspace = np.zeros(16, np.uint64)  # cooperative groups keep the grid's barrier there
        rows += [(workspace.ctypes.data, workspace.nbytes, 1, 0)]
        table = self.services.table(rows)
        block = np.frombuffer(params.ljust(8, b"\0"), np.uint8)
        values = {
            Context.TOTAL: total,
            Context.GRID_X: shape.grid[0],
            Context.GRID_Y: shape.grid[1],
            Context.GRID_Z: shape.grid[2],
            Context.TABLE: table.ctypes.data,
            Context.TABLE_COUNT: len(rows),
            Context.PARAMS: block.ctypes.data,
            Context.PARAM_BYTES: max(1, len(params)),
            Context.SYMBOLS: symbols.ctypes.data,
            Context.CONSTS: consts,
            Context.CONST_BYTES: const_bytes,
            Context.DYNAMIC_SHARED: shape.shared_bytes,
            Context.GRID_WORKSPACE: workspace.ctypes.data,
            Context.HOST: self.services.address,
        }
        for at, value in values.items():
            arena.context[at // 8] = value
        return (workspace, table, block)

    def _run_threads(self, compiled: Compiled, arena: Arena, time_limit: float | None) -> list[int]:
        context = arena.context.ctypes.data
        run = compiled.code.run
        jobs: list[Future[int]] = [
            _executor().submit(run, context, _fields(arena, i)) for i in range(len(arena.workers))
        ]
        deadline = None if time_limit is None else time.monotonic() + time_limit
        watch = Watch(arena)
        try:
            left = set(jobs)
            while left:
                pause = watch.pause if deadline is None else min(
                    watch.pause, max(0.0, deadline - time.monotonic())
                )  # fmt: skip
                _, left = wait(left, timeout=pause)
                if left and deadline is not None and time.monotonic() >= deadline:
                    arena.context[Context.STOP // 8] = 1
                    watch.expired = True
                    wait(left)
                    break
                if left and watch.stuck():
                    arena.context[Context.STOP // 8] = 1
                    wait(left)
                    break
        except BaseException:
            arena.context[Context.STOP // 8] = 1  # Ctrl-C: stop the workers, then let it through
            wait(jobs)
            raise
        arena.verdict = watch.verdict
        return [job.result() for job in jobs]


def _fields(arena: Arena, worker: int) -> int:
    return int(arena.workers[worker].fields.ctypes.data)
