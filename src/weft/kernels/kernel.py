"""A kernel and its configured launches: `k[grid, block, shared_mem, stream](*args)`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.device.arguments import Packer
from weft.device.sim.launch import Grid, Plan, SimModule
from weft.errors import LaunchError
from weft.source.resources import Resources

if TYPE_CHECKING:
    from weft.device.sim.observe import Observer

Dim = int | Sequence[int]

REMEMBERED = 256
"""Launch shapes that a kernel keeps ready."""


def cdiv(a: int, b: int) -> int:
    """a / b rounded up: how many blocks of b cover a elements."""
    return -(-a // b)


class Kernel:
    """One kernel; `k[grid, block](*args)` runs it."""

    def __init__(
        self,
        sim: SimModule,
        entry: str,
        name: str,
        measure: Callable[[], Mapping[str, Resources]],
    ) -> None:
        self._sim, self.entry, self.name = sim, entry, name
        self._measure = measure
        self._resources: Resources | None = None
        self._packer: Packer | None = None
        self._launches: dict[Hashable, Launch] = {}

    def __repr__(self) -> str:
        return f"<weft.Kernel {self.packer.signature()}>"

    @property
    def packer(self) -> Packer:
        if self._packer is None:
            entry, types = self._sim.entry(self.entry), self._sim.ptx.signatures.get(self.entry)
            self._packer = Packer(self.name, entry.params, entry.param_bytes, types)
        return self._packer

    @property
    def ptx(self) -> str:
        """The PTX of the module this kernel is in."""
        return self._sim.ptx.text

    @property
    def resources(self) -> Resources:
        """Registers, spills and shared memory on the simulated GPU's own architecture.

        The first call compiles to machine code; launches are then held to the registers too.
        """
        if self._resources is None:
            variables = self._sim.outline.variables
            constant = sum(v.size for v in variables if v.space == "const")
            self._resources = replace(self._measure()[self.entry], constant_bytes=constant)
            self._launches.clear()  # they were checked without
        return self._resources

    def variable(self, name: str, dtype: Any = np.uint8) -> np.ndarray[Any, Any]:
        """A `__device__` or `__constant__` variable of its module."""
        return self._sim.variable(name, dtype)

    def __getitem__(self, config: Any) -> Launch:
        try:
            found = self._launches.get(config)
        except TypeError:  # a list
            found = None
        if found is None:
            found = self._configured(config)
            if _constant(config) and len(self._launches) < REMEMBERED:
                self._launches[config] = found
        return found

    def _configured(self, config: Any) -> Launch:
        items = config if isinstance(config, tuple) else (config,)
        if not 2 <= len(items) <= 4:
            raise LaunchError(
                f"{self.name}[...] takes a grid and a block",
                got=f"{len(items)} values",
                allowed="kernel[grid, block], kernel[grid, block, shared_mem, stream]",
            )
        shared = items[2] if len(items) > 2 and items[2] is not None else 0
        return Launch(self, self._grid(items[0], items[1], shared))

    def __call__(
        self,
        *args: Any,
        grid: Dim,
        block: Dim,
        shared_mem: int = 0,
        stream: object = None,
        time_limit: float | None = None,
    ) -> None:
        """The keyword form of `k[grid, block, shared_mem, stream](*args)`."""
        self[grid, block, shared_mem](*args, time_limit=time_limit)

    def _grid(self, grid: Dim, block: Dim, shared: int) -> Grid:
        shape = Grid(_dims("grid", grid), _dims("block", block), _count("shared_mem", shared))
        self._check(shape)
        return shape

    def _check(self, shape: Grid) -> None:
        m = self._sim.model
        limits = [("grid", shape.grid, m.max_grid), ("block", shape.block, m.max_block)]
        for what, given, most in limits:
            for axis, n, limit in zip("xyz", given, most, strict=True):
                if n > limit:
                    raise LaunchError(
                        f"{self.name}: {what}.{axis} is too large for {m.name}",
                        got=str(n),
                        allowed=f"up to {limit}",
                    )
        if 0 in shape.block:
            raise LaunchError(f"{self.name}: a block needs threads", got=str(shape.block))
        threads = shape.block[0] * shape.block[1] * shape.block[2]
        self._check_threads(threads, shape.block)
        static = self._sim.entry(self.entry).static_shared
        if static > m.static_shared_per_block or static + shape.shared_bytes > m.shared_per_block:
            raise LaunchError(
                f"{self.name} needs more shared memory than a block may have on {m.name}",
                got=f"{static} bytes static + {shape.shared_bytes} dynamic",
                allowed=f"{m.static_shared_per_block} static, {m.shared_per_block} in all",
                next="use smaller tiles, or move the array to dynamic shared memory",
            )

    def _check_threads(self, threads: int, block: tuple[int, int, int]) -> None:
        m, directives = self._sim.model, self._sim.entry(self.entry).directives
        if threads > m.max_threads_per_block:
            raise LaunchError(
                f"{self.name}: too many threads in a block for {m.name}",
                got=f"{block} = {threads}",
                allowed=f"up to {m.max_threads_per_block}",
            )
        most = directives.get("maxntid")
        if most is not None and threads > int(np.prod(most)):
            raise LaunchError(
                f"{self.name} was compiled for fewer threads a block",
                got=f"{block} = {threads}",
                allowed=f"up to {int(np.prod(most))} (__launch_bounds__)",
            )
        known = self._resources
        if known is not None and known.registers_for(threads) > m.registers_per_block:
            raise LaunchError(
                f"{self.name} needs more registers than a block may have on {m.name}",
                got=f"{known.registers} a thread, {known.registers_for(threads)} for {threads}",
                allowed=f"up to {m.registers_per_block}",
                next="launch fewer threads a block, or compile with __launch_bounds__(threads)",
            )
        exact = directives.get("reqntid")
        if exact is not None and (*exact, 1, 1)[:3] != block:
            raise LaunchError(
                f"{self.name} was compiled for one block shape", got=str(block), allowed=str(exact)
            )

    def plan(self, shape: Grid, observer: Observer | None = None) -> Plan:
        """What all launches of a shape have in common."""
        return Plan(self._sim, self.entry, shape, observer)


@dataclass(slots=True, eq=False)
class Launch:
    """A kernel with its grid; call it with the arguments."""

    kernel: Kernel
    shape: Grid
    _plan: Plan | None = field(default=None, repr=False)

    def __call__(self, *args: Any, time_limit: float | None = None) -> None:
        """Runs the grid and returns when it is done."""
        params, memory, keep = self.kernel.packer.pack(args)
        if self._plan is None:
            if 0 in self.shape.grid:
                return
            self._plan = self.kernel.plan(self.shape)
        self._plan.run(params, memory, keep, time_limit)

    def observe(self, observer: Observer, *args: Any, time_limit: float | None = None) -> None:
        """The same launch under an observer."""
        params, memory, keep = self.kernel.packer.pack(args)
        if 0 not in self.shape.grid:
            self.kernel.plan(self.shape, observer).run(params, memory, keep, time_limit)


def _constant(config: Any) -> bool:
    """Is this a value that stays what it is? A list or a tensor may be another one next time."""
    if isinstance(config, tuple):
        return all(_constant(item) for item in config)
    return config is None or type(config) is int


def _count(what: str, value: Any) -> int:
    whole = isinstance(value, float | np.floating) and value == value // 1
    try:
        number = int(value) if whole else operator.index(value)
    except (TypeError, OverflowError):
        number = -1
    if number < 0:
        raise LaunchError(
            f"{what} must be a whole number, not negative",
            got=repr(value),
            next="weft.cdiv(n, block) gives the number of blocks",
        )
    return number


def _dims(what: str, value: Any) -> tuple[int, int, int]:
    items = tuple(value) if isinstance(value, tuple | list | np.ndarray) else (value,)
    if not 1 <= len(items) <= 3:
        raise LaunchError(f"{what} has one to three sizes", got=repr(value))
    x, y, z = (*(_count(what, v) for v in items), 1, 1)[:3]
    return x, y, z
