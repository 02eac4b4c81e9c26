"""Modules: what one compilation gives, and the kernels and variables in it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.device.models import GpuModel
from weft.device.selection import number, select
from weft.device.sim.run.module import SimModule
from weft.errors import CompileError, Error, LaunchError, expect
from weft.kernels.kernel import Kernel, gpu_variable
from weft.kernels.suggest import listed, suggest
from weft.source import compile_cuda, read_ptx, scan
from weft.source.assemble import assemble
from weft.source.from_cuda import Define, Machine, compile_machine
from weft.source.resources import Resources, read
from weft.values import Ptx

if TYPE_CHECKING:
    from weft.device.gpu.program import Program
    from weft.device.gpu.variable import GpuVariable

_Build = Callable[[Sequence[str]], Ptx]
_Assemble = Callable[[Sequence[str], str], Machine]


def cuda(
    source_or_path: str | Path,
    *,
    arch: str | None = None,
    std: str = "c++17",
    defines: Mapping[str, Define] | None = None,
    include: Sequence[str | Path] = (),
    fast_math: bool = False,
    options: Sequence[str] = (),
    name: str = "kernel.cu",
    device: str = "sim",
    math: str = "exact",
) -> CudaModule:
    """Compiles CUDA C++ from a string or a file. The kernels are attributes of the module.

    arch        the architecture to compile for, e.g. "sm_80"; by default that of `device`
    std         the C++ standard
    defines     macros: name -> value, or None for a macro without a value
    include     folders that are searched for headers
    fast_math   NVRTC's `--use_fast_math`
    options     further options for NVRTC
    name        the file name that messages show for a source given as a string
    device      "sim" or "sim:rtx3070" simulates a GPU for arrays in host memory; "gpu" or
                "gpu:1" compiles for that real GPU and takes its arrays only
    math        "exact" matches the hardware bit for bit; "fast" computes tensor-core products
                with plain FMA

    >>> import numpy as np
    >>> import weft
    >>> module = weft.cuda('''
    ... __global__ void scale(float* x, float a, int n) {
    ...     int i = blockIdx.x * blockDim.x + threadIdx.x;
    ...     if (i < n) x[i] *= a;
    ... }
    ... ''')
    >>> x = np.arange(4, dtype=np.float32)
    >>> module.scale[1, 32](x, 10.0, 4)
    >>> print(x)
    [ 0. 10. 20. 30.]
    """
    model, home = _placed(device)
    how: dict[str, Any] = {"std": std, "defines": defines, "include": include}
    how |= {"fast_math": fast_math, "options": options, "name": name}

    def build(names: Sequence[str]) -> Ptx:
        target = (
            arch if arch is not None else (model.compile_for if home is None else _machine(home))
        )
        return compile_cuda(source_or_path, arch=target, name_expressions=names, **how)

    def assemble(names: Sequence[str], machine: str) -> Machine:
        return compile_machine(source_or_path, arch=machine, name_expressions=names, **how)

    return CudaModule(build([]), model, is_fast(math), build, assemble, home)


def load_ptx(text_or_path: str | Path, *, device: str = "sim", math: str = "exact") -> Module:
    """Loads PTX from a string or a file. The kernels are attributes of the module.

    `device` and `math` mean what they mean in `weft.cuda`.

    >>> module = weft.load_ptx('''
    ... .version 8.0
    ... .target sm_80
    ... .address_size 64
    ... .entry nothing() { ret; }
    ... ''')
    >>> module.nothing[1, 32]()
    """
    model, home = _placed(device)
    return Module(read_ptx(text_or_path), model, is_fast(math), home)


def synchronize(device: int | str | None = None) -> None:
    """Waits for all work on a real GPU, by default on all of them. Raises its pending errors.

    device  "gpu:1", or the number of the GPU. A launch on the simulated GPU has ended when it
            returns, so "sim" returns at once.

    >>> weft.synchronize()
    """
    where = number(device)
    if device is not None and where is None:
        return
    from weft.device.gpu import pending  # only a real GPU has something to wait for

    pending.synchronize(where)


def _placed(device: str) -> tuple[GpuModel, int | None]:
    """The GPU to simulate, and the number of the real one where that was asked for."""
    chosen = select(device)
    return chosen.simulated, chosen.number


def _machine(device: int) -> str:
    from weft.device.gpu.facts import facts  # needs a driver

    return facts(device).machine


def is_fast(mode: str) -> bool:
    """Is this the mode in which tensor cores sum by plain FMA?"""
    if mode not in ("exact", "fast"):
        raise LaunchError("unknown math mode", got=repr(mode), allowed="'exact' or 'fast'")
    return mode == "fast"


class Module:
    """Kernels and variables of one compilation."""

    def __init__(self, ptx: Ptx, model: GpuModel, fast: bool, home: int | None = None) -> None:
        self.ptx, self.model, self._fast, self._home = ptx, model, fast, home
        self._sim = SimModule(ptx, model, fast=fast)
        self._program = functools.cache(functools.partial(self._for_gpus, ptx, ()))
        self._kernels: dict[str, Kernel] = {}

    def __getattr__(self, name: str) -> Kernel:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.kernel(name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(n for n in self.names if n.isidentifier())]

    @property
    def names(self) -> list[str]:
        """The kernels, as C++ spells them."""
        return list(self.ptx.entries) or list(self._sim.summary.entries)

    def kernel(self, name: str) -> Kernel:
        """A kernel by its C++ name."""
        if name not in self._kernels:
            self._kernels[name] = Kernel(
                self._sim, self._entry(name), name, self._measure, self._program, self._home
            )
        return self._kernels[name]

    def _for_gpus(self, ptx: Ptx, names: Sequence[str]) -> Program:
        """The code for real GPUs: the driver assembles the PTX."""
        from weft.device.gpu.program import Program  # only launches on a real GPU need it

        return Program(ptx, None)

    def _measure(self, names: Sequence[str] = ()) -> Mapping[str, Resources]:
        """What the assembler says of the kernels, and of these instances of templates."""
        if self._home is not None:
            code = self._program().on(self._home)
            return {entry: code.resources(entry) for entry in self._sim.summary.entries}
        return assemble(self.ptx.text, self.model.machine)

    def _entry(self, name: str) -> str:
        entries = self.ptx.entries
        if name in entries:
            return entries[name]
        if name in entries.values() or name in self._sim.summary.entries:
            return name
        raise self._unknown(name)

    def _unknown(self, name: str) -> Error:
        sources = self.ptx.sources
        return _NoKernel(
            f"no kernel '{name}' in {self.ptx.origin}",
            got=name,
            allowed=listed(self.names, sources),
            next=suggest(name, self.names, sources),
        )

    def variable(
        self, name: str, dtype: Any = np.uint8, device: int | str | None = None
    ) -> np.ndarray[Any, Any] | GpuVariable:
        """A `__device__` or `__constant__` variable.

        On the simulated GPU it is an array that shares its memory. On a real one, which `device`
        names ("gpu:1", or the number), it is read and written by copies.
        """
        where = self._home if device is None else number(device)
        if where is None:
            return self._sim.variable(name, dtype)
        return gpu_variable(self._program(), self._sim, name, dtype, where)


class CudaModule(Module):
    """A module that can instantiate templates on request."""

    def __init__(
        self,
        ptx: Ptx,
        model: GpuModel,
        fast: bool,
        build: _Build,
        assemble: _Assemble,
        home: int | None = None,
    ) -> None:
        super().__init__(ptx, model, fast, home)
        self._build, self._assemble = build, assemble

    def _measure(self, names: Sequence[str] = ()) -> Mapping[str, Resources]:
        arch = self.model.machine if self._home is None else _machine(self._home)
        return read(self._assemble(names, arch).report, arch)

    def _for_gpus(
        self, ptx: Ptx, names: Sequence[str], instance: SimModule | None = None
    ) -> Program:
        """The code for real GPUs: machine code straight from the source."""
        from weft.device.gpu.program import Program  # only launches on a real GPU need it

        def assemble(arch: str) -> bytes:
            return self._assemble(names, arch).cubin

        if instance is None:
            return Program(ptx, assemble)
        plain = [v.name for v in instance.summary.variables if not v.relocations]
        return Program(ptx, assemble, self._program(), lambda: plain)

    def kernel(self, name: str) -> Kernel:
        """A kernel by its C++ name; `saxpy<float>` instantiates a template."""
        expect("a kernel's name", name, str, allowed="a string")
        if name not in self._kernels and name not in self.ptx.entries and "<" in name:
            ptx = self._instance(name)
            sim = SimModule(ptx, self.model, fast=self._fast, within=self._sim)
            measured = functools.partial(self._measure, [name])
            program = functools.cache(functools.partial(self._for_gpus, ptx, [name], sim))
            self._kernels[name] = Kernel(
                sim, ptx.entries[name], name, measured, program, self._home
            )
        return super().kernel(name)

    def _instance(self, name: str) -> Ptx:
        """The code with an instance of a template."""
        try:
            return self._build([name])
        except CompileError as error:
            written = [k.name for text in self.ptx.sources.values() for k in scan.kernels(text)]
            if name.partition("<")[0].rpartition("::")[2] in written:
                raise  # the template is there: the compiler says what is wrong with its arguments
            raise self._unknown(name) from error

    def variable(
        self, name: str, dtype: Any = np.uint8, device: int | str | None = None
    ) -> np.ndarray[Any, Any] | GpuVariable:
        """A `__device__` or `__constant__` variable; `ns::x` and `x<float>` are taken too.

        On the simulated GPU all instances of templates share it and it is an array. On a real one,
        which `device` names, each has its own; what is written here is written to them all.
        """
        expect("a variable's name", name, str, allowed="a string")
        if len(self._sim.find(name)) != 1:
            with contextlib.suppress(CompileError):  # it is no name that the source knows
                ptx = self._build([f"&{name}"])
                sim = SimModule(ptx, self.model, fast=self._fast, within=self._sim)
                name = next(iter(sim.find(ptx.entries[f"&{name}"])), name)
        return super().variable(name, dtype, device)


class _NoKernel(LaunchError, AttributeError):
    """A kernel that is not there; also an AttributeError, so that hasattr works."""
