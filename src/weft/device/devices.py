"""Makes devices. Code for real GPUs is imported when the first one is asked for."""

from __future__ import annotations

import functools

from weft.device.base import Device
from weft.device.models import GpuModel
from weft.device.selection import number
from weft.device.sim.device import SimDevice


def simulated(model: GpuModel, *, fast: bool = False) -> Device:
    """The simulated GPU of a model; `fast` computes tensor-core products with plain FMA."""
    return SimDevice(model, fast)


def named(word: int | str | None, simulator: Device, home: Device | None) -> Device:
    """The real GPU that a word or a number names, or `simulator`; None names `home`, if any."""
    if word is None:
        return home or simulator
    chosen = number(word)
    return simulator if chosen is None else real(chosen)


@functools.cache
def real(index: int) -> Device:
    """A real GPU by its number."""
    from weft.device.gpu.device import GpuDevice

    return GpuDevice(index)


def synchronize(index: int | None) -> None:
    """Wait for all work on a real GPU, by default on all of them; raise pending errors."""
    from weft.device.gpu import pending

    pending.synchronize(index)


def check_stream(stream: object) -> None:
    """Raise LaunchError for an object that is not a stream."""
    from weft.device.gpu import streams

    streams.handle(stream)
