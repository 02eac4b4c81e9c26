"""Checks the version of Numba.

The front end uses private names of Numba, so an untested version is rejected.
"""

from __future__ import annotations

import importlib.metadata
import os

from weft.errors import MissingDependency
from weft.installation import pip_install

FIRST, AFTER_LAST = (0, 30), (0, 31)
"""The supported versions of numba-cuda; the second bound is exclusive."""

_RANGE = f"numba-cuda >={'.'.join(map(str, FIRST))},<{'.'.join(map(str, AFTER_LAST))}"


def require() -> None:
    """Raise if Numba is missing, has another version, or uses its own simulator."""
    try:
        version = importlib.metadata.version("numba-cuda")
    except importlib.metadata.PackageNotFoundError:
        raise MissingDependency(
            "Numba's CUDA target is not installed",
            got="no package numba-cuda",
            allowed=_RANGE,
            next=pip_install("numba"),
        ) from None
    if not FIRST <= tuple(map(int, version.split(".")[:2])) < AFTER_LAST:
        raise MissingDependency(
            "this version of Numba's CUDA target is not supported",
            got=f"numba-cuda {version}",
            allowed=_RANGE,
            next=pip_install("numba"),
        )
    # Numba's simulator replaces the modules that this front end uses.
    if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0"):
        raise MissingDependency(
            "Numba's own simulator is switched on, which has no compiler",
            got=f"NUMBA_ENABLE_CUDASIM={os.environ['NUMBA_ENABLE_CUDASIM']}",
            next="unset NUMBA_ENABLE_CUDASIM",
        )
