"""One captured graph: inputs of its own, the gradients that it writes, and its results."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree

from weft import garbage
from weft.errors import CaptureError
from weft.ops.graph.inputs import Inputs


class Capture:
    """A graph of one step; `replay` runs it on new arguments.

    touches  whether the step reads or writes the gradients that it finds
    after    the gradients of all parameters when the capture ended: replays write them
    """

    def __init__(
        self,
        step: Callable[..., Any],
        given: Inputs,
        params: Sequence[Any],
        stream: Any,
        touches: bool,
    ) -> None:
        self._leaves = [_own(leaf) for leaf in given.leaves]
        self._static = [x for x in self._leaves if isinstance(x, torch.Tensor)]
        self._params = list(params)
        before = [p.grad for p in params]
        self._graph = torch.cuda.CUDAGraph()
        # The cache of autocast may have casts of weights that a replay would not make again, and
        # gets some that only a replay computes.
        torch.clear_autocast_cache()
        try:
            # CUDA refuses a capture in which a graph is destroyed, as one in a cycle of dropped
            # objects would be wherever the collector runs.
            with garbage.paused(), torch.cuda.graph(self._graph, stream=stream):
                result = given.call(step, self._leaves)
        except RuntimeError as error:
            for p, grad in zip(self._params, before, strict=True):
                p.grad = grad
            raise CaptureError(
                "weft.graph: the GPU refuses the capture of the step",
                got=str(error).partition("\n")[0],
                next="a value that the host waits for, or memory that is allocated outside of "
                "torch: call the step without weft.graph to see that it works",
            ) from error
        finally:
            torch.clear_autocast_cache()
        self.after = [p.grad for p in self._params]
        # Gradients that the step drops need not be kept: any others would be dropped as well.
        self._before = before if touches else None
        self._dropped = [b is not None for b in before]
        self._results, self._spec = _pytree.tree_flatten(result)

    def fits(self, grads: Sequence[Any]) -> bool:
        """True if a replay treats these gradients as the step would.

        A graph that adds to gradients adds to those that there were when it was captured. One that
        drops them first, as zero_grad() does, may find any.
        """
        if self._before is not None:
            return all(map(operator.is_, grads, self._before))
        return all(g is None or dropped for g, dropped in zip(grads, self._dropped, strict=True))

    def replay(self, given: Inputs, grads: Sequence[Any], copy: bool) -> Any:
        """Run the step on these arguments."""
        if self._static:
            torch._foreach_copy_(self._static, given.tensors)
        self._graph.replay()
        for p, grad, own in zip(self._params, grads, self.after, strict=True):
            if grad is not own:
                p.grad = own
        return _pytree.tree_unflatten(
            [self._result(r, given, copy) for r in self._results], self._spec
        )

    def _result(self, value: Any, given: Inputs, copy: bool) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        for own, theirs in zip(self._static, given.tensors, strict=True):
            if value is own:
                return theirs
        if any(value is p for p in self._params):
            return value
        # A result would be overwritten by the next replay; the caller may keep a list of losses.
        return value.detach().clone() if copy else value.detach()


def _own(leaf: Any) -> Any:
    """An argument in memory that stays the same."""
    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf
