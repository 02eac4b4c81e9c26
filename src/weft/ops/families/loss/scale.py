"""Multiply a gradient in place by the gradient of the loss, which is 1 in most cases."""

from __future__ import annotations

import functools
from typing import Any

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.plan import Plan, Pointer, Step
from weft.ops.core.rows import BLOCK
from weft.ops.core.runner import Run, runner
from weft.ops.core.target import target


def scale_unless_one(x: Any, factor: Any) -> None:
    """x *= factor, for a contiguous x and a number on the same device.

    The kernel reads the number, so the host does not wait for it; if it is 1, x is not touched.
    """
    _run(x.dtype, factor.dtype, x.numel(), x.device)(x, factor)


@functools.lru_cache(256)
def _run(dtype: torch.dtype, factor: torch.dtype, n: int, device: torch.device) -> Run:
    vector = 16 // dtype.itemsize  # x is an output of an op, so its address is a multiple of 16
    blocks = max(1, min(cdiv(n, BLOCK * vector), 16 * target(device).sms))
    words = source.template("scale", source.ctype(dtype), source.ctype(factor), vector)
    kernel = source.kernel("loss/scale.cu", words)
    step = Step(kernel, (blocks,), (BLOCK,), (Pointer(0), Pointer(1), n), early=True)
    return runner(Plan((step,), ()), 2, device)
