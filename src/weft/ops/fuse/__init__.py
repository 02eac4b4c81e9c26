"""`weft.fuse`: a function of tensors as few kernels, without torch until it is called.

trace.py    runs the function once on fake tensors and records its operations
masks.py    dropout, as masks that kernels compute
table.py    the C++ expression of every operation that a kernel may contain
groups.py   puts operations into groups; each group becomes one kernel
code.py     writes the CUDA C++ of operations; elements.py and rows.py write kernels
launch.py   chooses block and vector sizes for the tensors at hand, and makes the plan
program.py  runs groups and the operations between them
compiled.py makes a call one operation of torch.compile's graphs
fused.py    the object of the user: call, gradient, source, explanation
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.errors import ArgumentError
from weft.ops.core import bind

if TYPE_CHECKING:  # needs torch
    from weft.ops.fuse.fused import Fused


def fuse(function: Callable[..., Any]) -> Fused:
    """Make a function of PyTorch tensors that runs as few kernels as possible, usually one.

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
            "weft.fuse: 'function' is not a function",
            got=type(function).__name__,
            allowed="a function of tensors",
            next="weft.fuse(lambda a, b: torch.sigmoid(a) * b)",
        )
    fused: Fused = bind.with_torch("weft.ops.fuse.fused").Fused(function)
    return fused
