"""weft: write GPU kernels from Python and run them, with or without a GPU."""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from weft.errors import (
    ArgumentError,
    AssertFailed,
    CacheError,
    CacheWarning,
    CheckFailed,
    CompileError,
    CompileWarning,
    Deadlock,
    DeviceError,
    Error,
    IllegalAddress,
    InvalidFree,
    LaunchError,
    MisalignedAddress,
    MissingDependency,
    NoCounters,
    OutOfMemory,
    PtxError,
    SanitizerError,
    TimeLimit,
    Trapped,
    UnsupportedInstruction,
)

if _TYPE_CHECKING:  # what a type checker reads; at run time `_LAZY` says the same
    from weft.frontends import kernel
    from weft.kernels import Kernel, Launch, Module, cdiv, cuda, load_ptx, synchronize
    from weft.kernels.sanitize import empty, filled, sanitize
    from weft.measure import Case, Contender, Op
    from weft.measure.bench.bench import bench
    from weft.measure.check.check import check
    from weft.ops import as_op
    from weft.report import Profile, profile

_LAZY = {
    "weft.frontends": ("kernel",),
    "weft.kernels": ("Kernel", "Launch", "Module", "cdiv", "cuda", "load_ptx", "synchronize"),
    "weft.kernels.sanitize": ("empty", "filled", "sanitize"),
    "weft.measure": ("Case", "Contender", "Op"),
    "weft.measure.bench.bench": ("bench",),
    "weft.measure.check.check": ("check",),
    "weft.ops": ("as_op",),
    "weft.report": ("Profile", "profile"),
}
"""Module -> public names that are imported on first use: `import weft` loads no NumPy."""
_HOME = {name: module for module, names in _LAZY.items() for name in names}
_PACKAGES = ("device", "frontends", "kernels", "measure", "ops", "report", "source")
"""Packages that `import weft` makes reachable, e.g. `weft.ops.softmax(x)`."""


def __getattr__(name: str) -> _Any:
    if name in _PACKAGES:
        return _importlib.import_module(f"weft.{name}")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(_importlib.import_module(_HOME[name]), name)
    globals()[name] = value  # the next use is a plain lookup
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_PACKAGES})


def load_ipython_extension(shell: _Any) -> None:
    """`%load_ext weft`: the cell magic `%%cuda`."""
    _importlib.import_module("weft.notebook").register(shell)  # by its name: only notebooks need it


__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "AssertFailed",
    "CacheError",
    "CacheWarning",
    "Case",
    "CheckFailed",
    "CompileError",
    "CompileWarning",
    "Contender",
    "Deadlock",
    "DeviceError",
    "Error",
    "IllegalAddress",
    "InvalidFree",
    "Kernel",
    "Launch",
    "LaunchError",
    "MisalignedAddress",
    "MissingDependency",
    "Module",
    "NoCounters",
    "Op",
    "OutOfMemory",
    "Profile",
    "PtxError",
    "SanitizerError",
    "TimeLimit",
    "Trapped",
    "UnsupportedInstruction",
    "as_op",
    "bench",
    "cdiv",
    "check",
    "cuda",
    "empty",
    "filled",
    "kernel",
    "load_ptx",
    "profile",
    "sanitize",
    "synchronize",
]
