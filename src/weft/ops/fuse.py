"""`weft.fuse`, without torch until it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.errors import ArgumentError
from weft.ops import bind

if TYPE_CHECKING:  # needs torch
    from weft.ops.fusion.fused import Fused


def fuse(function: Callable[..., Any]) -> Fused:
    """Makes a function of PyTorch tensors that runs as few kernels as possible, usually one.

    function  a function of tensors and numbers that calls torch's operations

    The first call with new dtypes, shapes, strides or numbers traces the function and writes CUDA
    C++ for it. Elementwise operations, broadcasting, conversions and reductions along the last
    dimensions become one kernel; other operations are called between kernels. The result has
    `source`, the C++ of the last call, and `explain()`. Gradients work: the backward pass is fused
    in the same way and computes the forward pass again.

    >>> swish = weft.fuse(lambda x, r: x * torch.sigmoid(x) + r)
    >>> print(swish(torch.zeros(2, 4), torch.ones(2, 4)).sum())
    tensor(8.)
    >>> print(swish.explain())
    one kernel over 2x4, 96 bytes: sigmoid, mul, add
    """
    if not callable(function):
        raise ArgumentError(
            "weft.fuse: 'function' is not a function", got=type(function).__name__,
            allowed="a function of tensors", next="weft.fuse(lambda a, b: torch.sigmoid(a) * b)",
        )  # fmt: skip
    fused: Fused = bind.with_torch("weft.ops.fusion.fused").Fused(function)
    return fused
