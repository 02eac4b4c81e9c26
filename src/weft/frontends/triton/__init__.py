"""Runs `@triton.jit` kernels with CPU tensors on the simulated GPU.

weft is a Triton driver. It uses Triton's extension points: `runtime.driver.set_active`, the hook
for compiler stages and the cache class. Only what measures time is replaced (timing.py).

    driver.py    the driver interface that Triton requires
    launcher.py  one compiled kernel: its arguments packed, its launches
    packing.py   Triton's way to pass arguments
    pipeline.py  Triton's compiler, stopped at PTX, and where it keeps its results
    dispatch.py  with a real GPU: Triton's own driver for CUDA tensors, simulation for CPU tensors
    timing.py    autotuning and `triton.testing`, where times are those of the simulation
    deferred.py  a kernel's number of registers, counted when a script asks for it
    cublas.py    the products that Triton's tutorials compare with
    jit_kernel.py  the kernels that `weft.kernel` returns
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any

from weft.device.selection import select, selected
from weft.errors import LaunchError, MissingDependency
from weft.installation import pip_install

TAKES = ("triton",)
AFTER = "triton"


def kernel(fn: Any, *, device: str = "sim", math: str = "exact") -> Any:
    """A `@triton.jit` function, autotuned or not, as a kernel: `k[grid](*args, BLOCK=128)`.

    math  "exact": every bit as the hardware; "fast": tensor cores by plain FMA
    """
    if type(fn).__name__ == "InterpretedFunction":
        raise LaunchError(
            "Triton's interpreter is switched on, so that there is no code to run",
            got="TRITON_INTERPRET=1",
            next="leave it out of the environment: the simulated GPU does without",
        )
    from weft.frontends.triton.jit_kernel import TritonKernel
    from weft.kernels.module import is_fast  # not before: scripts without kernels do without it

    return TritonKernel(fn, select(device).to_simulate("weft.kernel"), fast=is_fast(math))


def install(
    device: str = "sim",
    *,
    math: str = "exact",
    alone: bool = True,
    autotune: bool = False,
    gpu: str | None = None,
) -> None:
    """Make the simulated GPU the one that Triton launches on. `import weft.triton` calls it.

    device  the GPU to simulate: "sim", "sim:rtx3070"
    math    "exact" matches the hardware bit for bit; "fast" computes tensor-core products with
            plain FMA
    alone   simulates even where there is a real GPU; otherwise CUDA tensors go to that one
    autotune  autotuners time all configurations instead of taking the first valid one
    gpu     deprecated: use `device`

    >>> import weft.triton
    >>> weft.triton.install("sim:rtx3070")
    """
    model = selected(device, gpu, name="gpu=").to_simulate("weft.triton.install")
    _import()
    from weft.frontends.triton.driver import activate
    from weft.kernels.module import is_fast

    activate(model, fast=is_fast(math), alone=alone, autotune=autotune)


def install_beside() -> None:
    """Simulate kernels with CPU tensors. Under `weft run` all kernels are simulated already."""
    _import()
    driver = sys.modules.get("weft.frontends.triton.driver")
    if driver is None or not driver.is_alone():
        install(alone=False)


def _import() -> None:
    """Import Triton before weft's driver does: `weft run` installs the driver right after."""
    for name in ("triton", "torch"):
        if importlib.util.find_spec(name) is None:
            raise MissingDependency(
                f"weft.triton needs {name}", got="not installed", next=pip_install("triton")
            )
    importlib.import_module("triton")
