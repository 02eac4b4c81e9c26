"""`import weft.cupyx`: CuPy's extensions on the simulated GPU. SciPy computes `cupyx.scipy`."""

from __future__ import annotations

from weft.frontends.cupy import jit
from weft.frontends.cupy.cupyx import cusparse, cutensor, profiler
from weft.frontends.cupy.extras import (
    allow_synchronize,
    errstate,
    get_runtime_info,
    geterr,
    rsqrt,
    scatter_add,
    scatter_max,
    scatter_min,
    seterr,
)
from weft.frontends.cupy.names import optimizing, scipy
from weft.frontends.cupy.pinned import (
    empty_like_pinned,
    empty_pinned,
    zeros_like_pinned,
    zeros_pinned,
)

__all__ = [
    "allow_synchronize", "cusparse", "cutensor", "empty_like_pinned", "empty_pinned", "errstate",
    "get_runtime_info", "geterr", "jit", "optimizing", "profiler", "rsqrt", "scatter_add",
    "scatter_max", "scatter_min", "scipy", "seterr", "time", "zeros_like_pinned", "zeros_pinned",
]  # fmt: skip

__path__: list[str] = []  # its modules can be imported
time = profiler
