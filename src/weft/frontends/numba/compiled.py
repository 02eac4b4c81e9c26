"""Launches kernels compiled by Numba on the simulated GPU.

Numba does everything up to PTX: types, overloads, device functions, caching.
"""

from __future__ import annotations

import functools
import inspect
import linecache
import os
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numba
import numpy as np
from cuda.core._utils.cuda_utils import CUDAError
from numba.cuda import dispatcher, types
from numba.cuda.core.errors import NumbaDebugInfoWarning

from weft.device import models
from weft.device.models import GpuModel
from weft.errors import LaunchError
from weft.frontends import activity
from weft.frontends.numba import link
from weft.frontends.numba.context import capability, compiling_for
from weft.frontends.numba.driver import reachable
from weft.frontends.numba.image import NumbaImage
from weft.frontends.numba.loaded import Loaded
from weft.values import Ptx

_LIBRARIES = tuple(str(Path(m.__file__).parent) + os.sep for m in (numba, dispatcher))


_Kernel: Any = dispatcher._Kernel  # Numba's own, whatever is put in its place later


class InvalidLaunch(LaunchError, CUDAError):  # type: ignore[misc]
    """A launch that no GPU takes, as weft's error and as the one that a script may expect."""

    def __init__(self, error: LaunchError) -> None:
        what = f"CUDA_ERROR_INVALID_VALUE: {error.what}"
        LaunchError.__init__(
            self, what, where=error.where, got=error.got, allowed=error.allowed, next=error.next
        )


