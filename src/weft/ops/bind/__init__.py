"""A kernel as an op of PyTorch: `as_op` makes one, `verify` proves it.

options.py   what can be said of an op
rules.py     sizes and shapes: numbers, expressions or functions of the arguments
schema.py    its arguments and returns, as torch writes them or from the kernel's signature
body.py      what computes it: a kernel with its launch, or a function
outputs.py   its arguments checked, its results allocated: all that a fake kernel does
gradient.py  its derivative: a formula, another op or a kernel
batching.py  its rule for `torch.vmap`
torch_op.py  the op, registered with torch
verify.py    torch's own checks, in one call
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from weft.errors import MissingDependency, pip_install

if TYPE_CHECKING:
    from weft.ops.bind.torch_op import TorchOp
    from weft.ops.bind.verify import Verified

__all__ = ["as_op", "verify"]


@overload
def as_op(kernel: str, name: str = ..., **options: Any) -> Callable[[Any], TorchOp]: ...
@overload
def as_op(kernel: Any, name: str, schema: str = ..., **options: Any) -> TorchOp: ...
def as_op(
    kernel: Any, name: str = "", schema: str = "", **options: Any
) -> TorchOp | Callable[[Any], TorchOp]:
    """An op of PyTorch, computed by a kernel, or by a function that launches several.

    `as_op(kernel, "mine::square", "(Tensor x) -> Tensor", grid=..., ...)`, or as a decorator
    `@as_op("mine::square", "(Tensor x) -> Tensor y", ...)` of a function with a parameter for each
    argument and each result. `weft.ops.bind.options.Options` says what can be declared.
    """
    if isinstance(kernel, str):
        return lambda function: as_op(function, kernel, name or schema, **options)
    made: TorchOp = with_torch("weft.ops.bind.torch_op").make(kernel, name, schema, options)
    return made


def verify(op: Any, *args: Any, **options: Any) -> Verified:
    """Runs torch's `opcheck` and `gradcheck` on an op; raises CheckFailed with the report.

    args          example arguments; tensors that require a gradient are differentiated
    kwargs        example keyword arguments, as a dict
    nondet_tol    how far results may differ from run to run, e.g. because of atomics
    eps atol rtol of the gradient's check, in place of those for the arguments' precision
    """
    proved: Verified = with_torch("weft.ops.bind.verify").verify(op, *args, **options)
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
