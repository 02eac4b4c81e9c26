"""Numba on the simulated GPU: `weft.kernel(fn)`, and unedited scripts.

`launch.py` is what a user of `weft.kernel` holds; `compiled.py` is Numba's own compiled kernel with
another launch; `seams.py` puts a simulated driver under Numba, so that all of its host functions
work where there is no GPU.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from weft.device import models
from weft.errors import ArgumentError

if TYPE_CHECKING:
    from weft.frontends.numba.launch import NumbaKernel

TAKES = ("numba", "builtins")
AFTER = "numba.cuda"


def kernel(fn: Any, *, device: str = models.DEFAULT, **options: Any) -> NumbaKernel:
    """A plain function or a `@cuda.jit` kernel; `options` are those of `cuda.jit`."""
    if not (inspect.isfunction(fn) or hasattr(fn, "py_func")):
        raise ArgumentError(
            "this is not a Python function that Numba can compile",
            got=f"{type(fn).__name__} {fn!r}",
            allowed="a function, or what @cuda.jit makes of one",
        )
    from weft.frontends.numba.versions import require

    require()
    from weft.frontends.numba.launch import NumbaKernel

    return NumbaKernel(fn, models.get(device), options)


def install(gpu: str = models.DEFAULT, *, force: bool = True) -> bool:
    """Numba's own launches and device arrays go to the simulated GPU from now on.

    Without `force` nothing is changed where there is a GPU. Says whether it is simulated.
    """
    from weft.frontends.numba.versions import require

    require()
    from weft.frontends.numba import seams

    return seams.install(models.get(gpu), force=force)
