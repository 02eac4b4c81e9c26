"""Modules: the results of one compilation, and the kernels and variables in it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.device import devices
from weft.device.base import Device, Program, Rebuild
from weft.device.models import GpuModel
from weft.device.selection import number, select
from weft.device.summary import matching
from weft.errors import CompileError, Error, LaunchError, expect
from weft.kernels.kernel import Kernel
from weft.source import compile_cuda, read_ptx, scan
from weft.source.from_cuda import Machine, compile_machine
from weft.source.unit import Define
from weft.values import Ptx

if TYPE_CHECKING:
    from weft.source.resources import Resources

_Build = Callable[..., Ptx]
"""Compiles the source with name expressions, options of NVRTC that are added, and a text of the
source that replaces it."""
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
    """Compile CUDA C++ from a string or a file. The kernels are attributes of the module.

    source_or_path  CUDA C++, or the path of a file
    arch            the architecture to compile for, e.g. "sm_80"; by default that of `device`
    std             the C++ standard
    defines         macros: name -> value, or None for a macro without a value
    include         folders that are searched for headers
    fast_math       NVRTC's `--use_fast_math`
    options         further options for NVRTC
    name            the file name that messages show for a source given as a string
    device          "sim" or "sim:rtx3070" simulates a GPU for arrays in host memory; "gpu" or
                    "gpu:1" compiles for that real GPU and takes its arrays only
    math            "exact" matches the hardware bit for bit; "fast" computes tensor-core products
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
    target = home or devices.simulated(model)
    how: dict[str, Any] = {"std": std, "defines": defines, "include": include}
    how |= {"fast_math": fast_math, "options": options, "name": name}

    def build(names: Sequence[str], added: Sequence[str] = (), edited: str | None = None) -> Ptx:
        chosen = target.architecture if arch is None else arch
        more = how | {"options": [*options, *added]} if added else how
        text = source_or_path
        if edited is not None:  # headers beside a file stay reachable
            beside = [Path(first.origin).parent] if Path(first.origin).is_file() else []
            more, text = more | {"include": [*include, *beside], "name": first.origin}, edited
        return compile_cuda(
            text, arch=chosen, name_expressions=names, meanwhile=target.get_ready, **more
        )

    def assemble(names: Sequence[str], machine: str) -> Machine:
        return compile_machine(source_or_path, arch=machine, name_expressions=names, **how)

    first = build([])
    return CudaModule(first, model, is_fast(math), build, assemble, home)


def load_ptx(text_or_path: str | Path, *, device: str = "sim", math: str = "exact") -> Module:
    """Load PTX from a string or a file. The kernels are attributes of the module.

    text_or_path    PTX, or the path of a file
    device, math    as in `weft.cuda`

    >>> loaded = weft.load_ptx('''
    ... .version 8.0
    ... .target sm_80
    ... .address_size 64
    ... .entry nothing() { ret; }
    ... ''')
    >>> loaded.nothing[1, 32]()
    """
    model, home = _placed(device)
    return Module(Program(read_ptx(text_or_path)), model, is_fast(math), home)


def synchronize(device: int | str | None = None) -> None:
    """Wait for all work on a real GPU, by default on all of them. Raise its pending errors.

    device  "gpu:1", or the number of the GPU. A launch on the simulated GPU has ended when it
            returns, so "sim" returns at once.

    >>> weft.synchronize()
    """
    where = number(device)
    if device is not None and where is None:
        return
    devices.synchronize(where)


def _placed(device: str) -> tuple[GpuModel, Device | None]:
    """The GPU to simulate, and the real one if it was selected."""
    chosen = select(device)
    return chosen.simulated, None if chosen.number is None else devices.real(chosen.number)


def is_fast(mode: str) -> bool:
    """Return whether a mode computes tensor-core products with plain FMA."""
    if mode not in ("exact", "fast"):
        raise LaunchError("unknown math mode", got=repr(mode), allowed="'exact' or 'fast'")
    return mode == "fast"


