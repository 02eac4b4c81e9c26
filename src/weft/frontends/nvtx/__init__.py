"""The Python package `nvtx` in scripts: a timeline shows its ranges and marks.

Where the package is installed, its functions are replaced; where it is not, `weft.nvtx` stands in.
"""

from __future__ import annotations

import importlib

AFTER = "nvtx"
SUPPLIES = ("nvtx",)


def install(gpu: str) -> None:
    """Replace the functions of the package, which a script has just imported."""
    package = importlib.import_module(AFTER)
    from weft.frontends.nvtx import ranges

    for name in ranges.__all__:
        setattr(package, name, getattr(ranges, name))
