"""weft: write GPU kernels from Python and run them, with or without a GPU."""

from weft.errors import (
    ArgumentError,
    AssertFailed,
    CacheError,
    CheckFailed,
    CompileError,
    Deadlock,
    DeviceError,
    Error,
    IllegalAddress,
    LaunchError,
    MisalignedAddress,
    MissingDependency,
    PtxError,
    TimeLimit,
    Trapped,
    UnsupportedInstruction,
)
from weft.frontends import kernel
from weft.kernels import Kernel, Launch, Module, cdiv, cuda, load_ptx, synchronize
from weft.measure import Case, Op, Profile, check, profile

__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "AssertFailed",
    "CacheError",
    "Case",
    "CheckFailed",
    "CompileError",
    "Deadlock",
    "DeviceError",
    "Error",
    "IllegalAddress",
    "Kernel",
    "Launch",
    "LaunchError",
    "MisalignedAddress",
    "MissingDependency",
    "Module",
    "Op",
    "Profile",
    "PtxError",
    "TimeLimit",
    "Trapped",
    "UnsupportedInstruction",
    "cdiv",
    "check",
    "cuda",
    "kernel",
    "load_ptx",
    "profile",
    "synchronize",
]
