"""Gradients under transforms of torch.func: grad, vjp, jacrev, and vmap of these.

The function that torch makes for the gradient of a registered op is not one that torch.func takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._functorch.utils import unwrap_dead_wrappers

from weft.errors import ArgumentError

_compiling = torch.compiler.is_compiling
_innermost: Callable[[], Any] = torch._C._functorch.peek_interpreter_stack


def are_active() -> bool:
    """True if a transform must see a call. torch.compile traces transforms by itself."""
    return not _compiling() and _innermost() is not None


class _Alive:
    """The context of a backward pass, whose tensors need no transform.

    The function that torch.func.vjp returns is called when its transform has ended.
    """

    def __init__(self, ctx: Any) -> None:
        self.ctx = ctx
        self.saved_tensors = unwrap_dead_wrappers(ctx.saved_tensors)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ctx, name)


def transformed(
    name: str,
    compute: Callable[..., Any],
    setup: Callable[..., None] | None,
    backward: Callable[..., Any] | None,
    rule: Callable[..., Any] | None,
) -> Callable[..., Any]:
    """The function that computes an op where a transform is active.

    compute   the op as torch's dispatcher calls it: inner transforms see it
    backward  None: raises
    rule      the op's rule for vmap; None: vmap raises
    """

    def saves_nothing(ctx: Any, inputs: Any, output: Any) -> None:
        return

    def refuses(ctx: Any, *gradients: Any) -> Any:
        raise ArgumentError(
            f"{name} has no gradient",
            got="a derivative of its result by torch.func",
            next="docs/ops.md lists the ops with a gradient",
        )

    formula = backward or refuses

    def alive(ctx: Any, *gradients: Any) -> Any:
        return formula(_Alive(ctx), *gradients)

    members = {
        "forward": staticmethod(compute),
        "setup_context": staticmethod(setup or saves_nothing),
        "backward": staticmethod(alive),
    }
    if rule is not None:
        members["vmap"] = staticmethod(rule)
    made: Any = type(name.replace("::", "_"), (torch.autograd.Function,), members)
    apply: Callable[..., Any] = made.apply
    return apply
