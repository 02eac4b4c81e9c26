"""`weft.graph`: a training step as a CUDA graph, without torch until it is called.

step.py          the object of the user: which capture serves a call, and who makes it
watch.py         the first call of a kind: refuses what no graph can repeat
surroundings.py  what a step reads besides its arguments: modules, optimisers, Python numbers
inputs.py        the arguments of a call: their key, and what is refused
capture.py       one captured graph: static inputs, gradients, results
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from weft.errors import ArgumentError
from weft.ops.core import bind

if TYPE_CHECKING:  # needs torch
    from weft.ops.graph.step import GraphedStep

__all__ = ["graph"]

WARMUP = 3
"""The first call may set things up, the second is watched, the third is as the captured one."""


@overload
def graph(
    step: Callable[..., Any], *, warmup: int = ..., most: int = ..., copy: bool = ...
) -> GraphedStep: ...
@overload
def graph(
    *, warmup: int = ..., most: int = ..., copy: bool = ...
) -> Callable[[Callable[..., Any]], GraphedStep]: ...
def graph(
    step: Callable[..., Any] | None = None,
    *,
    warmup: int = WARMUP,
    most: int = 8,
    copy: bool = True,
) -> GraphedStep | Callable[[Callable[..., Any]], GraphedStep]:
    """Make a training step that is captured into a CUDA graph and replayed, without host time.

    step    a function of tensors and numbers: forward and backward pass, optimiser
    warmup  the calls of each kind that run without a graph before one is captured
    most    the most graphs; further kinds of calls run without one, with a warning
    copy    False: results are the graph's own tensors, which the next call overwrites

    Every call is one step, whether it is captured or not. A call with other shapes, dtypes or
    numbers, of a module in another mode or with another learning rate that is a number, is
    captured anew. What no graph can repeat raises `weft.CaptureError` in the first call. On the
    simulated GPU the step is called, after the same checks.

    >>> model = torch.nn.Linear(3, 1)
    >>> optimiser = weft.optim.AdamW(model.parameters(), lr=torch.tensor(1e-2))
    >>> @weft.graph
    ... def step(x, y):
    ...     optimiser.zero_grad()
    ...     loss = torch.nn.functional.mse_loss(model(x), y)
    ...     loss.backward()
    ...     optimiser.step()
    ...     return loss.detach()
    >>> losses = [step(torch.ones(4, 3), torch.ones(4, 1)) for _ in range(3)]
    >>> print(len({float(loss) for loss in losses}))
    3
    """
    if step is None:
        return lambda function: graph(function, warmup=warmup, most=most, copy=copy)
    if not callable(step):
        raise ArgumentError(
            "weft.graph: 'step' is not a function",
            got=type(step).__name__,
            allowed="a function of tensors and numbers",
        )
    if warmup < WARMUP or most < 1:
        raise ArgumentError(
            f"weft.graph: 'warmup' must be at least {WARMUP}, and 'most' at least 1",
            got=f"warmup={warmup}, most={most}",
        )
    made: GraphedStep = bind.with_torch("weft.ops.graph.step").GraphedStep(step, warmup, most, copy)
    return made
