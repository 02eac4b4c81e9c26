"""Triton: `@triton.jit` kernels on CPU tensors run on the simulated GPU.

weft is a Triton driver, by Triton's own extension points: `runtime.driver.set_active`, the hook
for compiler stages and the class of the cache. No module of Triton is changed.

    driver.py    what Triton asks of a GPU driver
    launcher.py  one compiled kernel: its arguments packed, its launches
    packing.py   Triton's way to pass arguments
    pipeline.py  Triton's compiler, stopped at PTX, and where it keeps its results
    beside.py    where there is a real GPU: Triton's own driver, and simulation for CPU tensors
    jit_kernel.py  what `weft.kernel` gives
"""

from __future__ import annotations

from typing import Any

from weft.device import models
from weft.kernels.module import is_fast

TAKES = ("triton",)
AFTER = "triton"


def kernel(fn: Any, *, device: str = models.DEFAULT, math: str = "exact") -> Any:
    """A `@triton.jit` function, autotuned or not, as a kernel: `k[grid](*args, BLOCK=128)`.

    math  "exact": every bit as the hardware; "fast": tensor cores by plain FMA
    """
    from weft.frontends.triton.jit_kernel import TritonKernel

    return TritonKernel(fn, models.get(device), fast=is_fast(math))


def install(gpu: str = models.DEFAULT, *, math: str = "exact", alone: bool = True) -> None:
    """Makes the simulated GPU the one that Triton launches on.

    alone  even where there is a real GPU; otherwise CUDA tensors go to that one
    """
    from weft.frontends.triton.driver import activate

    activate(models.get(gpu), fast=is_fast(math), alone=alone)
