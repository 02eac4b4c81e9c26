"""Gradients of eager calls: a torch.autograd.Function per op.

torch's dispatcher calls a Function of its own for an op with a gradient, through several layers of
Python. An eager call of plain tensors gets by without them: forward and backward of a small tensor
take half of the host's time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.autograd import forward_ad

from weft.ops.core.bind import autocast

PLAIN = (torch.Tensor, torch.nn.Parameter)
"""Tensor types of the fast path; subclasses must be dispatched by torch."""

# Bound once: to find them through torch's modules takes longer than to call them.
_compiling = torch.compiler.is_compiling
_interpreter: Callable[[], Any] = torch._C._functorch.peek_interpreter_stack
_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._len_torch_function_stack
_autocast = torch._C._is_any_autocast_enabled
_profiled = torch.autograd._profiler_enabled
_traced = torch._C._get_tracing_state


class Redirect(NamedTuple):
    """A redirect of calls that has a shorter way for eager ones.

    every   for any call; it may return NotImplemented
    saving  the op that records calls of plain tensors which need a gradient, `function.Function`;
            it takes the same tensors
    results the number of its results that such a call returns, the first ones
    given   the arguments of that op for those of the call; None: `every` makes the call
    """

    every: Callable[..., Any]
    saving: Any
    results: int
    given: Callable[..., Sequence[Any] | None] = lambda *args: args


def differentiable(
    name: str,
    compute: Callable[..., Any],
    setup: Callable[..., None],
    backward: Callable[..., Any],
    results: int = 0,
) -> Callable[..., Any]:
    """The function that computes an op and records its gradient.

    results  the number of results it returns, the first ones; 0: all. Others are only saved.
    """

    def run(ctx: Any, *args: Any) -> Any:
        result = compute(*args)
        setup(ctx, args, result)
        if results:
            return result[0] if results == 1 else result[:results]
        return result

    def gradients(ctx: Any, *given: Any) -> Any:
        with autocast.off():  # forward has computed on converted tensors
            return backward(ctx, *given)

    members = {"forward": staticmethod(run), "backward": staticmethod(gradients)}
    made: Any = type(f"weft_{name}", (torch.autograd.Function,), members)
    # Function.apply looks for transforms of functorch first, which the caller has done.
    apply: Callable[..., Any] = super(torch.autograd.Function, made).apply
    return apply


def wanted(args: tuple[Any, ...]) -> bool:
    """True if a call needs a gradient and no mode of torch has to see it."""
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    return (
        any(t.requires_grad for t in tensors)
        and torch.is_grad_enabled()
        and all(type(t) in PLAIN for t in tensors)
        and plain()
    )


def plain() -> bool:
    """True if no mode, transform, tracer or profiler of torch is active."""
    return not _autocast() and unseen()


def unseen() -> bool:
    """As `plain`, whether autocast is on or off."""
    return not (
        _compiling()
        or _interpreter() is not None
        or _dispatch_modes()
        or _function_modes()
        or _profiled()
        or _traced() is not None
        or forward_ad._current_level >= 0
    )


def converts(args: tuple[Any, ...]) -> bool:
    """True if nothing of torch but autocast has to see a call."""
    tensors = (a for a in args if isinstance(a, torch.Tensor))
    return _autocast() and unseen() and all(type(t) in PLAIN for t in tensors)
