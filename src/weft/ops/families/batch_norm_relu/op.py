"""batch_norm_relu: definitions, argument checks and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import library
from weft.ops.core.bind.derive import derive
from weft.ops.core.function import Definition
from weft.ops.families.batch_norm_relu import plans
from weft.ops.families.norm.batch_norm import check
from weft.ops.families.norm.channels import result_like

NAME = "batch_norm_relu"
GROUP = "normalisation"


# ---- checks ------------------------------------------------------------------------------------
def _check_residual(x: Any, residual: Any) -> None:
    if residual is not None and (residual.shape != x.shape or residual.dtype is not x.dtype):
        raise ArgumentError(
            f"weft.ops.{NAME}: residual must have the shape and dtype of input",
            got=f"residual {list(residual.shape)} {residual.dtype}",
            allowed=f"{list(x.shape)} {x.dtype}",
        )


def _check_evaluation(
    x: Any, mean: Any, var: Any, weight: Any, bias: Any, residual: Any, training: bool, *_: Any
) -> None:
    if training:
        raise ArgumentError(
            f"torch.ops.weft.{NAME}: this op does not train, because it changes no argument",
            got="training=True",
            next=f"call weft.ops.{NAME}",
        )
    check(NAME, x, mean, var, weight, bias, False)
    _check_residual(x, residual)


def _check_training(x: Any, residual: Any, weight: Any, bias: Any, eps: float) -> None:
    check(NAME, x, None, None, weight, bias, True)
    _check_residual(x, residual)


# ---- redirection -------------------------------------------------------------------------------
def _redirect(op: Callable[..., Any]) -> Callable[..., Any]:
    """Send calls in training, and those that need gradients, to the ops that do it.

    Evaluation that needs a gradient calls batch norm, the sum and ReLU one after the other.
    """
    train, update = library.call(f"{NAME}_training"), library.call("batch_norm_update")
    norm, relu = library.call("batch_norm"), library.call("relu")

    def redirected(
        x: Any, mean: Any, var: Any, weight: Any, bias: Any, residual: Any, training: bool,
        momentum: float, eps: float,
    ) -> Any:  # fmt: skip
        if training:
            y, *found, _ = train(x, residual, weight, bias, eps)
            changed = [t for t in (mean, var) if t is not None]
            if changed and x.numel():
                update(mean, var, *found, momentum, x.numel() // x.shape[1])
                if not torch.compiler.is_compiling():
                    torch.autograd.graph.increment_version(changed)
            return y
        tensors = (x, weight, bias, residual)
        if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
            _check_evaluation(x, mean, var, weight, bias, residual, False)
            y = norm(x, mean, var, weight, bias, False, momentum, eps)
            return relu(y if residual is None else y + residual)
        return NotImplemented

    return redirected


# ---- gradients ---------------------------------------------------------------------------------
def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    x, _, weight, bias, ctx.eps = inputs
    _, mean, var, mask = output
    ctx.save_for_backward(x, mask, mean, var, weight, bias)
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)  # zeros for what is only saved would be kernels


def _backward(ctx: Any, grad: Any, *_: Any) -> Any:
    x, *rest = ctx.saved_tensors
    weight, bias = rest[-2:]
    wants = ctx.needs_input_grad
    weights, residual = any(wants[2:4]), bool(wants[1])
    call = library.call(f"{NAME}_backward")
    # torch.autograd.grad accepts gradients of any dtype.
    dx, dr, dw, db = call(grad.to(x.dtype), x, *rest, ctx.eps, weights, residual)
    return (
        dx,
        dr if residual else None,
        dw if weights and weight is not None else None,
        db if weights and bias is not None else None,
        None,
    )


def _setup_backward(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:7])
    ctx.options = inputs[7:]
    ctx.set_materialize_grads(False)


def _second(ctx: Any, *grads: Any) -> Any:
    """Second derivatives, by torch: the first ones written out and differentiated."""
    dy, x, mask, mean, var, weight, bias = ctx.saved_tensors
    eps, weights, residual = ctx.options
    there = _positive(x, mask, mean, var, weight, bias, eps)
    shape, dims = (1, -1, *[1] * (x.dim() - 2)), (0, *range(2, x.dim()))

    def first(dy: Any, x: Any, weight: Any = None) -> tuple[Any, ...]:
        g, wide = dy.float() * there, x.float()
        scale = (wide.var(dims, correction=0) + eps).rsqrt().view(shape)
        z = (wide - wide.mean(dims).view(shape)) * scale
        d = g - g.mean(dims, keepdim=True) - z * (g * z).mean(dims, keepdim=True)
        dx = d * scale if weight is None else d * scale * weight.float().view(shape)
        dtype = next((w.dtype for w in (weight, bias) if w is not None), torch.float32)
        sums = ((g * z).sum(dims).to(dtype), g.sum(dims).to(dtype))
        return dx.to(x.dtype), g.to(x.dtype), *sums

    inputs = [t for t in (dy, x, weight) if t is not None]
    given = (grads[0], grads[1] if residual else None, *(grads[2:] if weights else (None, None)))
    found = derive(first, inputs, given)
    dweight = None if weight is None else found[2]
    return found[0], found[1], None, None, None, dweight, None, None, None, None


def _positive(x: Any, mask: Any, mean: Any, var: Any, weight: Any, bias: Any, eps: float) -> Any:
    """A mask of positive results: the saved one, or else that of the formula."""
    if not mask.numel():
        found = (mean, var, *(None if w is None else w.float() for w in (weight, bias)))
        return torch.nn.functional.batch_norm(x.detach().float(), *found, False, 0.0, eps) > 0
    bits = x.numel() // mask.numel()
    each = mask.unsqueeze(-1) >> torch.arange(bits, device=mask.device, dtype=torch.uint8) & 1
    last = x.movedim(1, -1)
    if last.is_contiguous():
        return each.view(last.shape).movedim(-1, 1).bool()
    return each.view(x.shape).bool()


# ---- definitions -------------------------------------------------------------------------------
def _fake_training(x: Any, residual: Any, *rest: Any) -> Any:
    statistics = (x.new_empty(x.shape[1:2], dtype=torch.float32) for _ in range(2))
    count = 0 if residual is None else x.numel() // plans.mask_bits(x)
    return result_like(x), *statistics, x.new_empty((count,), dtype=torch.uint8)


def _fake_backward(
    dy: Any, x: Any, mask: Any, mean: Any, var: Any, weight: Any, bias: Any, eps: float,
    weights: bool, residual: bool,
) -> Any:  # fmt: skip
    dtype = next((w.dtype for w in (weight, bias) if w is not None), torch.float32)
    shape = x.shape[1:2] if weights else (0,)
    return (
        result_like(x),
        result_like(x) if residual else x.new_empty((0,)),
        *(x.new_empty(shape, dtype=dtype) for _ in range(2)),
    )


DEFINITIONS = (
    Definition(
        name=NAME,
        schema="(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight=None,"
        " Tensor? bias=None, Tensor? residual=None, bool training=False, float momentum=0.1,"
        " float eps=1e-05) -> Tensor",
        doc="""relu(batch_norm(input, …) + residual), in one pass; in two in training.

        Arguments are those of torch.nn.functional.batch_norm; residual, if given, has the shape of
        input. In training, running_mean and running_var are updated in place, and a bit for each
        element says where the result is positive, if there is a residual. The gradient takes two
        passes: the second one also writes that of the residual.
        """,
        fake=lambda x, *rest: result_like(x),
        candidates=plans.evaluation,
        check=_check_evaluation,
        redirect=_redirect,
        planless="training",
        autocast=None,
    ),
    Definition(
        name=f"{NAME}_training",
        schema="(Tensor input, Tensor? residual, Tensor? weight, Tensor? bias, float eps)"
        " -> (Tensor, Tensor, Tensor, Tensor)",
        doc="The result with the statistics of the input; these, and a mask of the result.",
        fake=_fake_training,
        candidates=plans.training,
        check=_check_training,
        setup=_setup,
        backward=_backward,
        autocast=None,
        public=False,
    ),
    Definition(
        name=f"{NAME}_backward",
        schema="(Tensor dy, Tensor x, Tensor mask, Tensor mean, Tensor var, Tensor? weight,"
        " Tensor? bias, float eps, bool weights, bool residual)"
        " -> (Tensor, Tensor, Tensor, Tensor)",
        doc="The gradients of input, residual and weights.",
        fake=_fake_backward,
        candidates=plans.backward,
        setup=_setup_backward,
        backward=_second,
        autocast=None,
        public=False,
    ),
)
