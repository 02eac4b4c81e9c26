"""A kernel: `k[grid, block, shared_mem, stream](*args)` runs it."""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from weft.device import devices
from weft.device.arguments import Packer
from weft.device.base import Device, KernelInfo, LaunchConfig, Packed, Program
from weft.device.models import GpuModel
from weft.device.summary import Entry
from weft.errors import ArgumentError, LaunchError
from weft.kernels.indexed import Dim, Indexed
from weft.kernels.launch import Launch
from weft.kernels.limits import check
from weft.source.resources import Resources

REMEMBERED = 256
"""Launch configurations that a kernel keeps prepared."""


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
        program: Program,
        model: GpuModel,
        entry: str,
        name: str,
        measure: Callable[[], Mapping[str, Resources]],
        *,
        fast: bool = False,
        home: Device | None = None,
    ) -> None:
        """A kernel of a program, by its entry in the PTX and its name in the source.

        model    the GPU to simulate for arrays in host memory; `fast` as in SimDevice
        measure  gives what the assembler reports of the program's kernels, by entry
        home     the real GPU that the program was compiled for, which runs all launches
        """
        self.program, self.model, self.home = program, model, home
        self.simulator = devices.simulated(model, fast=fast)
        self.entry, self.name, self._measure = entry, name, measure
        self._resources: Resources | None = None
        self._packer: Packer | None = None
        self._launches: dict[Hashable, Launch] = {}
        program.kernels[entry] = KernelInfo(name, lambda: self.resources)

    def __repr__(self) -> str:
        return f"<weft.Kernel {self.packer.signature()}>"

    @property
    def packer(self) -> Packer:
        if self._packer is None:
            summary, types = self.summary, self.program.ptx.signatures.get(self.entry)
            self._packer = Packer(self.name, summary.params, summary.param_bytes, types)
        return self._packer

    @property
    def summary(self) -> Entry:
        """Its parameters, launch bounds and shared memory."""
        return self.program.summary.entries[self.entry]

    @property
    def ptx(self) -> str:
        """The PTX of the module this kernel is in."""
        return self.program.ptx.text

    @property
    def static_shared(self) -> int:
        """Bytes of static shared memory per block."""
        return self.summary.static_shared

    @property
    def resources(self) -> Resources:
        """Registers, spills and shared memory on the simulated GPU, or the one it is for.

        The first call compiles to machine code; launches are then also checked for registers.
        """
        if self._resources is None:
            variables = self.program.summary.variables
            constant = sum(v.size for v in variables if v.space == "const")
            report = self._measure().get(self.entry)
            if report is None:
                raise LaunchError(
                    f"the assembler did not say what {self.name} needs",
                    next="run `weft cache clear`, so that it is assembled again",
                )
            self._resources = replace(report, constant_bytes=constant)
            self._launches.clear()  # they were checked without its registers
        return self._resources

    def variable(self, name: str, dtype: Any = np.uint8, device: int | str | None = None) -> Any:
        """A `__device__` or `__constant__` variable of its module; `device` as Module.variable."""
        where = devices.named(device, self.simulator, self.home)
        return self.program.on(where).variable(name, dtype)

    def device_of(self, packed: Packed) -> Device:
        """The device where the arrays of a launch are."""
        _, memory, _, place = packed
        if place is not None:
            return devices.real(place.device)
        if self.home is None:
            return self.simulator
        if memory:
            raise ArgumentError(
                f"{self.name} was compiled for a real GPU, its arrays are in host memory",
                got="arrays on the CPU",
                next="move them, e.g. x.cuda(), or leave device= out: the device follows the data",
            )
        return self.home

    def __getitem__(self, config: Any) -> Launch:
        try:
            return self._launches[config]
        except (KeyError, TypeError):  # a new one, or a list
            launch = super().__getitem__(config)
        if _constant(config) and len(self._launches) < REMEMBERED:
            self._launches[config] = launch
        return launch

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
            devices.check_stream(stream)
        return Launch(self, config, stream)

    def as_op(self, name: str, schema: str = "", **options: Any) -> Any:
        """This kernel as an op of PyTorch, e.g. "mine::square": `weft.as_op` has the options."""
        ops = importlib.import_module("weft.ops")  # by its name: it stands above kernels
        return ops.as_op(self, name, schema, **options)

    def check(self, config: LaunchConfig, device: Device) -> None:
        """Raises LaunchError where a device cannot run the launch."""
        resources = self.program.on(device).resources(self.entry) or self._resources
        check(self.name, self.summary, config, device.limits, resources)


def _constant(config: Any) -> bool:
    """Whether a configuration is immutable; a list or a tensor may have changed next time."""
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
