"""Parameters that one launch of an optimiser changes, with their gradients and states.

All are on one device and have one dtype. A table has their addresses; every step compares them
with those that the tensors have now.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.layouts import memory_order
from weft.ops.plan import layout
from weft.optim.table import Table

Make = Callable[[Any], torch.Tensor]
"""Makes a state of a parameter, which is given as a dense tensor."""


class Bucket:
    """Parameters of one device and dtype, and their states.

    params  the parameters
    kinds   the names of the states in the order of the kernel's lists, and what makes new ones
    first   the states are new, and the first step has a rule of its own
    """

    def __init__(
        self,
        params: Sequence[Any],
        states: Sequence[dict[str, Any]],
        kinds: Mapping[str, Make],
        elements: int,
        first: bool = False,
    ):
        self.first = first
        self.params, self.states, self.names = params, states, tuple(kinds)
        self.dtype, self.device = params[0].dtype, params[0].device
        dense = [is_dense(p) for p in params]
        # A parameter with gaps is copied, and copied back after the step.
        self._copied = [i for i, is_dense in enumerate(dense) if not is_dense]
        likes = [p if d else torch.empty_like(p, memory_format=torch.contiguous_format)
                 for p, d in zip(params, dense, strict=True)]  # fmt: skip
        self._strides = [like.stride() for like in likes]
        for state, like in zip(states, likes, strict=True):
            _complete(state, like, kinds)
        self._kept = self._current()
        self.table = Table([p.numel() for p in params], 2 + len(kinds), elements, self.device)
        for i, tensors in enumerate(self._kept):
            self.table.point(2 + i, [t.data_ptr() for t in tensors])

    def _current(self) -> list[list[Any]]:
        return [[state[name] for state in self.states] for name in self.names]

    def serves(self, params: Sequence[Any]) -> bool:
        """Whether these are its parameters, with the states that its table has."""
        if len(params) != len(self.params) or not all(map(operator.is_, params, self.params)):
            return False
        pairs = zip(self._current(), self._kept, strict=True)
        return all(all(map(operator.is_, now, kept)) for now, kept in pairs)

    def run(self, launch: Callable[[Sequence[Sequence[Any]]], None]) -> None:
        """Points the table at parameters and gradients, and launches with all lists."""
        params, grads = list(self.params), [p.grad for p in self.params]
        for i in self._copied:
            params[i] = params[i].detach().contiguous()
        for i, (grad, strides) in enumerate(zip(grads, self._strides, strict=True)):
            if grad.stride() != strides or grad.dtype != self.dtype or grad.is_sparse:
                grads[i] = _laid_out(grad, params[i])
        self.table.point(0, [p.data_ptr() for p in params])
        self.table.point(1, [g.data_ptr() for g in grads])
        launch([params, grads, *self._kept])
        for i in self._copied:
            self.params[i].copy_(params[i])


def is_dense(tensor: Any) -> bool:
    """Whether the elements are without gaps in memory, in whatever order of the dimensions."""
    return memory_order(layout(tensor)) is not None


def _laid_out(grad: Any, like: Any) -> Any:
    """A gradient in the dtype and memory order of its parameter."""
    if grad.is_sparse:
        raise ArgumentError(
            "weft.optim: a gradient is sparse", got=str(grad.layout), allowed="torch.strided",
            next="sparse=False in the layer that made it",
        )  # fmt: skip
    return torch.empty_like(like).copy_(grad)


def _complete(state: dict[str, Any], like: Any, kinds: Mapping[str, Make]) -> None:
    """Makes missing states; loaded ones get the dtype, device and memory order of new ones."""
    for name, make in kinds.items():
        kept = state.get(name)
        if kept is None:
            state[name] = make(like)
            continue
        fresh = make(like)
        same = kept.dtype == fresh.dtype and kept.device == fresh.device
        if not same or kept.stride() != fresh.stride():
            state[name] = fresh.copy_(kept)
