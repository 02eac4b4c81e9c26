"""Launches: a kernel and a grid, run to the end by threads of the host."""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.device.base import Allocation, Dim3, LaunchConfig, Packed
from weft.device.sim import schedules
from weft.device.sim.layout import ContextFields, Run
from weft.device.sim.run import settings
from weft.device.sim.run.arena import Arena
from weft.device.sim.run.device_runtime import ChildGrid
from weft.device.sim.run.failures.deadlock_detection import PAUSE, Watch
from weft.device.sim.run.host_threads import ThreadTasks, thread_count
from weft.device.sim.run.module import SimModule
from weft.device.sim.run.tiers.kernel_code import TieredCode
from weft.device.time_limit import limited, within
from weft.memory_errors import memory_for

if TYPE_CHECKING:  # a launch from the cache needs none of these, and they take long to import
    from weft.device.sim.run.observation import Observation, Observer
    from weft.device.sim.schedules import Schedule

QUICK_WARPS = 64
"""The largest number of warps without a loop that the calling thread runs itself."""

MANY_CLUSTERED = 256
"""Slots of a worker for blocks of clusters; each has addresses for 16 MiB of shared memory. In a
grid that waits as a whole, as many as it has blocks."""
FEW_CLUSTERED = 64
"""The same under an observer, which keeps records of that memory."""

SCHEDULED = "scheduled"
"""The key of a plan for launches under schedules; observers have other keys."""

SPARE_ROWS = 32
"""Room in the table of allocations for variables of template instances that come later."""


