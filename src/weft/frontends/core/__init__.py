"""Runs scripts of `cuda.core` on the simulated GPU.

Its compiled code calls the driver directly, so that the library that stands in for the driver is
loaded as soon as a script has imported the package.
"""

from __future__ import annotations

import sys

AFTER = "cuda.core"
"""A script that imports this package calls `install` afterwards."""


def install(gpu: str) -> None:
    """Make the simulated GPU's driver the driver of this process."""
    # Numba has a front end of its own, and imports the package for its linker.
    if "numba" not in sys.modules:
        from weft.frontends.bindings import stand_in  # compilers and the simulator

        stand_in.load(gpu)
