"""Numba functions as weft kernels: `k[grid, block, shared_mem, stream](*args)`."""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numba import cuda
from numba.core.errors import NumbaError
from numba.cuda import api
from numba.cuda.cext import _dispatcher
from numba.cuda.core import sigutils
from numba.cuda.core.errors import NumbaError as CudaNumbaError
from numba.cuda.dispatcher import CUDADispatcher

from weft.device import devices
from weft.device.models import GpuModel
from weft.device.time_limit import limited, within
from weft.errors import ArgumentError, CompileError, LaunchError
from weft.frontends.numba import seams
from weft.frontends.numba.compiled import SimKernel, kernel_class
from weft.kernels import Indexed, Kernel, Plain
from weft.kernels.argument_names import in_order
from weft.kernels.suggest import unexpected
from weft.source.resources import Resources

_REFUSALS = (NumbaError, CudaNumbaError)
"""Compile errors of Numba and of its CUDA target."""


class _Dispatcher(CUDADispatcher):  # type: ignore[misc]
    """Numba's dispatcher, whose overloads run on a simulated GPU."""

    def __init__(self, fn: Any, options: dict[str, Any], model: GpuModel) -> None:
        super().__init__(fn, targetoptions=options)
        self.kernel_class = kernel_class(model.key)

    def compile(self, sig: Any) -> SimKernel:
        argtypes, _ = sigutils.normalize_signature(sig)
        overload: SimKernel | None = self.overloads.get(argtypes)
        if overload is None:
            if not self._can_compile:
                raise RuntimeError("Compilation disabled")
            overload = self.kernel_class(self.py_func, argtypes, **self.targetoptions)
            self.add_overload(overload, argtypes)
        return overload

    def choose(self, args: Any) -> SimKernel:
        """The overload for these arguments, compiled if necessary."""
        chosen: SimKernel = _dispatcher.Dispatcher._cuda_call(self, *args)
        return chosen


class NumbaKernel(Indexed["NumbaLaunch"]):
    """A function that is compiled for the types of its arguments when it is launched."""

    def __init__(self, fn: Any, model: GpuModel, options: dict[str, Any]) -> None:
        made = fn if isinstance(fn, CUDADispatcher) else None
        if made is None and hasattr(fn, "py_func"):
            raise ArgumentError(
                "this function was compiled for the CPU",
                got=f"{type(fn).__name__} {fn.__name__}",
                next="give the plain function, or decorate it with @cuda.jit",
            )
        settings = dict((made or cuda.jit(fn)).targetoptions) | options
        if settings.get("device"):
            raise ArgumentError(
                f"{fn.__name__} is a device function: kernels call it, and it cannot be launched",
                got="@cuda.jit(device=True)",
                next="launch a kernel that calls it",
            )
        self.name = str(fn.__name__)
        self.model = model
        self._original = made
        self._options = options
        self._dispatcher = _Dispatcher(made.py_func if made else fn, settings, model)
        about = inspect.signature(self._dispatcher.py_func).parameters
        self.parameters = list(about)
        self._variadic = any(p.kind is p.VAR_POSITIONAL for p in about.values())
        # Explicit signatures forbid further overloads, here as well.
        if made is not None and not made._can_compile:
            for argtypes in made.overloads:
                self.compile(argtypes)
            self._dispatcher.disable_compile()

    def __repr__(self) -> str:
        return f"<weft.NumbaKernel {self.name}, {len(self.overloads)} compiled>"

    def _configured(
        self, grid: Any, block: Any, shared_mem: Any, stream: object, cluster: Any
    ) -> NumbaLaunch:
        if cluster is not None:
            raise LaunchError(
                f"{self.name}: Numba has no clusters of blocks",
                got=f"cluster {cluster}",
                allowed="a launch without a cluster",
            )
        if stream is not None:
            devices.check_stream(stream)
        return NumbaLaunch(self, (grid, block, shared_mem), stream)

    # ---- compiled code ----------------------------------------------------------------------
    def compile(self, signature: Any) -> Kernel:
        """The kernel for argument types, e.g. "void(float32[:], int32)"."""
        try:
            return self._dispatcher.compile(signature).load()
        except _REFUSALS as error:
            raise self._refused(error) from error

    def overload(self, args: Sequence[Any]) -> SimKernel:
        """The overload for these arguments, compiled if necessary."""
        self.names(args, {})
        try:
            return self._dispatcher.choose(args)
        except (TypeError, ValueError) as error:
            raise self._unknown(args) or error from error
        except _REFUSALS as error:
            raise self._refused(error) from error

    def names(self, args: Sequence[Any], options: Mapping[str, Any]) -> list[str]:
        """Names of the arguments; those of `*rest` are rest[0], rest[1] and so on."""
        names, takes = self.parameters, f"{self.name}({', '.join(self.parameters)})"
        if self._variadic:
            *fixed, rest = names
            names = [*fixed, *(f"{rest}[{i}]" for i in range(len(args) - len(fixed)))]
        return in_order(self.name, names, args, options, takes)

    @property
    def overloads(self) -> dict[str, Kernel]:
        """All compiled overloads by argument types."""
        compiled: dict[Any, SimKernel] = self._dispatcher.overloads
        return {", ".join(map(str, types)): made.load() for types, made in compiled.items()}

    @property
    def ptx(self) -> str:
        """The PTX of the only overload."""
        return self._only().ptx

    @property
    def resources(self) -> Resources:
        """The registers, spills and shared memory of the only overload."""
        return self._only().resources

    def _only(self) -> Kernel:
        overloads = self.overloads
        if len(overloads) != 1:
            raise LaunchError(
                f"{self.name} was compiled for {len(overloads)} sets of argument types",
                got="; ".join(overloads) or "none so far",
                allowed="one, so that it is clear which is meant",
                next='say which: k.compile("void(float32[:], int32)").ptx',
            )
        return next(iter(overloads.values()))

    def _unknown(self, args: Sequence[Any]) -> ArgumentError | None:
        """The argument that Numba has no type for."""
        for name, value in zip(self.parameters, args, strict=False):
            try:
                self._dispatcher.typeof_pyval(value)
            except ValueError:
                return ArgumentError(
                    f"argument '{name}' of {self.name}: Numba has no type for it",
                    got=type(value).__name__,
                    allowed="arrays, numbers, tuples, NumPy records, enums",
                )
        return None

    def _refused(self, error: Exception) -> CompileError:
        log = str(error)
        lines = [x.strip() for x in log.splitlines() if x.strip()]
        refusal = CompileError(
            f"Numba cannot compile {self.name}", where=_place(lines), got="\n  ".join(lines[:6])
        )
        refusal.log = log
        return refusal

    # ---- a real GPU -------------------------------------------------------------------------
    @functools.cached_property
    def on_gpu(self) -> Any:
        """Numba's own dispatcher, for arrays on a GPU."""
        original = self._original
        if original is not None and not self._options:
            return original
        return cuda.jit(**self._options)(self._dispatcher.py_func)


