"""A launch whose arrays are on a real GPU: timed there, counted on the simulated one."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.device import models
from weft.device.gpu import system
from weft.errors import ArgumentError, LaunchError
from weft.kernels import Configured

RUNS = 7
"""Timed launches, of which the median is taken; two more come before."""

_CLONE = ("clone", "copy", "copy_to_device")
_TO_HOST = ("cpu", "get", "copy_to_host")
"""How PyTorch, CuPy and Numba call a copy on the GPU, and one on the host."""


@dataclass(frozen=True)
class GpuRun:
    """What the real GPU adds: the arguments with their arrays on the host, as they were before;
    its model, seconds, a remark."""

    args: tuple[Any, ...]
    options: dict[str, Any]
    gpu: str | None
    seconds: float
    note: str


def on_gpu(subject: Configured, args: Sequence[Any], options: Mapping[str, Any]) -> GpuRun | None:
    """Launches once on the caller's arrays, after timing copies; None: they are on the host."""
    if not is_there(args, options):
        return None
    here, named = _each(_to_host, args, options)
    taken = seconds(subject, args, options)
    subject(*args, **options)
    return GpuRun(tuple(here), named, model(), taken, remark())


def is_there(args: Sequence[Any], options: Mapping[str, Any]) -> bool:
    """Is one of the arrays on a real GPU?"""
    return any(map(_on_gpu, (*args, *options.values())))


def seconds(subject: Configured, args: Sequence[Any], options: Mapping[str, Any]) -> float:
    """The median by events, on copies; the gap between launches is in it where they are short."""
    from weft.measure.bench.timing import Stream  # needs a driver

    copies, named = _each(_clone, args, options)
    stream = Stream()
    times = [stream.milliseconds(lambda: subject(*copies, **named)) for _ in range(2 + RUNS)]
    return statistics.median(times[2:]) / 1e3


def remark() -> str:
    """Whether ncu could count here, in a line."""
    allowed, why, _ = system.counters()
    if not allowed:
        return f"hardware counters are not readable ({why}): these are the simulator's"
    if shutil.which("ncu") is None:
        return "hardware counters may be read, but ncu is not on PATH: these are the simulator's"
    return "these are the simulator's counters; `weft profile FILE --device gpu` asks ncu"


def model(number: int = 0) -> str | None:
    """The model of a GPU that is there, where there is one."""
    from weft.device.gpu.facts import facts  # needs a driver, which is there now

    try:
        return models.get(facts(number).name).key
    except LaunchError:
        return None


def _each(
    of: Callable[[Any], Any], args: Sequence[Any], options: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    return [of(a) for a in args], {name: of(a) for name, a in options.items()}


def _on_gpu(value: Any) -> bool:
    return hasattr(value, "__cuda_array_interface__")


def _clone(value: Any) -> Any:
    """On the GPU, in the library of the array."""
    return _by(_CLONE, value) if _on_gpu(value) else value


def _to_host(value: Any) -> Any:
    return _by(_TO_HOST, value) if _on_gpu(value) else value


def _by(methods: Sequence[str], array: Any) -> Any:
    for method in methods:
        if hasattr(array, method):
            return getattr(array, method)()
    raise ArgumentError(
        "profile copies arrays that are on a GPU, and cannot copy this one",
        got=f"{type(array).__module__}.{type(array).__qualname__}",
        allowed="tensors of PyTorch, arrays of CuPy and Numba",
    )