class Module:
    """The kernels and variables of one compilation. `weft.cuda` and `weft.load_ptx` return it.

    Kernels are attributes: `module.scale`.

    >>> print(module.names)
    ['scale']
    >>> instance = weft.cuda("template <typename T> __global__ void fill(T* x) { *x = 7; }")
    >>> one = np.zeros(1, np.float32)
    >>> instance.kernel("fill<float>")[1, 1](one)
    >>> print(one)
    [7.]
    """

    def __init__(
        self, program: Program, model: GpuModel, fast: bool, home: Device | None = None
    ) -> None:
        """Arrays in host memory run on a simulated GPU of `model`; `home` is a real GPU."""
        self.program, self.ptx, self.model = program, program.ptx, model
        self._fast, self._home = fast, home
        self._kernels: dict[str, Kernel] = {}

    def __getattr__(self, name: str) -> Kernel:
        # `copy`, `pickle` and others probe for special methods and expect a plain AttributeError.
        if name.startswith("__"):
            raise AttributeError(name)
        return self.kernel(name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(n for n in self.names if n.isidentifier())]

    @property
    def names(self) -> list[str]:
        """The names of the kernels, as C++ spells them."""
        # PTX that was loaded has no names of C++, only its entries.
        return list(self.ptx.entries) or list(self.program.summary.entries)

    def kernel(self, name: str) -> Kernel:
        """A kernel by its C++ name."""
        if name not in self._kernels:
            entry = self._entry(name)
            self._kernels[name] = self._make(self.program, entry, name, self._measure)
        return self._kernels[name]

    def _make(
        self,
        program: Program,
        entry: str,
        name: str,
        measure: Callable[[], Mapping[str, Resources]],
    ) -> Kernel:
        return Kernel(program, self.model, entry, name, measure, fast=self._fast, home=self._home)

    def _device(self, word: int | str | None = None) -> Device:
        """The device that a word or a number names; None names the one it was compiled for."""
        simulator = devices.simulated(self.model, fast=self._fast)
        return devices.named(word, simulator, self._home)

    def _measure(self, names: Sequence[str] = ()) -> Mapping[str, Resources]:
        """The resources of each kernel, by entry; `names` are instances of templates."""
        device, entries = self._device(), self.program.summary.entries
        loaded = self.program.on(device)
        reported = {e: r for e in entries if (r := loaded.resources(e)) is not None}
        if reported:
            return reported
        # A simulated GPU reports nothing: an assembler says what the kernels need.
        from weft.source.assemble import assemble

        return assemble(self.ptx.text, device.limits.machine)

    def _entry(self, name: str) -> str:
        entries = self.ptx.entries
        if name in entries:
            return entries[name]
        if name in entries.values() or name in self.program.summary.entries:
            return name
        raise self._unknown(name)

    def _unknown(self, name: str) -> Error:
        from weft.kernels.suggest import listed, suggest

        sources = self.ptx.sources
        return _NoKernel(
            f"no kernel '{name}' in {self.ptx.origin}",
            got=name,
            allowed=listed(self.names, sources),
            next=suggest(name, self.names, sources),
        )

    def variable(self, name: str, dtype: Any = None, device: int | str | None = None) -> Any:
        """A `__device__` or `__constant__` variable; its dtype is by default that of the source.

        On the simulated GPU it is an array that shares its memory. On a real one, which `device`
        names ("gpu:1", or the number), it is read and written by copies.
        """
        from weft.kernels import variables  # few modules have some

        return variables.view(self.program, self._device(device), name, dtype)


REMEMBERED = 256
"""The number of kernels that a module of templates stores: the oldest is freed for a new one."""


class CudaModule(Module):
    """A module that can instantiate templates on request."""

    def __init__(
        self,
        ptx: Ptx,
        model: GpuModel,
        fast: bool,
        build: _Build,
        assemble: _Assemble,
        home: Device | None = None,
    ) -> None:
        # First: `_machine_code` refers to them, and `__getattr__` takes a missing attribute for a
        # kernel.
        self._build, self._assemble = build, assemble
        program = Program(ptx, self._machine_code(), rebuild=self._rebuild())
        super().__init__(program, model, fast, home)

    def _measure(self, names: Sequence[str] = ()) -> Mapping[str, Resources]:
        arch = self._device().limits.machine
        from weft.source.resources import read  # of the assembler's report, which few ask for

        return read(self._assemble(names, arch).report, arch)

    def _rebuild(self, *names: str) -> Rebuild:
        """A function that compiles the source and its instances again, for the debugger."""
        return lambda added, edited: self._build(names, added, edited)

    def _machine_code(self, *names: str) -> Callable[[str], bytes]:
        """A function that compiles the source and its instances for a real GPU."""
        return lambda arch: self._assemble(names, arch).cubin

    def kernel(self, name: str) -> Kernel:
        """A kernel by its C++ name; `saxpy<float>` instantiates a template."""
        expect("a kernel's name", name, str, allowed="a string")
        # An instance is compiled as a program of its own, when it is first asked for.
        if name not in self._kernels and name not in self.ptx.entries and "<" in name:
            ptx = self._instance(name)
            program = Program(
                ptx, self._machine_code(name), base=self.program, rebuild=self._rebuild(name)
            )
            measure = functools.partial(self._measure, [name])
            if len(self._kernels) >= REMEMBERED:
                del self._kernels[next(iter(self._kernels))]
            self._kernels[name] = self._make(program, ptx.entries[name], name, measure)
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

    def variable(self, name: str, dtype: Any = None, device: int | str | None = None) -> Any:
        """A `__device__` or `__constant__` variable; `ns::x` and `x<float>` are taken too.

        Its dtype is by default that of its declaration in the source.

        On the simulated GPU all instances of templates share it and it is an array. On a real one,
        which `device` names, each has its own; what is written here is written to them all.
        """
        expect("a variable's name", name, str, allowed="a string")
        from weft.kernels import variables

        place, written = self._device(device), name
        module = self.program.on(place)
        # NVRTC resolves namespaces and template arguments: the address of the variable as a name
        # expression gives its mangled name, and instantiates it where it is a template.
        if len(module.find(name)) != 1:
            with contextlib.suppress(CompileError):  # the source has no such name
                instance = Program(self._build([f"&{name}"]))
                module.admit(instance)
                names = [v.name for v in instance.summary.variables]
                name = next(iter(matching(instance.ptx.entries[f"&{name}"], names)), name)
        return variables.view(self.program, place, name, dtype, written)


class _NoKernel(LaunchError, AttributeError):
    """A kernel that is not there; also an AttributeError, so that hasattr works."""