class NumbaLaunch:
    """A kernel with its grid; call it with the arguments."""

    __slots__ = ("_shape", "_stream", "kernel")

    def __init__(self, kernel: NumbaKernel, shape: tuple[Any, Any, Any], stream: object) -> None:
        """`shape` is the grid, the block and the bytes of dynamic shared memory."""
        self.kernel, self._shape, self._stream = kernel, shape, stream

    @property
    def name(self) -> str:
        return self.kernel.name

    @property
    def threads(self) -> int:
        """Threads per block."""
        return math.prod(np.atleast_1d(self._shape[1]).tolist())

    def names(self, args: Sequence[Any], options: Mapping[str, Any]) -> list[str]:
        """Names of the arguments, in order."""
        return self.kernel.names(args, options)

    def __call__(
        self, *args: Any, time_limit: float | None = None, sanitize: bool = False, **named: Any
    ) -> None:
        """Run the grid and return when it is done; with `sanitize` every access is checked."""
        if named:
            raise unexpected(self.name, named, ("time_limit", "sanitize"))
        kernel, limit = self.kernel, limited(time_limit)
        values = [a if type(a) in _PLAIN else _as_numpy(a) for a in args]
        if not seams.installed() and any(map(api.is_cuda_array, values)):
            if sanitize:
                raise self._elsewhere("sanitized")
            grid, block, shared = self._shape
            kernel.on_gpu[grid, block, self._stream or 0, shared](*args)
            return
        compiled = within(limit, self.name, lambda: kernel.overload(values))
        compiled.run(values, self._shape, limit, sanitize)

    def plain(self, *args: Any) -> Plain:
        """The launch of the overload for these arguments, for checks and profiles."""
        values = [_as_numpy(a) for a in args]
        if not seams.installed() and any(map(api.is_cuda_array, values)):
            raise self._elsewhere("observed")
        loaded, arguments = self.kernel.overload(values).prepare(values, [])
        return loaded[self._shape], arguments

    def _elsewhere(self, what: str) -> ArgumentError:
        return ArgumentError(
            f"{self.name} can be {what} on the simulated GPU only",
            got="arrays on a real GPU",
            next="pass copies on the CPU: x.copy_to_host()",
        )


_PLAIN = frozenset((np.ndarray, int, float, bool))


def _as_numpy(value: Any) -> Any:
    """CPU tensors as NumPy arrays of the same memory; Numba has types for cuda.core's memory."""
    tensor = hasattr(value, "__dlpack__") and hasattr(value, "__array__")
    known = isinstance(value, np.ndarray | np.generic)
    if not tensor or known or api.is_cuda_array(value):
        return value
    return np.asarray(value)


def _place(lines: Sequence[str]) -> str:
    """The location in Numba's error message."""
    for line in lines:
        if match := re.match(r'File "(.+)", line (\d+)', line):
            return f"{match[1]}:{match[2]}"
    return ""
