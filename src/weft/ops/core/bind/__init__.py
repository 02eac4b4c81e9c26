"""Make PyTorch ops from kernels: `as_op` makes an op, `verify` checks it.

options.py   the options of an op
rules.py     sizes and shapes: numbers, expressions or functions of the arguments
schema.py    its arguments and returns, as torch writes them or from the kernel's signature
body.py      its computation: a kernel with its launch, or a function
outputs.py   checks arguments and allocates results, as the fake kernel does
gradient.py  its derivative: a formula, another op or a kernel
batching.py  its rule for `torch.vmap`
torch_op.py  registers the op with torch, through custom_op.py
verify.py    torch's own checks, in one call
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack, overload

from weft.errors import MissingDependency
from weft.installation import pip_install
from weft.kernels.op_options import OpOptions

if TYPE_CHECKING:
    from weft.ops.core.bind.torch_op import TorchOp
    from weft.ops.core.bind.verify import Verified

__all__ = ["as_op", "verify"]


@overload
def as_op(
    kernel: str, name: str = ..., **options: Unpack[OpOptions]
) -> Callable[[Any], TorchOp]: ...
@overload
def as_op(kernel: Any, name: str, schema: str = ..., **options: Unpack[OpOptions]) -> TorchOp: ...
def as_op(
    kernel: Any, name: str = "", schema: str = "", **options: Unpack[OpOptions]
) -> TorchOp | Callable[[Any], TorchOp]:
    """Make an op of PyTorch from a kernel, or from a function that launches kernels.

    kernel    the kernel; as a decorator, `@weft.as_op("mine::twice", "(Tensor x) -> Tensor y")`
              takes a function with a parameter for each argument and each result
    name      the op's name: "mine::twice"
    schema    arguments and results, as torch writes them; by default from the kernel's signature
    options   grid, block, args, out, backward and more: see docs/torch.md

    >>> import torch
    >>> twice = weft.cuda('''
    ... __global__ void twice(const float* x, float* y) { y[blockIdx.x] = 2 * x[blockIdx.x]; }
    ... ''').twice
    >>> twice = weft.as_op(twice, "mine::twice", grid="x.numel()", block=1)
    >>> print(twice(torch.tensor([1.0, 2.0])))
    tensor([2., 4.])
    """
    if isinstance(kernel, str):
        return lambda function: as_op(function, kernel, name or schema, **options)
    made: TorchOp = with_torch("weft.ops.core.bind.torch_op").make(
        kernel, name, schema, dict(options)
    )
    return made


def verify(op: Any, *args: Any, **options: Any) -> Verified:
    """Run torch's `opcheck` and `gradcheck` on an op. Raises `CheckFailed` with the report.

    op              the op
    args            example arguments; tensors that require a gradient are differentiated
    options         the following, by name
    kwargs          example keyword arguments, as a dict
    nondet_tol      how far results may differ between runs, e.g. because of atomics
    eps atol rtol   tolerances of the gradient check; by default those of the arguments' precision

    >>> report = weft.ops.verify(twice, torch.tensor([1.0, 2.0]))
    >>> print(str(report).splitlines()[1])
      ok        schema: the schema says what is written and what is aliased
    """
    proved: Verified = with_torch("weft.ops.core.bind.verify").verify(op, *args, **options)
    return proved


def with_torch(module: str) -> Any:
    """A module that needs PyTorch; raises MissingDependency where that is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "torch":
            raise
        raise MissingDependency(
            "a kernel as a PyTorch op needs PyTorch",
            got=str(error),
            next=f"{pip_install('torch')}; kernels themselves run without it, on NumPy arrays",
        ) from None
