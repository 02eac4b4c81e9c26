"""The derivatives of the ladders' operations, and how they take batches: a row an operation."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import weft.ops
from weft import kernels
from weft.ops.bind import as_op


@dataclass(frozen=True)
class Derivative:
    """What torch needs to know of an operation beside its signature.

    flat      tensors of any shape: what is in front of the last size counts as one
    backward  formula, or op; None: there is none yet, and the backward pass says so
    """

    flat: bool = False
    backward: Any = None
    differentiable: bool = True
    vmap: str = "loop"


def find(name: str) -> Derivative:
    """That of a ladder; one for another type, such as softmax_bf16, has that of its kind."""
    kind = name if name in TABLE else name.rpartition("_")[0]
    return TABLE.get(kind, Derivative())


def _transposed(ctx: Any, grad: Any) -> Any:
    return weft.ops.transpose(grad)


def _matmul(ctx: Any, grad: Any) -> Any:
    transpose, matmul = weft.ops.transpose, weft.ops.matmul
    wants_a, wants_b = ctx.needs_input_grad
    return (
        matmul(grad, transpose(ctx.B)) if wants_a else None,
        matmul(transpose(ctx.A), grad) if wants_b else None,
    )


def _scan(ctx: Any, grad: Any) -> Any:
    return weft.ops.scan(grad.flip(0)).flip(0)


def _maximum(ctx: Any, grad: Any) -> Any:
    """Equal maxima share the gradient, as in torch.amax."""
    top = (ctx.x == ctx.y.reshape(())).to(grad.dtype)
    return grad.reshape(()) * top / top.sum()


def _softmax(ctx: Any, grad: Any) -> Any:
    return _softmax_backward()(ctx.y, grad.contiguous())


@functools.cache
def _softmax_backward() -> Any:
    module = kernels.cuda(Path(__file__).parent.parent / "ladders" / "softmax" / "backward.cu")
    types = {torch.float32: "float", torch.bfloat16: "__nv_bfloat16"}

    def again(ctx: Any, grad: Any) -> Any:
        through = (grad * ctx.y).sum(-1, keepdim=True)
        dot = (ctx.y * ctx.grad).sum(-1, keepdim=True)
        return grad * (ctx.grad - dot) - through * ctx.grad, ctx.y * (grad - through)

    @as_op("weft::softmax_backward", "(Tensor y, Tensor grad) -> Tensor dx", contiguous=True,
           backward=again, vmap="leading")  # fmt: skip
    def softmax_backward(y: Any, grad: Any, dx: Any) -> None:
        n = y.shape[-1] if y.dim() else 1
        if y.numel():
            kernel = module.kernel(f"softmax_backward<{types[y.dtype]}>")
            kernel[y.numel() // n, 32 if n <= 1024 else 256](y, grad, dx, n)

    return softmax_backward


TABLE: Mapping[str, Derivative] = {
    "vecadd": Derivative(flat=True, backward=lambda ctx, grad: (grad, grad), vmap="leading"),
    "transpose": Derivative(backward=_transposed),
    "matmul": Derivative(backward=_matmul),
    "reduce": Derivative(
        flat=True, backward=lambda ctx, grad: grad.reshape(()).expand(ctx.x.shape)
    ),
    "reduce_max": Derivative(flat=True, backward=_maximum),
    "argmax": Derivative(flat=True, differentiable=False),
    "histogram": Derivative(flat=True, differentiable=False),
    "scan": Derivative(backward=_scan),
    "softmax": Derivative(flat=True, backward=_softmax, vmap="leading"),
}
