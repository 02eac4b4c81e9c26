"""weft: write GPU kernels from Python and run them, with or without a GPU.

PYTEST_DONT_REWRITE: `weft run -m pytest` imports weft before pytest does, which warns otherwise.
"""

import importlib as _importlib
import typing as _typing
import warnings as _warnings

from weft import hooks as _hooks
from weft.errors import (
    ArgumentError,
    AssertFailed,
    CacheError,
    CacheWarning,
    CaptureError,
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

if _typing.TYPE_CHECKING:  # what a type checker reads; at run time `_LAZY` says the same
    from weft import distributed, init, llm, nn, ops, optim, quant, sanitizer, sparse
    from weft.climbing.entry import climb
    from weft.climbing.records import Climb
    from weft.debug import Breakpoint, Debugger, breakpoint
    from weft.device.sim.schedules import schedule
    from weft.device.tensor_map import TensorMap
    from weft.frontends import kernel
    from weft.frontends.textures.objects import Surface, Texture, surface, texture
    from weft.kernels import Kernel, Launch, Module, cdiv, cuda, load_ptx, synchronize
    from weft.kernels.tensor_map import im2col_map, tensor_map
    from weft.measure import Bench, Case, Contender, Op, Report
    from weft.measure.bench.bench import bench
    from weft.measure.check.check import check
    from weft.measure.parallel.predict import ParallelPrediction, predict_parallel
    from weft.measure.profile.difference import Changes
    from weft.measure.profile.entry import profile
    from weft.measure.profile.result import Profile
    from weft.ops import as_op
    from weft.ops.fuse import fuse
    from weft.ops.graph import graph
    from weft.sanitizer import sanitize
    from weft.torch_backend import explain
    from weft.values.analysis import Advice, Roofline, Section
    from weft.values.check import Verdict
    from weft.values.climb import RungResult
    from weft.values.time.parallel import ParallelRow
    from weft.values.time.prediction import LineStalls, Prediction
    from weft.values.timing import Timing

_LAZY = {
    "weft.climbing.records": ("Climb",),
    "weft.climbing.entry": ("climb",),
    "weft.debug": ("Breakpoint", "Debugger", "breakpoint"),
    "weft.device.sim.schedules": ("schedule",),
    "weft.device.tensor_map": ("TensorMap",),
    "weft.frontends": ("kernel",),
    "weft.frontends.textures.objects": ("Surface", "Texture", "surface", "texture"),
    "weft.kernels": ("Kernel", "Launch", "Module", "cdiv", "cuda", "load_ptx", "synchronize"),
    "weft.kernels.tensor_map": ("im2col_map", "tensor_map"),
    "weft.measure": ("Bench", "Case", "Contender", "Op", "Report"),
    "weft.measure.bench.bench": ("bench",),
    "weft.measure.check.check": ("check",),
    "weft.measure.parallel.predict": ("ParallelPrediction", "predict_parallel"),
    "weft.measure.profile.difference": ("Changes",),
    "weft.measure.profile.entry": ("profile",),
    "weft.measure.profile.result": ("Profile",),
    "weft.ops": ("as_op",),
    "weft.ops.fuse": ("fuse",),
    "weft.ops.graph": ("graph",),
    "weft.sanitizer": ("sanitize",),
    "weft.torch_backend": ("explain",),
    "weft.values.analysis": ("Advice", "Roofline", "Section"),
    "weft.values.time.parallel": ("ParallelRow",),
    "weft.values.time.prediction": ("LineStalls", "Prediction"),
    "weft.values.check": ("Verdict",),
    "weft.values.climb": ("RungResult",),
    "weft.values.timing": ("Timing",),
}
"""Module -> public names that are imported on first use: `import weft` loads no NumPy."""
_DEPRECATED = {"empty": "weft.sanitizer", "filled": "weft.sanitizer"}
"""Names that have moved, for one release, and where they are now."""
_HOME = {name: module for module, names in _LAZY.items() for name in names}
_PACKAGES = (
    "device", "distributed", "frontends", "init", "kernels", "llm", "measure", "nn", "ops", "optim",
    "quant", "report", "sanitizer", "source", "sparse",
)  # fmt: skip
"""Packages that `import weft` makes reachable, e.g. `weft.ops.softmax(x)`."""


def _import(name: str) -> _typing.Any:
    """A public name on its first use; a deprecated one on every use, with a warning."""
    if name in _PACKAGES:
        return _importlib.import_module(f"weft.{name}")
    if name in _DEPRECATED:
        home = _DEPRECATED[name]
        _warnings.warn(
            f"weft.{name} is deprecated and will be removed in the next release; use {home}.{name}",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(_importlib.import_module(home), name)
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from weft import garbage  # here: `import weft` alone makes few objects

    with garbage.paused(lasting=True):
        value = getattr(_importlib.import_module(_HOME[name]), name)
    globals()[name] = value  # the next use is a plain lookup
    return value


def _as_op(*args: _typing.Any, **options: _typing.Any) -> _typing.Any:
    return _import("as_op")(*args, **options)


_hooks.as_op = _as_op

if not _typing.TYPE_CHECKING:  # checkers know TYPE_CHECKING by this name; they must see a typo
    __getattr__ = _import


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_PACKAGES})


def load_ipython_extension(shell: _typing.Any) -> None:
    """`%load_ext weft`: the cell magic `%%cuda`."""
    _importlib.import_module("weft.notebook").register(shell)  # by its name: only notebooks need it


__version__ = "0.1.0"

__all__ = [
    "Advice",
    "ArgumentError",
    "AssertFailed",
    "Bench",
    "Breakpoint",
    "CacheError",
    "CacheWarning",
    "CaptureError",
    "Case",
    "Changes",
    "CheckFailed",
    "Climb",
    "CompileError",
    "CompileWarning",
    "Contender",
    "Deadlock",
    "Debugger",
    "DeviceError",
    "Error",
    "IllegalAddress",
    "InvalidFree",
    "Kernel",
    "Launch",
    "LaunchError",
    "LineStalls",
    "MisalignedAddress",
    "MissingDependency",
    "Module",
    "NoCounters",
    "Op",
    "OutOfMemory",
    "ParallelPrediction",
    "ParallelRow",
    "Prediction",
    "Profile",
    "PtxError",
    "Report",
    "Roofline",
    "RungResult",
    "SanitizerError",
    "Section",
    "Surface",
    "TensorMap",
    "Texture",
    "TimeLimit",
    "Timing",
    "Trapped",
    "UnsupportedInstruction",
    "Verdict",
    "as_op",
    "bench",
    "breakpoint",
    "cdiv",
    "check",
    "climb",
    "cuda",
    "distributed",
    "explain",
    "fuse",
    "graph",
    "im2col_map",
    "init",
    "kernel",
    "llm",
    "load_ptx",
    "nn",
    "ops",
    "optim",
    "predict_parallel",
    "profile",
    "quant",
    "sanitize",
    "sanitizer",
    "schedule",
    "sparse",
    "surface",
    "synchronize",
    "tensor_map",
    "texture",
]
