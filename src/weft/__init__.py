"""weft: write GPU kernels from Python and run them, with or without a GPU."""

import importlib as _importlib
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
from weft.frontends import kernel
from weft.kernels import Kernel, Launch, Module, cdiv, cuda, load_ptx, synchronize
from weft.kernels.sanitize import empty, filled, sanitize
from weft.measure import Case, Contender, Op
from weft.measure.bench.bench import bench
from weft.measure.check.check import check
from weft.ops import as_op
from weft.report import Profile, profile


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
