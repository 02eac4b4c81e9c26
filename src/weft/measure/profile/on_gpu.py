"""Profiles a launch with arrays on a real GPU: timed there, counted on the simulator."""

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
"""Timed launches, after two for warm-up; the median counts."""

_CLONE = ("clone", "copy", "copy_to_device")
_TO_HOST = ("cpu", "get", "copy_to_host")
"""Names of the copy methods of PyTorch, CuPy and Numba: on the GPU, and to the host."""


@dataclass(frozen=True)
class GpuRun:
    """Data from the real GPU: arguments as copied to the host before the launch, the GPU model, the
    time, and a note on hardware counters."""

    args: tuple[Any, ...]
    options: dict[str, Any]
    gpu: str | None
    seconds: float
    note: str


def on_gpu(subject: Configured, args: Sequence[Any], options: Mapping[str, Any]) -> GpuRun | None:
    """Time the launch on copies, then launch on the caller's arrays; None without a GPU."""
    if not is_there(args, options):
        return None
    # Copied first: the simulator needs the inputs as they were before the launch.
    here, named = _each(_to_host, args, options)
    taken = seconds(subject, args, options)
    subject(*args, **options)
    return GpuRun(tuple(here), named, model(), taken, remark())


def is_there(args: Sequence[Any], options: Mapping[str, Any]) -> bool:
    """True if an array is on a real GPU."""
    return any(map(_on_gpu, (*args, *options.values())))


def seconds(subject: Configured, args: Sequence[Any], options: Mapping[str, Any]) -> float:
    """The median time by events, on copies; for short kernels it includes launch gaps."""
    from weft.measure.bench.timing import TimingStream  # needs a driver

    copies, named = _each(_clone, args, options)
    stream = TimingStream()
    times = [stream.milliseconds(lambda: subject(*copies, **named)) for _ in range(2 + RUNS)]
    return statistics.median(times[2:]) / 1e3


def remark() -> str:
    """One line on whether ncu could count here."""
    allowed, why, _ = system.counters()
    if not allowed:
        return f"hardware counters are not readable ({why}): these are the simulator's"
    if shutil.which("ncu") is None:
        return "hardware counters may be read, but ncu is not on PATH: these are the simulator's"
    return "these are the simulator's counters; `weft profile FILE --device gpu` asks ncu"


def model(number: int = 0) -> str | None:
    """The model key of an installed GPU; None if it is unknown."""
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
    """A copy on the GPU, in the library of the array."""
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
