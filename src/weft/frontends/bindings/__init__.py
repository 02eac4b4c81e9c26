"""Runs scripts that call the driver and the runtime by `cuda.bindings`, on the simulated GPU.

`cuda.bindings` looks for the driver, libcuda.so.1, at its first call. A library of that name is
loaded just before, whose functions are those of weft's runtime library. weft itself imports the
bindings for NVRTC, so that the import alone loads nothing.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from weft.frontends.bindings import capsules

AFTER = "cuda.bindings.driver"
"""A script that imports this module calls `install` afterwards."""
ALSO_AFTER = {
    "cuda.bindings._internal.runtime": capsules.runtime,
    "cuda.bindings._internal.nvrtc": capsules.nvrtc,
}
FIRST = ("cuInit", "cuDriverGetVersion")
"""The functions that a program calls first: all others need an initialised driver."""


def install(gpu: str) -> None:
    """Make the simulated GPU's driver the driver of this process."""
    driver = sys.modules[AFTER]
    for name in FIRST:
        setattr(driver, name, _loading(getattr(driver, name), gpu))


def _loading(function: Callable[..., Any], gpu: str) -> Callable[..., Any]:
    """Wrap a function so that its first call loads the driver."""

    @functools.wraps(function)
    def loading(*args: Any) -> Any:
        # Numba has a front end of its own, and imports the bindings for their types.
        if "numba" not in sys.modules:
            from weft.frontends.bindings import stand_in  # compilers and the simulator

            stand_in.load(gpu)
        return function(*args)

    return loading
