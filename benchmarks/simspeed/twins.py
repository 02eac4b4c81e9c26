"""The C++ twins: compiled when asked for, loaded, and called as the kernels are."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np

from simspeed.cases import Call

SOURCES = Path(__file__).parents[1] / "cpp"
FLAGS = ["-O3", "-march=native"]


def twin(name: str, into: Path) -> Call:
    """`call(grid, block, *args)` of `cpp/<name>.cpp`, whose block is written into it."""
    library = into / f"{name}.so"
    command = ["g++", *FLAGS, "-shared", "-fPIC", "-o", str(library), str(SOURCES / f"{name}.cpp")]
    subprocess.run(command, check=True)
    function: Callable[..., None] = getattr(ctypes.CDLL(str(library)), name)

    def call(grid: tuple[int, ...], block: tuple[int, ...], *args: object) -> None:
        gx, gy = (*grid, 1)[:2]
        function(gx, gy, *map(_argument, args))

    return call


def _argument(value: object) -> object:
    return ctypes.c_void_p(value.ctypes.data) if isinstance(value, np.ndarray) else value
