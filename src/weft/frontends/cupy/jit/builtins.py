"""Names that kernels of `cupyx.jit` use, and their C++."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.frontends.cupy.parameters import c_name


class Code(str):
    """An expression in C++."""


class Builtin:
    """A name that has a meaning in kernels only."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError(f"cupyx.jit.{self.name} can be called in kernels of cupyx.jit only")

    def call(self, args: Sequence[Any], options: dict[str, Any], code: Any) -> Any:
        """Return the C++ of a call; `code` converts an argument to C++."""
        raise NotImplementedError


class _Function(Builtin):
    """A function of C++ with the same arguments; options follow in their order."""

    def __init__(self, name: str, cpp: str, options: Sequence[str] = ()) -> None:
        super().__init__(name)
        self._cpp, self._options = cpp, options

    def call(self, args: Sequence[Any], options: dict[str, Any], code: Any) -> Any:
        extra = [options.pop(n) for n in self._options if n in options]
        if options:
            raise TypeError(f"cupyx.jit.{self.name} has no argument {next(iter(options))!r}")
        return Code(f"{self._cpp}({', '.join(map(code, (*args, *extra)))})")


class _Atomic(Builtin):
    """An atomic function of an array, an index and one or two values."""

    def call(self, args: Sequence[Any], options: dict[str, Any], code: Any) -> Any:
        array, index, *values = args
        parts = index if isinstance(index, tuple) else (index,)
        place = f"&weft_jit::at({', '.join(map(code, (array, *parts)))})"
        return Code(f"weft_jit::{self.name}({', '.join((place, *map(code, values)))})")


class _Grid(Builtin):
    """The position of a thread in the grid, or the number of threads, for 1 to 3 axes."""

    def __init__(self, name: str, cpp: str) -> None:
        super().__init__(name)
        self._cpp = cpp

    def call(self, args: Sequence[Any], options: dict[str, Any], code: Any) -> Any:
        (ndim,) = args
        if not isinstance(ndim, int):
            raise TypeError(f"cupyx.jit.{self.name} takes an integer, got {ndim!r}")
        if ndim not in (1, 2, 3):
            raise ValueError(f"cupyx.jit.{self.name} takes 1, 2 or 3, got {ndim!r}")
        axes = tuple(Code(self._cpp.format(a=a)) for a in "xyz"[:ndim])
        return axes[0] if ndim == 1 else axes


class Index(Builtin):
    """A variable with the members x, y and z."""

    def __getattr__(self, axis: str) -> Code:
        if axis not in ("x", "y", "z"):
            raise AttributeError(f"cupyx.jit.{self.name} has no attribute {axis!r}", name=axis)
        return Code(f"{self.name}.{axis}")


class SharedMemory(Builtin):
    """`smem = jit.shared_memory(dtype, size)` declares an array; size None: dynamic memory."""

    @staticmethod
    def declaration(name: str, dtype: Any, size: Any, alignment: Any = None) -> str:
        kind = c_name(np.dtype(dtype))
        align = f"__align__({alignment}) " if alignment else ""
        if size is None:
            return (
                f"extern __shared__ {align}unsigned char {name}_bytes[];\n"
                f"    {kind} *{name} = reinterpret_cast<{kind} *>({name}_bytes);"
            )
        return f"__shared__ {align}{kind} {name}[{int(size)}];"


class Range(Builtin):
    """`jit.range(..., unroll=n)`: the range of a loop that the compiler unrolls."""


_WIDTH = ("width",)
_BUILTINS: list[Builtin] = [
    *(Index(name) for name in ("threadIdx", "blockIdx", "blockDim", "gridDim")),
    *(
        _Atomic(f"atomic_{word}")
        for word in ("add", "sub", "exch", "min", "max", "inc", "dec", "cas", "and", "or", "xor")
    ),
    *(
        _Function(f"shfl_{word}sync", f"__shfl_{word}sync", _WIDTH)
        for word in ("", "up_", "down_", "xor_")
    ),
    _Function("syncthreads", "__syncthreads"),
    _Function("syncwarp", "__syncwarp", ("mask",)),
    _Function("laneid", "weft_jit::laneid"),
    _Grid("grid", "(threadIdx.{a} + blockIdx.{a} * blockDim.{a})"),
    _Grid("gridsize", "(blockDim.{a} * gridDim.{a})"),
    SharedMemory("shared_memory"),
    Range("range"),
]
NAMES: dict[str, Any] = {b.name: b for b in _BUILTINS} | {"warpsize": Code("warpSize")}
