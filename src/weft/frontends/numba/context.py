"""Provides the context that Numba compiles in; only its compute capability is used."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from numba.cuda.cudadrv import devices

from weft.device.models import GpuModel


@dataclass(frozen=True)
class _Device:
    compute_capability: tuple[int, int]
    id: int = 0


@dataclass(frozen=True)
class _Context:
    device: _Device


def capability(model: GpuModel) -> tuple[int, int]:
    """The architecture to compile for."""
    digits = re.sub(r"\D", "", model.compile_for)
    return int(digits[:-1]), int(digits[-1])


@contextlib.contextmanager
def compiling_for(model: GpuModel) -> Iterator[None]:
    """Let this thread compile for a GPU that is not installed.

    Numba asks a context attached to the thread before it asks the driver.
    """
    # A private name: `versions.require` rejects releases that were not tested.
    runtime = devices._runtime
    before = runtime._get_attached_context()
    runtime._set_attached_context(_Context(_Device(capability(model))))
    try:
        yield
    finally:
        runtime._set_attached_context(before)
