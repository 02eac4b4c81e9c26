"""Which Numba this front end works with.

It stands on names that are not part of Numba's public interface, so another version is refused
rather than tried.
"""

from __future__ import annotations

import importlib.metadata
import os

from weft.errors import MissingDependency, pip_install

FIRST, AFTER_LAST = (0, 30), (0, 31)
"""The versions of numba-cuda, from the first up to but not including the second."""

_RANGE = f"numba-cuda >={'.'.join(map(str, FIRST))},<{'.'.join(map(str, AFTER_LAST))}"


def require() -> None:
    """Raises where Numba is not there, is another version, or is a simulator of its own."""
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
    if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0"):
        raise MissingDependency(
            "Numba's own simulator is switched on, which has no compiler",
            got=f"NUMBA_ENABLE_CUDASIM={os.environ['NUMBA_ENABLE_CUDASIM']}",
            next="unset NUMBA_ENABLE_CUDASIM",
        )
