"""`cupyx.jit.rawkernel`: a kernel in Python, compiled for the types of its arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.frontends.cupy import array_memory
from weft.frontends.cupy.arrays import ndarray
from weft.frontends.cupy.compiled import generated
from weft.frontends.cupy.jit.translate import TranslatedProgram
from weft.frontends.cupy.parameters import c_name, with_types


def rawkernel(*, mode: str = "cuda", device: bool = False) -> Callable[[Any], RawKernel]:
    """Make a kernel of a Python function.

    mode     "cuda": numbers of Python are int and float; "numpy": they have 64 bits
    device   a function that kernels call
    """
    if mode not in ("cuda", "numpy"):
        raise ValueError(f"cupyx.jit.rawkernel: mode must be 'cuda' or 'numpy', got {mode!r}")
    return lambda function: RawKernel(function, mode, device)


class RawKernel:
    """A kernel in Python: kernel[grid, block](x, y), or kernel((grid,), (block,), (x, y))."""

    __cupyx_jit__ = True

    def __init__(self, function: Any, mode: str, device: bool) -> None:
        self.function, self._mode, self._is_device = function, mode, device
        self._compiled: dict[tuple[str, ...], tuple[str, Any]] = {}
        functools.update_wrapper(self, function)

    def __getitem__(self, config: Any) -> Callable[..., None]:
        grid, block, *more = config
        grids = grid if isinstance(grid, tuple) else (grid,)
        blocks = block if isinstance(block, tuple) else (block,)
        shared = {"shared_mem": more[0]} if more else {}
        return lambda *args: self(grids, blocks, args, **shared)

    def __call__(
        self, grid: Any, block: Any = None, args: Sequence[Any] = (), shared_mem: int = 0,
        stream: object = None,
    ) -> None:  # fmt: skip
        if self._is_device:
            raise RuntimeError(f"{self.function.__name__} is a device function of cupyx.jit")
        values = [self._typed(a) for a in args]
        key = tuple(_type(v) for v in values)
        if key not in self._compiled:
            self._compiled[key] = self._compile(values)
        kernel = self._compiled[key][1]
        grids, blocks = (tuple(map(int, d)) for d in (grid, block))
        kernel[grids, blocks, shared_mem](*(part for v in values for part in _parts(v)))

    @property
    def cached_codes(self) -> dict[tuple[str, ...], str]:
        """The CUDA C++ for the types of the arguments so far."""
        return {types: source for types, (source, _) in self._compiled.items()}

    @property
    def cached_code(self) -> str | None:
        """The CUDA C++ of the last compilation."""
        return next(reversed(self.cached_codes.values()), None)

    def _typed(self, value: Any) -> Any:
        """Return an array, or a scalar of NumPy with the dtype that it has in the kernel."""
        if isinstance(value, ndarray | np.generic):
            return value
        if isinstance(value, bool):
            return np.bool_(value)
        wide = self._mode == "numpy"
        if isinstance(value, int):
            return (np.int32 if not wide and -(2**31) <= value < 2**31 else np.int64)(value)
        if isinstance(value, float):
            return (np.float64 if wide else np.float32)(value)
        if isinstance(value, complex):
            return (np.complex128 if wide else np.complex64)(value)
        raise TypeError(f"{type(value)} is not supported as an argument of a cupyx.jit kernel")

    def _compile(self, values: Sequence[Any]) -> tuple[str, Any]:
        names = self.function.__code__.co_varnames[: self.function.__code__.co_argcount]
        if len(names) != len(values):
            raise TypeError(
                f"{self.function.__name__}() takes {len(names)} arguments, got {len(values)}"
            )
        parameters, given = [], ""
        for name, value in zip(names, values, strict=True):
            ctype = c_name(value.dtype)
            if not isinstance(value, ndarray):
                parameters.append(f"{ctype} v_{name}")
                continue
            n = value.ndim
            lengths = [f"{name}_n", *(f"{name}_n{i}" for i in range(n)),
                       *(f"{name}_s{i}" for i in range(n))]  # fmt: skip
            parameters += [f"{ctype} *{name}_p", *(f"long long {each}" for each in lengths)]
            axes = "".join(f", {{{', '.join(lengths[1 + k * n : 1 + k * n + n])}}}" for k in (0, 1))
            fields = f"{name}_p, {name}_n{axes if n else ''}"
            given += f"    const weft_jit::Array<{ctype}, {n}> v_{name}{{{fields}}};\n"
        name = self.function.__name__
        source = TranslatedProgram(self._mode).kernel(
            self.function, name, ", ".join(parameters), given
        )
        source = with_types(source, {})
        return source, generated(source).kernel(name)


def _type(value: Any) -> str:
    return f"{value.dtype.name}[{value.ndim}]" if isinstance(value, ndarray) else value.dtype.name


def _parts(value: Any) -> list[Any]:
    """Return the arguments for one value: an array is its memory, size, shape and strides."""
    if not isinstance(value, ndarray):
        return [value.tobytes() if value.dtype.kind == "c" else value]
    host = value._host
    return [array_memory.behind(host, value._memory), host.size, *host.shape, *host.strides]
