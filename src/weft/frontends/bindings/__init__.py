"""Runs scripts that call the driver API through `cuda.bindings`, on the simulated GPU.

`cuda.bindings` looks for the driver, libcuda.so.1, at its first call. A library of that name is
loaded before, whose functions are those of weft's runtime library.
"""

from __future__ import annotations

import sys

AFTER = "cuda.bindings.driver"
"""A script that imports this module calls `install` afterwards."""


def install(gpu: str) -> None:
    """From now on the driver of this process is the simulated GPU's."""
    # Numba has a front end of its own, and imports the bindings for their types.
    if "numba" not in sys.modules:
        from weft.frontends.bindings import stand_in  # compilers and the simulator

        stand_in.load(gpu)
