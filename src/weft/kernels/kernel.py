"""A kernel: `k[grid, block, shared_mem, stream](*args)` runs it."""

from __future__ import annotations

import functools
import importlib
import operator
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.device.arguments import Packer
from weft.device.base import LaunchConfig
from weft.device.models import GpuModel
from weft.device.selection import number
from weft.device.sim.run.launch import Plan
from weft.device.sim.run.module import KernelInfo, SimModule
from weft.errors import ArgumentError, LaunchError
from weft.kernels.indexed import Dim, Indexed
from weft.kernels.launch import Launch
from weft.kernels.limits import check
from weft.source.resources import Resources

if TYPE_CHECKING:
    from weft.device.gpu.plan import GpuPlan
    from weft.device.gpu.program import Program
    from weft.device.gpu.variable import GpuVariable
    from weft.device.sim.run.observation import Observer

REMEMBERED = 256
"""Launch shapes that a kernel keeps ready."""


def cdiv(a: int, b: int) -> int:
    """a / b rounded up: how many blocks of b cover a elements."""
    try:
        return -(-a // b)
    except (TypeError, ZeroDivisionError) as error:
        raise ArgumentError("cdiv takes two whole numbers", got=f"{a!r}, {b!r}: {error}") from None


class Kernel(Indexed[Launch]):
    """One kernel; `k[grid, block](*args)` runs it."""

    def __init__(
        self,
        sim: SimModule,
        entry: str,
        name: str,
        measure: Callable[[], Mapping[str, Resources]],
        program: Callable[[], Program] | None = None,
        home: int | None = None,
    ) -> None:
        """`program` is the code for real GPUs, the PTX by default; `home` a GPU it was made for."""
        self._sim, self.entry, self.name, self.home = sim, entry, name, home
        self._measure = measure
        self._program = program or functools.cache(functools.partial(_from_ptx, sim))
        self._resources: Resources | None = None
        self._packer: Packer | None = None
        self._launches: dict[Hashable, Launch] = {}
        sim.kernels[entry] = KernelInfo(name, lambda: self.resources)

    def __repr__(self) -> str:
        return f"<weft.Kernel {self.packer.signature()}>"

    @property
    def packer(self) -> Packer:
        if self._packer is None:
            entry, types = self._sim.entry(self.entry), self._sim.ptx.signatures.get(self.entry)
            self._packer = Packer(self.name, entry.params, entry.param_bytes, types)
        return self._packer

    @property
    def model(self) -> GpuModel:
        """The GPU that is simulated for arrays of the host."""
        return self._sim.model

    @property
    def code(self) -> SimModule:
        """The module that it is in, on the simulated GPU."""
        return self._sim

    @property
    def ptx(self) -> str:
        """The PTX of the module this kernel is in."""
        return self._sim.ptx.text

    @property
    def static_shared(self) -> int:
        """Bytes of shared memory that a block has without asking."""
        return self._sim.entry(self.entry).static_shared

    @property
    def resources(self) -> Resources:
        """Registers, spills and shared memory on the GPU that is simulated, or the one it is for.

        The first call compiles to machine code; launches are then held to the registers too.
        """
        if self._resources is None:
            variables = self._sim.summary.variables
            constant = sum(v.size for v in variables if v.space == "const")
            found = self._measure().get(self.entry)
            if found is None:
                raise LaunchError(
                    f"the assembler did not say what {self.name} needs",
                    next="`weft cache clear`, so that it is assembled anew",
                )
            self._resources = replace(found, constant_bytes=constant)
            self._launches.clear()  # they were checked without
        return self._resources

    def variable(
        self, name: str, dtype: Any = np.uint8, device: int | str | None = None
    ) -> np.ndarray[Any, Any] | GpuVariable:
        """A `__device__` or `__constant__` variable of its module; `device` as Module.variable."""
        where = self.home if device is None else number(device)
        if where is None:
            return self._sim.variable(name, dtype)
        return gpu_variable(self._program(), self._sim, name, dtype, where)

    def __getitem__(self, config: Any) -> Launch:
        try:
            return self._launches[config]
        except (KeyError, TypeError):  # a new one, or a list
            found = super().__getitem__(config)
        if _constant(config) and len(self._launches) < REMEMBERED:
            self._launches[config] = found
        return found

    def bind(
        self,
        grid: Dim,
        block: Dim,
        *args: Any,
        shared_mem: int = 0,
        stream: object = None,
    ) -> Callable[[], None]:
        """A function that launches with these arguments again and again: for hot loops.

        Arguments are checked and packed once. Arrays are kept alive and their contents may change,
        but not their memory: a tensor that is resized stays bound to where it was.
        """
        return self[grid, block, shared_mem, stream].bind(*args)

    def _configured(self, grid: Any, block: Any, shared_mem: Any, stream: object) -> Launch:
        """What `k[grid, block, shared_mem, stream]` is when it is new."""
        config = LaunchConfig(
            _dims("grid", grid), _dims("block", block), _count("shared_mem", shared_mem)
        )
        if stream is not None:
            from weft.device.gpu import streams  # launches without one do without its code

            streams.handle(stream)  # refuses what is none
        return Launch(self, config, stream)

    def as_op(self, name: str, schema: str = "", **options: Any) -> Any:
        """This kernel as an op of PyTorch, e.g. "mine::square": `weft.as_op` has the options."""
        ops = importlib.import_module("weft.ops")  # by its name: it stands above kernels
        return ops.as_op(self, name, schema, **options)

    def check(self, config: LaunchConfig, model: GpuModel | None = None) -> None:
        """Raises LaunchError where the simulated GPU, or another model, cannot run the launch."""
        check(self.name, self._sim.entry(self.entry), config, model or self.model, self._resources)

    def plan(self, config: LaunchConfig, observer: Observer | None = None) -> Plan:
        """What all launches with a configuration on the simulated GPU have in common."""
        return Plan(self._sim, self.entry, config, observer)

    def gpu_plan(self, config: LaunchConfig, stream: object, device: int) -> GpuPlan:
        """What all launches with a configuration on a real GPU have in common."""
        from weft.device.gpu.call import Layout
        from weft.device.gpu.facts import facts
        from weft.device.gpu.plan import GpuPlan

        code, entry = self._program().on(device), self._sim.entry(self.entry)
        check(self.name, entry, config, facts(device), code.resources(self.entry))
        layout = Layout(entry.param_bytes, tuple(param.offset for param in entry.params))
        call = code.call(self.entry, layout, *config, name=self.name)
        return GpuPlan(self.packer, call, stream)


def gpu_variable(
    program: Program, sim: SimModule, name: str, dtype: Any, device: int
) -> GpuVariable:
    """The variable that a C++ name means, on a real GPU."""
    from weft.device.gpu.variable import GpuVariable

    return GpuVariable(program, sim.symbol(name), np.dtype(dtype), device)


def _from_ptx(sim: SimModule) -> Program:
    from weft.device.gpu.program import Program  # only launches on a real GPU need it

    return Program(sim.ptx, None)


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
    if isinstance(value, np.ndarray):
        value = value.tolist()
    items = tuple(value) if isinstance(value, tuple | list) else (value,)
    if not 1 <= len(items) <= 3:
        raise LaunchError(f"{what} has one to three sizes", got=repr(value))
    x, y, z = (*(_count(what, v) for v in items), 1, 1)[:3]
    return x, y, z
