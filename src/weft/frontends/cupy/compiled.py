"""CUDA C++ of CuPy's kernels, with the headers that CuPy gives them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weft.frontends.cupy import current
from weft.kernels import cuda

_HEADERS = Path(__file__).parent / "include"
"""`cupy/complex.cuh` and others, which sources may include."""


def generated(source: str, options: Sequence[str] = ()) -> Any:
    """Compile a source that weft has written, without the compiler's warnings."""
    return compiled(source, [*options, "--disable-warnings"])


def compiled(source: str | Path, options: Sequence[str], std: str = "c++17") -> Any:
    """Compile a module for the GPU that this process simulates."""
    return cuda(source, std=std, options=list(options), include=[_HEADERS], device=current.device())
