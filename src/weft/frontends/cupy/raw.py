"""RawKernel and RawModule: CUDA C++ that is launched as kernel(grid, block, arguments)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import ArgumentError
from weft.kernels import cuda, load_ptx

_STANDARD = re.compile(r"-{1,2}std=(.+)")


class RawModule:
    """A module of CUDA C++.

    code, path        the source, or a file with it (.cu, .ptx)
    options           for NVRTC: ("-DN=4", "-Iinclude", "--std=c++17")
    name_expressions  instances of templates
    """

    def __init__(
        self, code: str | None = None, *, path: str | None = None, options: Sequence[str] = (),
        backend: str = "nvrtc", name_expressions: Sequence[str] | None = None, **_: Any,
    ) -> None:  # fmt: skip
        if (code is None) == (path is None):
            raise ArgumentError(
                "a module has a source or a path", got=f"code={code!r}, path={path!r}"
            )
        if path is not None and path.endswith(".ptx"):
            self._module: Any = load_ptx(Path(path).read_text(encoding="utf-8"))
        else:
            standard = next((m[1] for o in options if (m := _STANDARD.fullmatch(o))), "c++17")
            rest = [o for o in options if not _STANDARD.fullmatch(o)]
            source: Any = code if path is None else Path(path)
            self._module = cuda(source, std=standard, options=rest)
        self.name_expressions = tuple(name_expressions or ())

    def get_function(self, name: str) -> RawKernel:
        """A kernel by its C++ name; an instance of a template is compiled when it is asked for."""
        return RawKernel._of(self._module.kernel(name), name)

    def get_global(self, name: str) -> Any:
        """A `__device__` or `__constant__` variable: an object with its address, as `.ptr`."""
        return Memory(self._module.variable(name, np.uint8))


class Memory:
    """The memory of a variable."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array, self.ptr, self.size = array, array.ctypes.data, array.nbytes

    def copy_from_host(self, values: Any, size: int | None = None) -> None:
        """Writes the variable."""
        data = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
        self.array[: len(data)] = data


class RawKernel:
    """A kernel of CUDA C++: kernel((blocks,), (threads,), (x, y, n), shared_mem=0)."""

    def __init__(self, code: str, name: str, options: Sequence[str] = (), **more: Any) -> None:
        self.kernel: Any = RawModule(code, options=options, **more)._module.kernel(name)
        self.name = name
        self.max_dynamic_shared_size_bytes = 0

    @classmethod
    def _of(cls, kernel: Any, name: str) -> RawKernel:
        made = cls.__new__(cls)
        made.kernel, made.name, made.max_dynamic_shared_size_bytes = kernel, name, 0
        return made

    def __call__(
        self, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], *,
        shared_mem: int = 0, stream: object = None,
    ) -> None:  # fmt: skip
        self.kernel[tuple(grid), tuple(block), shared_mem](*args)

    def compile(self, log_stream: object = None) -> None:
        """Does nothing: the kernel is compiled already."""
