"""Serves requests of the runtime library with the simulated GPU.

Each public method is listed in `interface.Ops` by name. They are called from the program's
threads. Exceptions cannot cross C++, so each method returns a number.
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.device.base import Allocation, LaunchConfig
from weft.device.clusters import check_cluster
from weft.device.occupancy import active_clusters, occupancy
from weft.device.sim.run import settings
from weft.device.sim.run.launch import LaunchPlan
from weft.errors import (
    AssertFailed,
    Deadlock,
    DeviceError,
    Error,
    IllegalAddress,
    LaunchError,
    MisalignedAddress,
    SanitizerError,
    TimeLimit,
)
from weft.frontends.program import libraries
from weft.frontends.program.answers import UNSIMULATED, answers
from weft.frontends.program.images import device_code, fatbin, linked
from weft.frontends.program.interface import DIED, ERROR, INFO, READ_ONLY, RESULT, Ops
from weft.frontends.program.sanitizer.written import note_fresh
from weft.frontends.program.textures import with_textures
from weft.frontends.program.unit import TranslationUnit

if TYPE_CHECKING:
    from weft.frontends.program.sanitizer.watcher import ProgramSanitizer
    from weft.frontends.race_hint import RaceHint
    from weft.values.findings import Finding

INVALID_VALUE, INVALID_FUNCTION, TOO_LARGE, OUT_OF_RESOURCES = 1, 98, 720, 701
INVALID_CLUSTER = 912
NOT_SUPPORTED, UNKNOWN = 801, 999
_DEATHS: tuple[tuple[type[Error], int], ...] = (
    (MisalignedAddress, 716),
    (IllegalAddress, 700),
    (AssertFailed, 710),
    (Deadlock, 702),
    (TimeLimit, 702),
    (DeviceError, 719),
)
"""Exceptions of kernels, and the error code that a GPU reports."""

REMEMBERED = 4096
"""The most launch plans that are kept."""
_LEAST_ADDRESS, _MOST_ADDRESS = 1 << 16, 1 << 48
"""Between these a parameter may be an address of this process."""
_HAS_FINDINGS = b"the sanitizer has findings"
_KINDS = ("memory of cudaMalloc", "memory of the host", "managed memory", "a tensor")


class Runtime:
    """Kernels, variables and memory of one program."""

    def __init__(
        self, library: ctypes.CDLL, make_unit: Callable[[str], TranslationUnit], source: str
    ) -> None:
        self.library, self._source = library, source
        self._make_unit = with_textures(make_unit)
        library.weft_generation.restype = library.weft_freed.restype = ctypes.c_uint64
        library.weft_allocations.restype = ctypes.c_size_t
        library.weft_explain.restype = ctypes.c_char_p
        library.weft_say.argtypes = (ctypes.c_char_p,)
        library.weft_prepared.argtypes = (ctypes.c_int64,)
        self._units: dict[int, list[TranslationUnit]] = {}
        self._linked: dict[int, str] = {}
        self._functions: dict[int, tuple[int, str]] = {}
        self._variables: dict[int, tuple[int, str]] = {}
        self._kernels: dict[int, tuple[TranslationUnit, str]] = {}
        self._plans: dict[tuple[int, LaunchConfig, int], LaunchPlan] = {}
        self._memory: tuple[int, list[Allocation]] = (0, [])
        self._sanitizer: ProgramSanitizer | None = None
        self.find_unknown: Callable[[int], bool] | None = None
        self.race_hint: RaceHint | None = None
        self._not_addresses: set[int] = set()
        self.ops = Ops(*(kind(getattr(self, name)) for name, kind in Ops._fields_))

    def say(self, text: str) -> None:
        self.library.weft_say(text.encode())

    # ---- what the program is made of --------------------------------------------------------
    @answers(0)
    def fat_binary(self, handle: int, data: int, size: int, relocatable: int) -> None:
        texts = fatbin.texts(ctypes.string_at(data, size))
        if relocatable:
            self._linked[handle] = "".join(texts)
        else:
            self._units[handle] = [self._make_unit(text) for text in texts]

    @answers(UNKNOWN)
    def load(self, handle: int, data: int, size: int, to: int, receive: Any) -> int:
        """Load a module of the driver API; return the error of one that is faulty."""
        target = self._make_unit("")  # a unit knows the GPU and the compilers

        def act() -> None:
            image = device_code.DeviceImage(ctypes.string_at(data, size), "ptx")
            texts = device_code.chosen(image, target.model)
            for text in texts:
                device_code.check(text, image.name, target.model, target.toolkit)
            self._units[handle] = [self._make_unit(text) for text in texts]

        return _reported(act, to, receive)

    @answers(UNKNOWN)
    def link(self, images: Any, sizes: Any, names: Any, count: int, to: int, receive: Any) -> int:
        """Link device code; `receive` takes the PTX, or what is wrong."""
        target = self._make_unit("")  # a unit knows the GPU and the compilers

        def act() -> None:
            pieces = [
                device_code.DeviceImage(ctypes.string_at(images[i], sizes[i]), names[i].decode())
                for i in range(count)
            ]
            ptx = device_code.link(pieces, target.model, target.toolkit)
            _send(receive, to, RESULT, ptx)
            names_of = ", ".join(piece.name for piece in pieces)
            _send(receive, to, INFO, f"info: linked {names_of} for {target.model.machine}")

        return _reported(act, to, receive)

    @answers(0)
    def function(self, handle: int, host: int, name: bytes) -> None:
        self._functions[host] = (handle, name.decode())

    @answers(0)
    def variable(self, handle: int, host: int, name: bytes) -> None:
        self._variables[host] = (handle, name.decode())

    def _all_units(self) -> list[TranslationUnit]:
        return list(dict.fromkeys(unit for units in self._units.values() for unit in units))

    def _units_of(self, handle: int) -> list[TranslationUnit]:
        """The units of a file; relocatable units are linked at first use."""
        if handle in self._linked:
            whole = [self._make_unit(linked.link(list(self._linked.values())))]
            self._units |= dict.fromkeys(self._linked, whole)
            self._linked.clear()
        return self._units.get(handle, [])

    def _kernel(self, host: int) -> tuple[TranslationUnit, str] | None:
        if host not in self._kernels and host in self._functions:
            handle, name = self._functions[host]
            for unit in self._units_of(handle):
                if unit.entry(name) is not None:
                    self._kernels[host] = (unit, name)
        return self._kernels.get(host)

    # ---- launches ---------------------------------------------------------------------------
    @answers(-1)
    def parameters(self, host: int, pairs: Any, room: int) -> int:
        kernel = self._kernel(host)
        entry = kernel[0].entry(kernel[1]) if kernel else None
        if entry is None:
            return -1
        for i, p in enumerate(entry.params):
            pairs[2 * i], pairs[2 * i + 1] = p.offset, p.size
        return len(entry.params)

    @answers(UNKNOWN)
    def prepare(self, host: int, dims: Any, shared: int, cooperative: int) -> int:
        """Check a launch and compile its kernel, before the launch call returns."""
        unit, name = self._kernels[host]
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
                unit, name = self._kernels[host]
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
            return _died(error.__cause__)
        except DeviceError as error:
            self.say(str(error))
            self._used_after_free(error)
            return _died(error)
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
            unit, name = self._kernels[host]
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
        if most is not None and threads > _product(most):
            self.say(
                f"{unit.spelled(name)}: {threads} threads a block, compiled for {_product(most)}"
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
            room = self._blocks(unit, name, threads, grid.shared_bytes) * model.sms
            if _product(grid.grid) > room:
                blocks = _product(grid.grid)
                self.say(f"{unit.spelled(name)}: {blocks} blocks, room for {room} at once")
                return TOO_LARGE
        return 0

    def _reachable(self, plan: LaunchPlan) -> list[Allocation]:
        """Memory that a kernel may access: all allocations, and variables of other units."""
        generation = self.library.weft_generation()
        # The list is rebuilt only after an allocation or a free.
        if generation != self._memory[0]:
            self._memory = (generation, self._allocations())
        others = [unit for unit in self._all_units() if unit.loaded and unit.sim is not plan.sim]
        if not others:
            return self._memory[1]
        return self._memory[1] + [v for unit in others for v in unit.variables()]

    def _allocations(self) -> list[Allocation]:
        count = self.library.weft_allocations(None, 0)
        rows = (ctypes.c_uint64 * (3 * count))()
        count = min(count, self.library.weft_allocations(rows, count))
        return [
            Allocation(address, size, not kind & READ_ONLY, _KINDS[kind & ~READ_ONLY])
            for address, size, kind in zip(*[iter(rows[: 3 * count])] * 3, strict=True)
        ]

    # ---- variables --------------------------------------------------------------------------
    @answers(0)
    def symbol(self, host: int, size: Any) -> int:
        handle, name = self._variables.get(host, (0, ""))
        for unit in self._units_of(handle):
            if variable := unit.variable(name):
                size[0] = variable[1]
                return variable[0]
        return 0

    @answers(0)
    def variable_at(self, address: int, size: Any) -> int:
        for unit in self._all_units():
            for v in unit.variables():
                if v.address <= (address or 0) < v.address + v.nbytes:
                    size[0] = v.nbytes
                    return v.address
        return 0

    # ---- questions --------------------------------------------------------------------------
    @answers(INVALID_FUNCTION)
    def facts(self, host: int, out: Any, assembled: int) -> int:
        kernel = self._kernel(host)
        if kernel is None:
            return INVALID_FUNCTION
        unit, name = kernel
        entry, facts, major_minor = unit.entry(name), out[0], unit.model.compute_capability
        assert entry is not None
        facts.static_shared, facts.constant = entry.static_shared, unit.constant_bytes
        facts.ptx, facts.binary = unit.version, 10 * major_minor[0] + major_minor[1]
        most = entry.directives.get("maxntid") or entry.directives.get("reqntid")
        facts.most_threads = _product(most) if most else unit.model.max_threads_per_block
        facts.must_have_cluster = "explicitcluster" in entry.directives
        cluster = (*entry.directives.get("reqnctapercluster", ()), 0, 0, 0)
        facts.cluster = (ctypes.c_int64 * 3)(*cluster[:3])
        facts.registers = facts.local = 0
        if assembled:
            resources = unit.resources(name)
            facts.registers, facts.local = resources.registers, resources.local_bytes
        return 0

    @answers(-1)
    def blocks_per_sm(self, host: int, threads: int, shared: int) -> int:
        kernel = self._kernel(host)
        return -1 if kernel is None else self._blocks(*kernel, threads, shared)

    @answers(-1)
    def clusters(self, host: int, threads: int, shared: int, size: int) -> int:
        """The clusters that the GPU holds at once; -1 for a size that it cannot run."""
        kernel = self._kernel(host)
        if kernel is None or not 1 <= size <= kernel[0].model.max_cluster:
            return -1
        return active_clusters(kernel[0].model, self._blocks(*kernel, threads, shared), size)

    def _blocks(self, unit: TranslationUnit, name: str, threads: int, shared: int) -> int:
        entry = unit.entry(name)
        assert entry is not None
        if threads > unit.model.max_threads_per_block:
            return 0
        return occupancy(
            unit.model,
            threads=threads,
            registers=unit.resources(name).registers,
            shared_bytes=entry.static_shared + shared,
        ).blocks

    # ---- libraries and limits ---------------------------------------------------------------
    @answers(libraries.INTERNAL_ERROR)
    def compute(self, name: bytes, numbers: Any, count: int) -> int:
        return libraries.compute(name.decode(), numbers[:count])

    @answers(0)
    def heap(self, size: int) -> None:
        for unit in self._all_units():
            unit.set_heap(size)

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
        """A context for a launch whose accesses the sanitizer records."""
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
    def unfreed(self) -> None:
        """Report the memory that the program, which has ended, did not free."""
        from weft.frontends.program.sanitizer import frees

        self._note(frees.leaks(self._source, self.library))

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


def _reported(act: Callable[[], None], to: int, receive: Any) -> int:
    """0, or the driver's error for device code; its text goes to the log of the caller."""
    try:
        act()
    except device_code.RefusedImage as refused:
        _send(receive, to, ERROR, f"error: {refused}")
        return refused.code
    return 0


def _send(receive: Any, to: int, what: int, text: str) -> None:
    data = text.encode()
    receive(to, what, data, len(data))


def _died(error: BaseException | None) -> int:
    """The error code of a launch that failed with this exception; 0 for None."""
    if not isinstance(error, DeviceError):
        return 0
    return DIED | next(code for kind, code in _DEATHS if isinstance(error, kind))


def _configuration(dims: Any, shared: int) -> LaunchConfig:
    """The configuration of a launch; a cluster of no blocks is none."""
    grid, block, cluster = (tuple(dims[i : i + 3]) for i in (0, 3, 6))
    return LaunchConfig(grid, block, shared, cluster if any(cluster) else None)


def _product(sizes: tuple[int, ...]) -> int:
    out = 1
    for size in sizes:
        out *= size
    return out