class SimKernel(_Kernel):  # type: ignore[misc]
    """An overload that runs on a simulated GPU."""

    model: GpuModel = models.get(models.DEFAULT)
    _loaded: Loaded | None = None

    def __init__(self, py_func: Any, argtypes: Any, **options: Any) -> None:
        readable = linecache.getlines(py_func.__code__.co_filename)
        # Numba's line information fails for an empty tuple.
        readable = readable if not any(map(_has_empty_tuple, argtypes)) else []
        # Interactive functions have no file, and debug already includes line information.
        asked = options.get("lineinfo") or options.get("debug")
        options["lineinfo"] = bool(readable) and not options.get("debug")  # errors name the line
        with compiling_for(self.model), warnings.catch_warnings():
            if not asked:  # of a lambda, Numba finds no line
                warnings.simplefilter("ignore", NumbaDebugInfoWarning)
            super().__init__(py_func, argtypes, **options)

    @classmethod
    def _rebuild(cls, **states: Any) -> Any:
        """Restore a kernel from Numba's cache on disk."""
        kernel = _Kernel._rebuild(**states)
        kernel.__class__ = cls
        return kernel

    def bind(self) -> None:
        """Load PTX in place of machine code; Numba's method calls its callbacks, reports errors."""
        library = self.library
        machine = library.get_cubin
        library.get_cubin = lambda cc=None: machine(cc) if cc is not None else self.image
        super().bind()

    def launch(
        self, args: Any, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0
    ) -> None:
        """Replace Numba's launch."""
        try:
            with activity.on_stream(activity.handle(stream or 0)):
                self.run(args, (griddim, blockdim, sharedmem))
        except LaunchError as error:
            raise InvalidLaunch(error) from None

    def run(
        self,
        args: Sequence[Any],
        config: Any,
        time_limit: float | None = None,
        sanitize: bool = False,
    ) -> None:
        """Run a grid and return when it is done."""
        after: list[Callable[[], object]] = []
        kernel, values = self.prepare(args, after)
        if self.debug:
            kernel.status("errcode")[:] = 0
        kernel[config](*values, time_limit=time_limit, sanitize=sanitize)
        if self.debug:
            self._raise_error(kernel)
        for write_back in after:
            write_back()

    def prepare(
        self, args: Sequence[Any], after: list[Callable[[], object]]
    ) -> tuple[Loaded, Sequence[Any]]:
        """(kernel, arguments after extensions); `after` collects functions to call after a run."""
        args = [_aligned(a, after) if isinstance(a, np.ndarray) else a for a in args]
        if not self.extensions:
            return self.load(self.argument_types), args
        types, values = list(self.argument_types), list(args)
        for extension in reversed(self.extensions):
            for i, (ty, value) in enumerate(zip(types, values, strict=True)):
                types[i], values[i] = extension.prepare_args(ty, value, stream=0, retr=after)
        return self.load(types), values

    def load(self, types: Sequence[Any] | None = None) -> Loaded:
        """Load the kernel on the simulated GPU; `types` are argument types after extensions."""
        if self._loaded is None:
            types = types or self.argument_types
            names = self.argument_names or [f"arg{i}" for i in range(len(types))]
            captured = list(self.library.referenced_objects.values())
            # Pointers, and whatever linked code keeps, are addresses without an array.
            raw = bool(self.library._linking_files) or any(map(_has_pointer, types))
            reach = reachable if raw else list
            self._loaded = Loaded(self.image, names, types, captured, reach)
        return self._loaded

    @functools.cached_property
    def image(self) -> NumbaImage:
        """The linked code.

        Numba's name of the entry contains a counter of compilations. A plain name makes the cache
        key of compiled code stable.
        """
        text = link.link(self.library, self.model)
        mangled, plain = self.entry_name, self.function_name
        if not plain.isidentifier() or re.search(rf"(?<![\w$%.]){plain}\b", text):
            plain = mangled
        text = text.replace(mangled, plain)
        ptx = Ptx(
            text, self.model.compile_for, self._origin, {self.function_name: plain}, {},
            _sources(text),
        )  # fmt: skip
        most = self.library._max_registers
        return NumbaImage(ptx, self.model, {mangled: plain}, self._machine, most)

    def _machine(self) -> bytes:
        cubin = self.library.get_cubin((*capability(self.model), ""))
        return bytes(cubin.code)

    # ---- what Numba says of the function; of one from its cache less is known ----------------
    @property
    def function_name(self) -> str:
        qualified = self.fndesc.qualname if self._fresh else self.library.name
        return str(qualified.rpartition(".")[2])

    @property
    def argument_names(self) -> list[str]:
        return list(self.fndesc.args) if self._fresh else []

    @property
    def _origin(self) -> str:
        return inspect.getfile(self.py_func) if self._fresh else "<numba>"

    @property
    def _fresh(self) -> bool:
        return hasattr(self, "fndesc")

    # ---- errors that kernels compiled with debug=True leave behind ---------------------------
    def _raise_error(self, kernel: Loaded) -> None:
        """Raise the exception of the kernel, with the position of the thread."""
        code = int(kernel.status("errcode")[0])
        if not code:
            return
        thread, block = (
            [int(kernel.status(f"{what}{axis}")[0]) for axis in "zyx"] for what in ("tid", "ctaid")
        )
        kind, arguments, line = self.call_helper.get_exception(code)
        # Numba's own words, which programs may look for.
        where = f"In function {line[0]!r}, file {line[1]}, line {line[2]}, " if line else ""
        place = f"{where}tid={thread} ctaid={block}"
        first = (f"{place}: {arguments[0]}", *arguments[1:]) if arguments else (place,)
        raise kind(*first)


def _aligned(a: np.ndarray[Any, Any], after: list[Callable[[], object]]) -> np.ndarray[Any, Any]:
    """The array, or a copy that has an aligned address, as Numba's copy on a GPU has."""
    if a.flags.aligned:
        return a
    copied = a.copy()
    if a.flags.writeable:
        after.append(lambda: np.copyto(a, copied))
    return copied


def _has_empty_tuple(ty: Any) -> bool:
    return isinstance(ty, types.BaseTuple) and (not len(ty) or any(map(_has_empty_tuple, ty)))


def _has_pointer(ty: Any) -> bool:
    if isinstance(ty, types.BaseTuple):
        return any(map(_has_pointer, ty))
    return isinstance(ty, types.CPointer | types.RawPointer)


@functools.cache
def kernel_class(gpu: str) -> type[SimKernel]:
    """Compiled kernels of one simulated GPU."""
    return type("SimKernel", (SimKernel,), {"model": models.get(gpu), "__module__": __name__})


def _sources(text: str) -> dict[str, str]:
    """The user's own files, to quote lines in errors; not those of Numba."""
    files = re.findall(r'^\s*\.file\s+\d+\s+"([^"\n]*)"', text, re.MULTILINE)
    user_files = [f for f in files if not f.startswith(_LIBRARIES)]
    return {f: "".join(linecache.getlines(f)) for f in user_files}
