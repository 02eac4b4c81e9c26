"""batch_norm, in training and in evaluation.

In training it is two ops: `batch_norm_training` computes the result, mean and variance, and
`batch_norm_update` updates the running ones; see batch_norm_training.py. The result with given
statistics is `batch_norm_apply`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import eager, library
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.native import composed
from weft.ops.core.plan import Buffer, Counters, Plan, Pointer, Step
from weft.ops.families.norm import model
from weft.ops.families.norm.arguments import LONGEST, check_dtype, check_weights
from weft.ops.families.norm.channels import Channels, channels, result_like, result_of


# ---- candidates --------------------------------------------------------------------------------
def _statistics(request: Request) -> list[Candidate]:
    x = request.first
    found = Buffer((x.shape[1],), torch.float32)
    if x.numel == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (found, found)))]
    made = channels(request, (0,), (found, found))
    time = made.cost + model.stream_time(request.target, x.numel * x.itemsize)
    build = functools.partial(_statistics_plan, made)
    return [Candidate("channels", time, why(made), build)]


def _statistics_plan(made: Channels) -> Plan:
    step, scratch = statistics_step(made, made.output(0), made.output(1))
    return made.plan(step, scratch=scratch)


def statistics_step(made: Channels, mean: Pointer, var: Pointer) -> tuple[Step, tuple[Buffer, ...]]:
    """The launch that computes statistics, and the scratch buffer that it needs, if any."""
    kernel = made.kernel("channels.cu", "statistics")
    found, scratch = made.found(0, 3)
    numbers = (made.shape(made.summing), float(made.size))
    args = (made.inputs[0], mean, var, found, Counters(), *numbers)
    return made.step(kernel, made.summing, *args), scratch


def _apply(request: Request) -> list[Candidate]:
    x = request.first
    out = result_of(x)
    if x.numel == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    made = channels(request, (0,), (out,)).folded()
    time = made.cost + model.stream_time(request.target, 2 * x.numel * x.itemsize)
    return [Candidate("channels", time, why(made), functools.partial(_apply_plan, made))]


def _apply_plan(made: Channels) -> Plan:
    return made.plan(apply_step(made, made.inputs, *dtypes(made)))


def apply_step(
    made: Channels, inputs: Sequence[Pointer | None], statistics: torch.dtype, weight: torch.dtype
) -> Step:
    """The launch that normalises; `inputs` are the tensor, its statistics and weights."""
    kernel = made.kernel("channels.cu", "apply", statistics, weight)
    parts, eps = made.writing, made.request.options["eps"]
    return made.step(kernel, parts, *inputs, made.output(0), made.shape(parts), eps)


def dtypes(made: Channels, first: int = 1) -> tuple[torch.dtype, torch.dtype]:
    """The dtypes of the statistics, at `first` among the inputs, and of the weights after them."""
    mean, *weights = made.request.inputs[first : first + 1] + made.request.inputs[first + 2 :]
    assert mean is not None
    return mean.dtype, next((w.dtype for w in weights if w is not None), torch.float32)


def why(made: Channels) -> str:
    order = "channels last" if made.flat else "channels first"
    return f"{order}, {made.summing} blocks per channel, vectors of {made.vector}"


# ---- checks ------------------------------------------------------------------------------------
def check(name: str, x: Any, mean: Any, var: Any, weight: Any, bias: Any, training: bool) -> None:
    check_dtype(name, x)
    if x.dim() < 2:
        raise ArgumentError(
            f"weft.ops.{name}: 'input' needs a batch and a channel dimension",
            got=f"shape {list(x.shape)}",
            allowed="2 dimensions or more",
        )
    if x.numel() and max(x.numel() // x.shape[1], x.shape[1]) > LONGEST:
        raise ArgumentError(
            f"weft.ops.{name}: a channel has too many elements",
            got=str(x.numel() // x.shape[1]),
            allowed=f"at most {LONGEST}",
        )
    if not training and (mean is None or var is None):
        raise ArgumentError(
            f"weft.ops.{name}: running_mean and running_var are needed in evaluation",
            got="None",
            next="pass them, or training=True",
        )
    if training and x.shape[0] * math.prod(x.shape[2:]) == 1:
        raise ArgumentError(
            f"weft.ops.{name}: more than one value per channel is needed in training",
            got=f"input of shape {list(x.shape)}",
        )
    size = (x.shape[1],)
    check_weights(name, x, size, running_mean=mean, running_var=var)
    check_weights(name, x, size, weight=weight, bias=bias)


def _check_evaluation(x: Any, mean: Any, var: Any, weight: Any, bias: Any, *options: Any) -> None:
    if options[0]:
        raise ArgumentError(
            "torch.ops.weft.batch_norm: this op does not train, because it changes no argument",
            got="training=True",
            next="call weft.ops.batch_norm",
        )
    check("batch_norm", x, mean, var, weight, bias, False)


def _check_apply(x: Any, mean: Any, var: Any, weight: Any, bias: Any, *options: Any) -> None:
    check("batch_norm", x, mean, var, weight, bias, False)


def _check_statistics(x: Any) -> None:
    check("batch_norm", x, None, None, None, None, True)


# ---- definitions -------------------------------------------------------------------------------
def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    x, mean, var, weight, bias, training, *_, eps = inputs
    ctx.options = training, eps
    ctx.biased = bias is not None
    ctx.save_for_backward(x, mean, var, weight)


def _backward(options: int, ctx: Any, grad: Any) -> Any:
    x, mean, var, weight = ctx.saved_tensors
    training, eps = ctx.options
    wanted = any(ctx.needs_input_grad[3:5])
    backward = library.call("batch_norm_backward")
    # torch.autograd.grad accepts gradients of any dtype.
    dx, dw, db = backward(grad.to(x.dtype), x, mean, var, weight, training, eps, wanted)
    sums = (dw if weight is not None and wanted else None, db if ctx.biased and wanted else None)
    return (dx, None, None, *sums, *[None] * options)


def _training(op: Callable[..., Any]) -> Callable[..., Any]:
    """Redirect calls in training, and those that need gradients, to the ops for them."""
    training_op, update_op = map(library.function, ("batch_norm_training", "batch_norm_update"))
    train, update, apply = training_op.call, update_op.call, library.call("batch_norm_apply")

    def learn(args: tuple[Any, ...], found: Sequence[Any], numbers: tuple[float, int]) -> None:
        """Let the C++ code make calls like this one in training."""
        x, mean, var, weight, bias, *_, eps = args
        first = composed.Part(training_op, (x, weight, bias, eps), (0, 3, 4))
        second = composed.Part(update_op, (mean, var, *found, *numbers), (1, 2, 6, 7))
        composed.learn(library.function("batch_norm"), args, first, second, [1, 2])

    def redirected(
        x: Any, mean: Any, var: Any, weight: Any, bias: Any, training: bool, momentum: float,
        eps: float,
    ) -> Any:  # fmt: skip
        if training:
            y, *found = train(x, weight, bias, eps)
            changed = [t for t in (mean, var) if t is not None]
            if changed and x.numel():
                numbers = momentum, x.numel() // x.shape[1]
                update(mean, var, *found, *numbers)
                if not torch.compiler.is_compiling():
                    torch.autograd.graph.increment_version(changed)
                    if eager.plain() and all(type(t) in eager.PLAIN for t in (x, *changed)):
                        args = (x, mean, var, weight, bias, training, momentum, eps)
                        learn(args, found, numbers)
            return y
        wanted = any(t is not None and t.requires_grad for t in (x, weight, bias))
        if wanted and torch.is_grad_enabled():
            return apply(x, mean, var, weight, bias, False, eps)
        return NotImplemented

    return redirected


_WEIGHTS = "Tensor? weight=None, Tensor? bias=None"
DEFINITIONS = (
    Definition(
        name="batch_norm",
        schema=f"(Tensor input, Tensor? running_mean, Tensor? running_var, {_WEIGHTS},"
        " bool training=False, float momentum=0.1, float eps=1e-05) -> Tensor",
        doc="Batch norm, as torch.nn.functional.batch_norm: in training, running_mean and\n"
        "running_var are updated in place.",
        fake=lambda x, *rest: result_like(x),
        candidates=_apply,
        check=_check_evaluation,
        setup=_setup,
        backward=functools.partial(_backward, 3),
        redirect=_training,
        planless="training",
        autocast=None,
    ),
    Definition(
        name="batch_norm_statistics",
        schema="(Tensor input) -> (Tensor, Tensor)",
        doc="The mean and the variance of each channel.",
        fake=lambda x: tuple(x.new_empty(x.shape[1:2], dtype=torch.float32) for _ in range(2)),
        candidates=_statistics,
        check=_check_statistics,
        autocast=None,
        public=False,
    ),
    Definition(
        name="batch_norm_apply",
        schema="(Tensor input, Tensor mean, Tensor var, Tensor? weight, Tensor? bias,"
        " bool training, float eps) -> Tensor",
        doc="Batch norm with given statistics; in training they are those of the input.",
        fake=lambda x, *rest: result_like(x),
        candidates=_apply,
        check=_check_apply,
        setup=_setup,
        backward=functools.partial(_backward, 2),
        autocast=None,
        public=False,
    ),
)
