"""Serves requests of the runtime library with the simulated GPU.

The public methods here and in `code.py` are listed in `interface.Ops` by name. They are called
from the program's threads. Exceptions cannot cross C++, so each method returns a number.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.device.base import Allocation, LaunchConfig
from weft.device.clusters import check_cluster
from weft.device.sim.run import settings
from weft.device.sim.run.launch import LaunchPlan
from weft.errors import DeviceError, Error, IllegalAddress, LaunchError, SanitizerError
from weft.frontends.program import libraries
from weft.frontends.program.answers import (
    INVALID_CLUSTER,
    INVALID_VALUE,
    NOT_SUPPORTED,
    OUT_OF_RESOURCES,
    TOO_LARGE,
    UNKNOWN,
    UNSIMULATED,
    answers,
    died,
)
from weft.frontends.program.code import ProgramCode
from weft.frontends.program.interface import READ_ONLY, Ops
from weft.frontends.program.sanitizer.written import note_fresh
from weft.frontends.program.unit import TranslationUnit

if TYPE_CHECKING:
    from weft.frontends.program.sanitizer.watcher import ProgramSanitizer
    from weft.frontends.program.timeline.recorder import ProgramTimeline
    from weft.frontends.race_hint import RaceHint
    from weft.measure.profile.session import Recording
    from weft.values.findings import Finding

REMEMBERED = 4096
"""The most launch plans that are kept."""
_LEAST_ADDRESS, _MOST_ADDRESS = 1 << 16, 1 << 48
"""Between these a parameter may be an address of this process."""
_HAS_FINDINGS = b"the sanitizer has findings"
_KINDS = ("memory of cudaMalloc", "memory of the host", "managed memory", "a tensor")


class Runtime:
    """Launches and memory of one program."""

    def __init__(
        self, library: ctypes.CDLL, make_unit: Callable[[str], TranslationUnit], source: str
    ) -> None:
        self.library, self._source = library, source
        self.code = ProgramCode(library, make_unit, self.say)
        library.weft_generation.restype = library.weft_freed.restype = ctypes.c_uint64
        library.weft_allocations.restype = ctypes.c_size_t
        library.weft_explain.restype = ctypes.c_char_p
        library.weft_say.argtypes = (ctypes.c_char_p,)
        library.weft_prepared.argtypes = (ctypes.c_int64,)
        self._plans: dict[tuple[int, LaunchConfig, int], LaunchPlan] = {}
        self._memory: tuple[int, list[Allocation]] = (0, [])
        self._sanitizer: ProgramSanitizer | None = None
        self._timeline: ProgramTimeline | None = None
        self.find_unknown: Callable[[int], bool] | None = None
        self.race_hint: RaceHint | None = None
        self._not_addresses: set[int] = set()
        self.ops = Ops(*(kind(self._method(name)) for name, kind in Ops._fields_))

    def _method(self, name: str) -> Any:
        """The method that serves a request: of the code, or of the runtime itself."""
        return getattr(self.code, name, None) or getattr(self, name)

    def say(self, text: str) -> None:
        self.library.weft_say(text.encode())

    # ---- launches ---------------------------------------------------------------------------
    @answers(UNKNOWN)
    def prepare(self, host: int, dims: Any, shared: int, cooperative: int) -> int:
        """Check a launch and compile its kernel, before the launch call returns."""
        unit, name = self.code.kernels[host]
        grid = _configuration(dims, shared)
        if (host, grid, cooperative) in self._plans:
            return 0
        if refused := self._refused(unit, name, grid, cooperative):
            return refused
        return self._outcome(lambda: self._plan(host, grid, cooperative))

    @answers(UNKNOWN)
    def launch(
        self, host: int, dims: Any, params: int, size: int, shared: int, cooperative: int
    ) -> int:
        """Run a grid to completion; called by a stream's thread."""
        grid = _configuration(dims, shared)

        def run() -> None:
            plan = self._plan(host, grid, cooperative)
            data = ctypes.string_at(params, size)
            if self.find_unknown is not None:
                self._find_unknown(data)
            memory = self._reachable(plan)
            if self.race_hint is not None and not self.library.weft_shares():
                unit, name = self.code.kernels[host]
                self.race_hint.look(unit.text, name, plan, data, memory)
            with self._watched(plan, memory):
                plan.run((), (data, memory, None, None), None)

        return self._outcome(run)

    def _find_unknown(self, params: bytes) -> None:
        """Find the memory of parameters that look like addresses and are in no allocation."""
        assert self.find_unknown is not None
        words = struct.unpack_from(f"<{len(params) // 8}Q", params)
        holds = self.library.weft_holds
        for word in words:
            plausible = _LEAST_ADDRESS <= word < _MOST_ADDRESS and word not in self._not_addresses
            if plausible and not holds(ctypes.c_uint64(word)) and not self.find_unknown(word):
                self._not_addresses.add(word)

    def _outcome(self, act: Callable[[], object]) -> int:
        """0, or the error that a GPU would report; prints what went wrong."""
        try:
            act()
        except SanitizerError as error:
            self.say(str(error))
            self.library.weft_condemn(_HAS_FINDINGS)
            self._used_after_free(error.__cause__)
            return died(error.__cause__)
        except DeviceError as error:
            self.say(str(error))
            self._used_after_free(error)
            return died(error)
        except LaunchError as error:
            self.say(str(error))
            return INVALID_VALUE
        except Error as error:
            self.say(f"this kernel cannot be simulated\n{error}")
            self.library.weft_condemn(UNSIMULATED)
            return NOT_SUPPORTED
        return 0

    def _plan(self, host: int, grid: LaunchConfig, cooperative: int) -> LaunchPlan:
        """The launch plan; compile time is excluded from event times."""
        key = host, grid, cooperative
        if key not in self._plans:
            begin = time.perf_counter_ns()
            if len(self._plans) >= REMEMBERED:
                self._plans.clear()
            unit, name = self.code.kernels[host]
            plan = LaunchPlan(unit.sim, name, grid, cooperative=bool(cooperative))
            self.library.weft_prepared(time.perf_counter_ns() - begin)
            return self._plans.setdefault(key, plan)
        return self._plans[key]

    def _refused(
        self, unit: TranslationUnit, name: str, grid: LaunchConfig, cooperative: int
    ) -> int:
        """The error code of an invalid launch, or 0."""
        entry, model = unit.entry(name), unit.model
        assert entry is not None
        threads = grid.block[0] * grid.block[1] * grid.block[2]
        most = entry.directives.get("maxntid")
        if most is not None and threads > math.prod(most):
            self.say(
                f"{unit.spelled(name)}: {threads} threads a block, compiled for {math.prod(most)}"
            )
            return OUT_OF_RESOURCES
        # Missing dimensions of .reqntid are 1.
        exact = entry.directives.get("reqntid")
        if exact is not None and (*exact, 1, 1)[:3] != grid.block:
            return INVALID_VALUE
        if entry.static_shared + grid.shared_bytes > model.shared_per_block:
            return INVALID_VALUE
        try:
            check_cluster(unit.spelled(name), entry.directives, grid, model.name, model.max_cluster)
        except LaunchError as error:
            self.say(str(error))
            return INVALID_CLUSTER
        if cooperative:
            room = self.code.blocks(unit, name, threads, grid.shared_bytes) * model.sms
            if math.prod(grid.grid) > room:
                blocks = math.prod(grid.grid)
                self.say(f"{unit.spelled(name)}: {blocks} blocks, room for {room} at once")
                return TOO_LARGE
        return 0

    def _reachable(self, plan: LaunchPlan) -> list[Allocation]:
        """Memory that a kernel may access: all allocations, and variables of other units."""
        known, memory = self._memory
        # The list is rebuilt only after an allocation or a free. Another stream's thread may
        # replace it by an older one meanwhile, so that this launch keeps its own.
        if (generation := self.library.weft_generation()) != known:
            memory = self._allocations()
            self._memory = generation, memory
        others = [
            unit for unit in self.code.all_units() if unit.loaded and unit.sim is not plan.sim
        ]
        if not others:
            return memory
        return memory + [v for unit in others for v in unit.variables()]

    def _allocations(self) -> list[Allocation]:
        room, count = 0, int(self.library.weft_allocations(None, 0))
        rows = (ctypes.c_uint64 * 0)()
        while count > room:  # the host may allocate between two calls
            room = count
            rows = (ctypes.c_uint64 * (3 * room))()
            count = int(self.library.weft_allocations(rows, room))
        return [
            Allocation(address, size, not kind & READ_ONLY, _KINDS[kind & ~READ_ONLY])
            for address, size, kind in zip(*[iter(rows[: 3 * count])] * 3, strict=True)
        ]

    # ---- libraries and limits ---------------------------------------------------------------
    @answers(libraries.INTERNAL_ERROR)
    def compute(self, name: bytes, numbers: Any, count: int) -> int:
        if self._timeline is not None:
            self._timeline.computed(name.decode())
        return libraries.compute(name.decode(), numbers[:count])

    def follow(self, recording: Recording) -> None:
        """Record the calls and the work of the program for a timeline."""
        from weft.frontends import recorded
        from weft.frontends.program.timeline.recorder import ProgramTimeline

        recorded.follow(recording, call="")
        self._timeline = ProgramTimeline(self.library, self.say)

    # ---- what the sanitizer says of the host --------------------------------------------------
    def watch(self, program: str, files: Mapping[str, str]) -> None:
        """Let the sanitizer see the order of the program's calls and its memory from now on."""
        # Plain runs do without the sanitizer's code.
        from weft.frontends.program.sanitizer.places import HostLines
        from weft.frontends.program.sanitizer.watcher import ProgramSanitizer

        places = HostLines(self.library, program, files)
        self._sanitizer = ProgramSanitizer(self.library, self._source, places, self.say, self._note)

    @contextlib.contextmanager
    def _watched(self, plan: LaunchPlan, memory: Sequence[Allocation]) -> Iterator[None]:
        """A context for a launch whose accesses the sanitizer records, or that a timeline shows."""
        if self._timeline is not None:
            with self._timeline.launching():
                yield
            return
        if self._sanitizer is None:
            yield
            return
        note_fresh([a for a in memory if a.name == _KINDS[0]])
        names = {entry: name for name, entry in plan.sim.ptx.entries.items()}
        with self._sanitizer.launching(plan, names.get(plan.entry, plan.entry)):
            yield

    @answers(0)
    def misused(self, kind: bytes, call: bytes, address: int, why: bytes) -> None:
        if self._sanitizer is not None:
            self._sanitizer.misused(kind.decode(), call.decode(), address, why.decode())

    def _used_after_free(self, error: BaseException | None) -> None:
        """Report a kernel that has accessed memory after the program freed or unmapped it."""
        address = error.address if isinstance(error, IllegalAddress) else 0
        if address and (why := self.library.weft_explain(ctypes.c_uint64(address))):
            self.say(f"0x{address:x} {why.decode()}")
        elif address and self.library.weft_freed(ctypes.c_uint64(address)):
            name = error.kernel if isinstance(error, DeviceError) else ""
            self.say(f"{name}: this memory was freed before: use after free")
            self.misused(b"use after free", name.encode(), address, b"was freed before")

    @answers(0)
    def ended(self) -> None:
        """Report the memory that the program did not free, and the work of its GPUs."""
        from weft.device.sim.tools.sanitizer.session import Report
        from weft.frontends.program.sanitizer import frees

        self._note(frees.leaks(self._source, self.library))
        session = settings.active()
        if self._sanitizer is not None and isinstance(session, Report):
            session.count_devices(self._sanitizer.traffic.devices())

    def _note(self, findings: Sequence[Finding]) -> None:
        """Add findings to the report; with `raises`, print them and fail the program."""
        from weft.device.sim.tools.sanitizer.session import Report

        session = settings.active()
        try:
            if findings and isinstance(session, Report):
                session.note(findings)
        except SanitizerError as error:
            self.say(str(error))
            self.library.weft_condemn(_HAS_FINDINGS)


def _configuration(dims: Any, shared: int) -> LaunchConfig:
    """The configuration of a launch; a cluster of no blocks is none."""
    grid, block, cluster = (tuple(dims[i : i + 3]) for i in (0, 3, 6))
    return LaunchConfig(grid, block, shared, cluster if any(cluster) else None)
