"""A launch whose arrays are on a real GPU: timed there, counted on the simulated one."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weft.device import models
from weft.device.gpu import system
from weft.errors import ArgumentError, LaunchError
from weft.kernels import Launch
from weft.measure import buffers

RUNS = 7
"""Timed launches, of which the median is taken; two more come before."""


@dataclass(frozen=True)
class Beside:
    """What the real GPU adds: copies of the arrays as they were, its model, seconds, a remark."""

    args: tuple[Any, ...]
    gpu: str | None
    seconds: float
    note: str


def on_gpu(launch: Launch, args: Sequence[Any]) -> Beside | None:
    """Launches once on the caller's arrays, after timing copies; None: they are on the host."""
    place = launch.kernel.packer.pack(tuple(args))[3]
    if place is None:
        return None
    from weft.device.gpu.facts import facts  # needs a driver, which is there now

    copies = [_copy(a) if _is_there(a) else a for a in args]
    here = tuple(buffers.bits(a) if _is_there(a) else a for a in args)
    seconds = _seconds(launch, copies)
    launch(*args)
    return Beside(here, _model(facts(place.device).name), seconds, remark())


def remark() -> str:
    """Whether ncu could count here, in a line."""
    allowed, why, _ = system.counters()
    if not allowed:
        return f"hardware counters are not readable ({why}): these are the simulator's"
    if shutil.which("ncu") is None:
        return "hardware counters may be read, but ncu is not on PATH: these are the simulator's"
    return "these are the simulator's counters; `weft profile FILE --device gpu` asks ncu"


def _is_there(value: Any) -> bool:
    return hasattr(value, "__cuda_array_interface__")


def _copy(array: Any) -> Any:
    """On the GPU, in the library of the array."""
    for method in ("clone", "copy"):  # PyTorch's, CuPy's
        if hasattr(array, method):
            return getattr(array, method)()
    raise ArgumentError(
        "profile copies arrays that are on a GPU, and cannot copy this one",
        got=f"{type(array).__module__}.{type(array).__qualname__}",
        allowed="tensors of PyTorch, arrays of CuPy",
    )


def _seconds(launch: Launch, copies: Sequence[Any]) -> float:
    """The median by events; the gap between launches is in it where kernels are short."""
    from weft.measure.timing import Stream  # needs a driver

    stream = Stream()
    times = [stream.milliseconds(lambda: launch(*copies)) for _ in range(2 + RUNS)]
    return statistics.median(times[2:]) / 1e3


def _model(name: str) -> str | None:
    """The model of this GPU, where there is one."""
    try:
        return models.get(name).key
    except LaunchError:
        return None
