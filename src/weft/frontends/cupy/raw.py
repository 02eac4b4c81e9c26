"""RawKernel and RawModule: CUDA C++ that is launched as kernel(grid, block, arguments)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import ArgumentError
from weft.frontends import activity
from weft.frontends.cupy import array_memory, current, memory
from weft.frontends.cupy.arrays import ndarray
from weft.frontends.cupy.compiled import compiled
from weft.frontends.cupy.device import Device
from weft.kernels import load_ptx

_CUCOMPLEX = re.compile(r"#\s*include\s*[<\"]cuComplex\.h[>\"]")
_STANDARD = re.compile(r"-{1,2}std=(.+)")


class RawModule:
    """A module of CUDA C++.

    code, path        the source, or a file with it (.cu, .ptx)
    options           for NVRTC: ("-DN=4", "-Iinclude", "--std=c++17")
    name_expressions  instances of templates
    translate_cucomplex  the types of cuComplex.h are complex<T>
    """

    def __init__(
        self, code: str | None = None, *, path: str | None = None, options: Sequence[str] = (),
        backend: str = "nvrtc", translate_cucomplex: bool = False,
        name_expressions: Sequence[str] | None = None, **_: Any,
    ) -> None:  # fmt: skip
        if (code is None) == (path is None):
            raise TypeError("Exactly one of `code` and `path` keyword arguments must be given")
        if not isinstance(options, tuple | list):
            raise TypeError(f"options must be a tuple of strings, got {options!r}")
        if backend not in ("nvrtc", "nvcc"):
            raise ValueError(f"backend must be 'nvrtc' or 'nvcc', got {backend!r}")
        if translate_cucomplex and code is not None:
            code = _CUCOMPLEX.sub("#include <cupy/cucomplex.cuh>", code)
        self.code, self.file_path, self.options = code, path, tuple(options)
        self.backend, self.name_expressions = backend, tuple(name_expressions or ())
        self._loaded: Any = None

    @property
    def module(self) -> Any:
        """The compiled module."""
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded

    def _load(self) -> Any:
        path = self.file_path
        if path is not None and path.endswith(".ptx"):
            return load_ptx(Path(path).read_text("utf-8"))
        standard = next((m[1] for o in self.options if (m := _STANDARD.fullmatch(o))), "c++17")
        rest = [o for o in self.options if not _STANDARD.fullmatch(o)]
        source: Any = self.code if path is None else Path(path)
        return compiled(source, rest, standard)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_loaded": None}  # compiled again where it is unpickled

    def compile(self, log_stream: object = None) -> None:
        """Compile it now instead of at its first use."""
        _ = self.module

    def get_function(self, name: str) -> RawKernel:
        """Return a kernel by its C++ name; an instance of a template is compiled when asked for."""
        return RawKernel._of(self, name)

    def get_global(self, name: str) -> memory.MemoryPointer:
        """Return the address of a `__device__` or `__constant__` variable."""
        variable = self.module.variable(name, np.uint8)
        mem = memory.Memory(variable.nbytes)
        mem.adopt(variable)
        return memory.MemoryPointer(mem, 0)


class RawKernel:
    """A kernel of CUDA C++: kernel((blocks,), (threads,), (x, y, n), shared_mem=0)."""

    def __init__(self, code: str, name: str, options: Sequence[str] = (), **more: Any) -> None:
        self._module, self.name = RawModule(code, options=options, **more), name
        self._kernel: Any = None
        self.max_dynamic_shared_size_bytes = 0
        self.preferred_shared_memory_carveout = -1

    @classmethod
    def _of(cls, module: RawModule, name: str) -> RawKernel:
        made = cls.__new__(cls)
        made._module, made.name, made._kernel = module, name, module.module.kernel(name)
        made.max_dynamic_shared_size_bytes, made.preferred_shared_memory_carveout = 0, -1
        return made

    @property
    def kernel(self) -> Any:
        """The compiled kernel."""
        if self._kernel is None:
            self._kernel = self._module.module.kernel(self.name)
        return self._kernel

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_kernel": None}

    @property
    def code(self) -> str | None:
        return self._module.code

    @property
    def options(self) -> tuple[str, ...]:
        return self._module.options

    @property
    def backend(self) -> str:
        return self._module.backend

    @property
    def attributes(self) -> dict[str, int]:
        """The registers and memory that it needs."""
        found = self.kernel.resources
        version = int(Device().compute_capability)
        return {
            "max_threads_per_block": current.model().max_threads_per_block,
            "shared_size_bytes": self.kernel.static_shared,
            "const_size_bytes": found.constant_bytes, "num_regs": found.registers,
            "local_size_bytes": found.local_bytes, "cache_mode_ca": 0,
            "max_dynamic_shared_size_bytes": self.max_dynamic_shared_size_bytes,
            "preferred_shared_memory_carveout": self.preferred_shared_memory_carveout,
            "binary_version": version, "ptx_version": version,
        }  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        known = () if name.startswith("_") else self.attributes
        if name in known:
            return self.attributes[name]
        raise AttributeError(f"'cupy.RawKernel' object has no attribute {name!r}", name=name)

    def compile(self, log_stream: object = None) -> None:
        """Compile it now instead of at its first launch."""
        _ = self.kernel

    def __call__(
        self, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], *,
        shared_mem: int = 0, stream: object = None, enable_cooperative_groups: bool = False,
    ) -> None:  # fmt: skip
        types = self.kernel.packer.types
        wanted = [*types, *[None] * (len(args) - len(types))]
        given = [_argument(v, want) for v, want in zip(args, wanted, strict=False)]
        launch = self.kernel[tuple(grid), tuple(block), shared_mem]
        known = array_memory.known_by_address()
        with activity.on_stream(activity.handle(stream)):
            if known:
                launch.reaching(known, *given)
            else:
                launch(*given)


def _argument(value: Any, want: Any) -> Any:
    """Return an argument as weft's kernels take it."""
    if isinstance(value, ndarray):
        return array_memory.behind(value._host, value._memory)
    if isinstance(value, memory.MemoryPointer):
        value = value.ptr
    if isinstance(value, np.ndarray):
        if value.size != 1:
            raise TypeError(
                f"You are trying to pass a numpy.ndarray of shape {value.shape} as a kernel "
                "parameter. Only numpy.ndarrays of size one can be passed by value. Pass "
                "cupy.asarray(x) for a pointer to global memory."
            )
        return value.tobytes() if value.dtype.names else value.reshape(())[()]
    if want is not None and want.pointer and isinstance(value, int | np.integer):
        if not value:
            return None
        dtype = next((d for d in want.dtypes if d != "bfloat16"), "uint8")
        found = array_memory.at_address(int(value), dtype)
        if found is None:
            raise ArgumentError(
                "an address is not in memory that cupy allocated",
                got=f"{int(value):#x}",
                next="pass the cupy array itself, or x.data.ptr while x is alive",
            )
        return found
    return value
