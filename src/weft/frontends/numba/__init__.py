"""Runs Numba kernels on the simulated GPU: `weft.kernel(fn)` and unedited scripts.

`launch.py` has the kernels that `weft.kernel` returns; `compiled.py` is Numba's compiled kernel
with another launch; `seams.py` installs a simulated driver, so that Numba's host functions work
without a GPU.
"""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

from weft.device.selection import select, selected
from weft.errors import ArgumentError

if TYPE_CHECKING:
    from weft.frontends.numba.launch import NumbaKernel

TAKES = ("numba", "builtins")
AFTER = "numba.cuda"


def kernel(fn: Any, *, device: str = "sim", **options: Any) -> NumbaKernel:
    """A plain function or a `@cuda.jit` kernel; `options` are those of `cuda.jit`."""
    if not (inspect.isfunction(fn) or hasattr(fn, "py_func")):
        raise ArgumentError(
            "this is not a Python function that Numba can compile",
            got=f"{type(fn).__name__} {fn!r}",
            allowed="a function, or what @cuda.jit makes of one",
        )
    model = select(device).to_simulate("weft.kernel")
    from weft.frontends.numba.versions import require

    require()
    from weft.frontends.numba.launch import NumbaKernel

    return NumbaKernel(fn, model, options)


def install(device: str = "sim", *, force: bool = True, gpu: str | None = None) -> bool:
    """Send Numba's own launches and device arrays to the simulated GPU from now on.

    device  the GPU to simulate: "sim", "sim:rtx3070"
    force   simulates even where there is a real GPU; otherwise nothing changes there
    gpu     deprecated: use `device`

    Returns whether the GPU is simulated. `import weft.numba` calls it with force=False.

    >>> import weft.numba
    >>> print(weft.numba.install())
    True
    """
    model = selected(device, gpu, name="gpu=").to_simulate("weft.numba.install")
    from weft.frontends.numba.versions import require

    require()
    # Under `weft run` this import calls `install`: it must not happen inside of the next one.
    importlib.import_module(AFTER)
    from weft.frontends.numba import seams

    return seams.install(model, force=force)
