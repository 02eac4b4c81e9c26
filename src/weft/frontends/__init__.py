"""Front ends: run kernels of other Python packages, scripts and whole programs on weft's devices.

A front end for functions is a package `weft/frontends/NAME/`, found by name. Its `__init__` does
not import the third-party package, and defines

    TAKES    top-level packages of the types that it accepts: "triton" for `triton.JITFunction`;
             "builtins" for plain functions
    AFTER    the module after whose import a script calls `install`
    kernel   kernel(fn, *, device, **options) -> a kernel that can be launched
    install  install(device): from now on that package's own launches run on the simulated GPU

A package with `AFTER` and `install` alone serves scripts: `extension`, `bindings`. `ALSO_AFTER` has
further modules, each with a function that is called like `install`. For each name in `SUPPLIES`,
a module `weft.NAME` stands in for the package of that name if it is not installed.

What `weft run` takes is a module with `run(path, args, *, device) -> exit code`; the verb has
a table of them by suffix.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable
from typing import Any, Protocol, cast

from weft.errors import ArgumentError


class FrontEnd(Protocol):
    """The names that the `__init__` of a front end for functions defines."""

    TAKES: tuple[str, ...]
    AFTER: str

    def kernel(self, fn: Any, *, device: str, **options: Any) -> Any: ...

    def install(self, device: str) -> None: ...


def kernel(fn: Any, *, device: str = "sim", **options: Any) -> Any:
    """Make a kernel of a `@triton.jit` function, a `@cuda.jit` kernel, or a plain Python function.

    fn        the function; Numba compiles a plain one
    device    the GPU to simulate, e.g. "sim:rtx3070"
    options   math="fast" for Triton; the options of `cuda.jit` for Numba

    >>> import numba.cuda as cuda
    >>> def add_one(x):
    ...     i = cuda.grid(1)
    ...     if i < x.size:
    ...         x[i] += 1
    >>> ones = np.ones(4, np.float32)
    >>> weft.kernel(add_one)[1, 32](ones)
    >>> print(ones)
    [2. 2. 2. 2.]
    """
    roots = [base.__module__.partition(".")[0] for base in type(fn).__mro__[:-1]]
    for end in front_ends().values():
        if any(root in end.TAKES for root in roots):
            return end.kernel(fn, device=device, **options)
    raise ArgumentError(
        "no front end takes this as a kernel",
        got=f"{type(fn).__module__}.{type(fn).__qualname__}",
        allowed=f"functions of {', '.join(front_ends())}",
        next="CUDA C++ is compiled by weft.cuda(source), PTX is loaded by weft.load_ptx(text)",
    )


@functools.cache
def front_ends() -> dict[str, FrontEnd]:
    """The packages in this folder that take functions, by name."""
    return {
        name: cast(FrontEnd, package)
        for name, package in _packages().items()
        if hasattr(package, "TAKES")
    }


def for_scripts() -> dict[str, Callable[[str], None]]:
    """Module -> what is called with the GPU's model after a script has imported it."""
    served = [package for package in _packages().values() if hasattr(package, "AFTER")]
    hooks = {package.AFTER: package.install for package in served}
    for package in served:
        hooks |= getattr(package, "ALSO_AFTER", {})
    return hooks


def supplied() -> dict[str, str]:
    """Package -> weft's module that stands in for it where it is not installed."""
    names = (name for end in _packages().values() for name in getattr(end, "SUPPLIES", ()))
    return {name: f"weft.{name}" for name in names}


@functools.cache
def _packages() -> dict[str, Any]:
    names = (m.name for m in pkgutil.iter_modules(__path__) if m.ispkg)
    return {name: importlib.import_module(f"{__name__}.{name}") for name in names}