class LaunchPlan:
    """A kernel and a grid with all that its launches have in common."""

    def __init__(
        self,
        sim: SimModule,
        entry: str,
        config: LaunchConfig,
        observer: Observer | None = None,
        *,
        cooperative: bool = True,
        lazy: bool = False,
        scheduled: bool = False,
    ) -> None:
        """In a launch that is not `cooperative`, a barrier of the grid traps, as on a GPU.

        A `scheduled` plan runs under the schedule that is active at each launch.

        A `lazy` plan is compiled when it first runs, and not at all where all its launches run
        under an observer.
        """
        self.sim, self.entry, self.config, self.observer = sim, entry, config, observer
        self.cooperative, self.scheduled = cooperative, scheduled
        self.total = config.grid[0] * config.grid[1] * config.grid[2]
        self.cluster = self._cluster()
        self._symbols = int(sim.place().ctypes.data)
        self._under: dict[str, LaunchPlan] = {}
        self._prepared = False
        if not lazy:
            self.prepare()

    def prepare(self) -> None:
        """Compile the kernel, and allocate what depends on its code."""
        sim, config = self.sim, self.config
        self.code = sim.code(self.entry, config.block, self.observer, scheduled=self.scheduled)
        info = self.code.info
        if info.grid_barrier and self.cooperative:
            sim.check_cooperative(self.entry, config)
        self._small = not info.loops and self.total * info.warps <= QUICK_WARPS
        # A block that never waits runs to its end before the next one starts.
        self._slots = 1
        if info.waits:  # in steps, so that grids of about a size share their memory
            resident = sim.resident_blocks(info, config)
            self._slots = min(1 << (self.total - 1).bit_length(), resident)
        elif self.scheduled:
            self._slots = min(self.total, schedules.RESIDENT)
        if info.clusters:
            self._slots = self._whole_clusters(self._slots)
        self._idle_one = self._idle(1)
        self._prepared = True

    def _cluster(self) -> Dim3 | None:
        """The cluster that the launch or its kernel asks for."""
        directives = self.sim.entry(self.entry).directives
        if self.config.cluster is None and "reqnctapercluster" not in directives:
            return None
        from weft.device.clusters import cluster_of

        return cluster_of(self.config, directives)

    def _whole_clusters(self, slots: int) -> int:
        """Slots for whole clusters, whose blocks run together."""
        size = math.prod(self.cluster or (1,))
        most = MANY_CLUSTERED if self.observer is None else FEW_CLUSTERED
        if self.code.info.grid_barrier:
            most = self.total
        return size * max(1, min(slots, most) // size)

    def under(self, observer: Observer) -> LaunchPlan:
        """The same launches under an observer."""
        with self.sim._lock:
            if observer.key not in self._under:
                self._under[observer.key] = LaunchPlan(
                    self.sim, self.entry, self.config, observer, cooperative=self.cooperative
                )
        plan = self._under[observer.key]
        plan.observer = observer
        return plan

    def under_schedules(self) -> LaunchPlan:
        """The same launches in code for schedules, under the same observer."""
        with self.sim._lock:
            plan = self._under.get(SCHEDULED)
            if plan is None:
                plan = self._under[SCHEDULED] = LaunchPlan(
                    self.sim,
                    self.entry,
                    self.config,
                    self.observer,
                    cooperative=self.cooperative,
                    lazy=True,
                    scheduled=True,
                )
        plan.observer = self.observer
        return plan

    def run(self, args: Sequence[Any], packed: Packed, time_limit: float | None) -> None:
        """Run the grid and those that it launches to their end; raise their errors."""
        params, memory, keep, _ = packed
        self._run_one(params, memory, keep, time_limit)
        if self.sim.root.allocates:  # or launches: such a module has a heap
            self._run_descendants(memory, keep, time_limit)

    def _run_descendants(
        self, memory: Sequence[Allocation], keep: object, time_limit: float | None
    ) -> None:
        """Run the grids that kernels have launched: depth first, so that tail launches come
        last.
        """
        sim, services = self.sim, self.sim.services
        plans: dict[tuple[str, LaunchConfig], LaunchPlan] = {}
        waiting = services.take_descendants()
        while waiting:
            item = waiting.pop(0)
            if not isinstance(item, ChildGrid):
                item()
                continue
            key = item.entry, item.config
            if key not in plans:
                plans[key] = LaunchPlan(sim, item.entry, item.config, cooperative=False)
            with services.deeper(item.depth):
                plans[key]._run_one(item.params, memory, keep, time_limit)
            waiting[:0] = services.take_descendants()

    def _run_one(
        self, params: bytes, memory: Sequence[Allocation], keep: object, time_limit: float | None
    ) -> None:
        report = settings.active() if self.observer is None else None
        if report is not None:
            report.run(settings.LaunchRequest(self, params, memory, keep, time_limit))
            return
        if settings.before_launch is not None and self.observer is None:
            settings.before_launch(self, params, memory)
        self.run_plain(params, memory, keep, time_limit)

    def _texture_unit(self) -> int:
        """The address of the function for textures; 0 where there are none."""
        unit = self.sim.root.textures
        if unit is None:
            return 0
        return unit.strict if getattr(self.observer, "strict_textures", False) else unit.address

    def bind(self, args: Sequence[Any], packed: Packed) -> Callable[[], None]:
        """A function that launches with these arguments."""
        return functools.partial(self.run, args, packed, None)

    def run_plain(
        self, params: bytes, memory: Sequence[Allocation], keep: object, time_limit: float | None
    ) -> None:
        """Run the grid in any session; `keep` owns the memory."""
        schedule = schedules.active()
        if schedule is None:
            self.run_blocks(params, memory, keep, time_limit)
            return
        from weft.device.sim.run import scheduled_launch

        scheduled_launch.run(self, schedule, (params, memory, keep), time_limit)

    def ready(self, time_limit: float | None) -> float | None:
        """Compile the kernel if it is not yet; the time limit of what follows."""
        if not self._prepared:
            time_limit = limited(time_limit)  # compiling is part of it
            within(time_limit, self.sim.name(self.entry), self.prepare)
        return time_limit

    @property
    def is_served(self) -> bool:
        """Return whether the kernel calls functions of the host, or memory is allocated for it."""
        return self.code.info.calls_host or self.sim.root.allocates

    def run_blocks(
        self,
        params: bytes,
        memory: Sequence[Allocation],
        keep: object,
        time_limit: float | None,
        schedule: Schedule | None = None,
        blocks: range | None = None,
    ) -> None:
        """Run the grid, or some of its blocks; a scheduled plan under a schedule."""
        time_limit = self.ready(time_limit)
        # A limit needs this thread to look at the clock.
        quick = self._small and time_limit is None
        # An observer may watch some blocks of a grid that is too large to run.
        watched: Sequence[range] = getattr(self.observer, "blocks", ())
        ranges = (blocks,) if blocks is not None else watched
        workers = 1 if ranges else self._workers
        idle = self._idle_one if quick else self._idle(workers)
        sim = self.sim
        served = self.is_served
        rows = [number for a in memory for number in (a.address, a.nbytes, a.writable, 0)]
        rows += sim.image.rows
        arena = self._take(idle, len(rows) // 4 + 1, 1 if quick else workers)
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
            self._texture_unit(),
            self.cluster,
        )
        if schedule is not None:
            arena.follow(schedule.fields(blocks or range(self.total)), self._resident(schedule))
        if served:
            sim.services.begin(arena, self.config.block, len(rows) // 4)
        seen = self._observe(arena, memory) if self.observer is not None else None
        try:
            if ranges:
                results = self._run_ranges(arena, ranges, keep, time_limit)
            elif quick:
                results = [self._run_here(arena)]
            else:
                results = self._run_threads(arena, keep, time_limit)
            if results.count(Run.FINISHED) < len(results) or (
                served and sim.services.failed is not None
            ):
                from weft.device.sim.run.failures import faults

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

    @property
    def _workers(self) -> int:
        """Threads of a launch; one where it must do the same every time."""
        alone = self.scheduled or getattr(self.observer, "alone", False)
        return 1 if alone else min(thread_count(), self.total)

    def _resident(self, schedule: Schedule) -> int:
        """Blocks that run at the same time. Those that wait for each other must."""
        info = self.code.info
        count = self._slots if info.waits else schedule.resident(self.total)
        return self._whole_clusters(count) if info.clusters else count

    def _observe(self, arena: Arena, memory: Sequence[Allocation]) -> Observation:
        from weft.device.sim.run.observation import Observation

        assert self.observer is not None
        every = [*memory, *self.sim.owned()]
        seen = Observation(self.code.info, self.config, every, arena)
        if self.sim.root.allocates:
            seen.heap = self.sim.services.heap
        with memory_for(f"what is observed of {self.entry}"):
            self.observer.begin(seen)
        return seen

    def _idle(self, workers: int) -> list[Arena]:
        block, shared = self.config.block, self.config.shared_bytes
        key = "" if self.observer is None else self.observer.key
        more = (SCHEDULED,) * self.scheduled
        return self.sim.idle(self.entry, block, shared, workers, self._slots, key, *more)

    def _take(self, idle: list[Arena], rows: int, workers: int) -> Arena:
        sim, info = self.sim, self.code.info
        # Kernels may allocate while they run, and the table cannot move then.
        need = rows + (sim.services.heap.most if sim.root.allocates else 0)
        with contextlib.suppress(IndexError):
            arena = idle.pop()
            if need <= len(arena.table):
                return arena
        with memory_for(f"the blocks of {self.entry}"):
            return Arena(
                info,
                workers=workers,
                slots=self._slots,
                shared_bytes=info.shared_bytes + self.config.shared_bytes,
                param_bytes=sim.entry(self.entry).param_bytes,
                rows=need + SPARE_ROWS,
            )

    def _run_here(self, arena: Arena) -> int:
        code = self.code
        if code.settled:
            return code.run(arena, 0)
        begin = time.perf_counter()
        result = code.run(arena, 0)
        code.spend(time.perf_counter() - begin)
        return result

    def _run_ranges(
        self, arena: Arena, ranges: Sequence[range], keep: object, time_limit: float | None
    ) -> list[int]:
        """Run some blocks of the grid, until a range fails."""
        results: list[int] = []
        for blocks in ranges:
            arena.limit(blocks)
            results += self._run_threads(arena, keep, time_limit)
            if results.count(Run.FINISHED) < len(results):
                break
        return results

    def _run_threads(self, arena: Arena, keep: object, time_limit: float | None) -> list[int]:
        workers = range(len(arena.workers))
        limit = limited(time_limit)
        deadline = math.inf if limit is None else limit.end
        code, clock = self.code, _Stopwatch(len(workers))
        with Watch(arena) as watch, code.serving(arena):
            tasks = ThreadTasks([functools.partial(_work, code, arena, i, keep) for i in workers])
            try:
                while not tasks.wait(max(0.0, min(PAUSE, deadline - time.monotonic()))):
                    if not code.settled:
                        code.spend(clock.lap(), arena, self.total)
                    watch.expired = time.monotonic() >= deadline
                    if watch.expired or watch.stuck():
                        arena.context[ContextFields.STOP // 8] = 1
                        tasks.wait()
            except BaseException:
                # Ctrl-C: stop the workers, then propagate it.
                arena.context[ContextFields.STOP // 8] = 1
                tasks.wait()
                raise
        if not code.settled:
            code.spend(clock.lap())
        arena.verdict = watch.verdict
        return tasks.results()


class _Stopwatch:
    """Running time of a launch, of all its threads, since the previous query."""

    def __init__(self, threads: int) -> None:
        self._threads, self._last = threads, time.perf_counter()

    def lap(self) -> float:
        now = time.perf_counter()
        seconds, self._last = (now - self._last) * self._threads, now
        return seconds


def _work(code: TieredCode, arena: Arena, worker: int, keep: object) -> int:
    """Run one thread's part; it owns all that the code accesses: its caller may not wait."""
    return code.run(arena, worker)
