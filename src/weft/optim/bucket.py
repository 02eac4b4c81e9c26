"""Parameters that one launch of an optimiser changes, with their gradients and states.

All are on one device and have one dtype. A table has their addresses; every step compares them
with those that the tensors have now.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core.layouts import memory_order
from weft.ops.core.plan import layout
from weft.optim.sharded import is_sharded, local
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
        self.params, self.first, self.names = params, first, tuple(kinds)
        self.dtype, self.device = params[0].dtype, params[0].device
        # Of a parameter that is divided over processes, this one's part is changed. Its states are
        # divided as well, so that PyTorch can join them for a checkpoint.
        self._sharded = any(map(is_sharded, params))
        parts = self._parts(params)
        # A parameter with gaps is copied, and copied back after the step.
        self._copied = [i for i, p in enumerate(parts) if not is_dense(p)]
        likes = [p if is_dense(p) else p.detach().contiguous() for p in parts]
        grads = self._parts([p.grad for p in params])
        self._relaid = [i for i, (grad, like) in enumerate(zip(grads, likes, strict=True))
                        if _differs(grad, like)]  # fmt: skip
        for state, like, p in zip(states, likes, params, strict=True):
            _complete(state, p if is_sharded(p) else like, kinds)
        self._states, self._pick = states, _picker(self.names)
        self._kept = self._current()
        self.table = Table([p.numel() for p in parts], 2 + len(kinds), elements, self.device)
        count = len(kinds)
        self.lists = [self._parts(self._kept[i::count]) for i in range(count)]
        for i, tensors in enumerate(self.lists):
            self.table.point(2 + i, [t.data_ptr() for t in tensors])

    def _parts(self, tensors: Sequence[Any]) -> list[Any]:
        return [local(t) for t in tensors] if self._sharded else list(tensors)

    def _current(self) -> list[Any]:
        return list(chain.from_iterable(map(self._pick, self._states)))

    def is_current(self) -> bool:
        """True if its table has the states that the parameters have now."""
        return not self.first and all(map(operator.is_, self._current(), self._kept))

    def run(self, launch: Callable[[Sequence[Sequence[Any]]], None]) -> None:
        """Point the table at parameters and gradients, and launch with all lists."""
        own = self._parts(self.params)
        params, grads = list(own), self._parts([p.grad for p in self.params])
        for i in self._copied:
            params[i] = params[i].detach().contiguous()
        for i in self._relaid:
            grads[i] = torch.empty_like(params[i]).copy_(grads[i])
        self.table.point(0, [p.data_ptr() for p in params])
        self.table.point(1, [g.data_ptr() for g in grads])
        launch([params, grads, *self.lists])
        for i in self._copied:
            own[i].copy_(params[i])


def _picker(names: Sequence[str]) -> Callable[[Any], Sequence[Any]]:
    if len(names) > 1:
        return operator.itemgetter(*names)
    return lambda state: [state[name] for name in names]


def _differs(grad: Any, like: Any) -> bool:
    """True if a gradient must be copied to have the dtype and memory order of its parameter."""
    if grad.layout is not torch.strided:
        raise ArgumentError(
            "weft.optim: a gradient is sparse",
            got=str(grad.layout),
            allowed="torch.strided",
            next="sparse=False in the layer that made it",
        )
    return bool(grad.stride() != like.stride() or grad.dtype != like.dtype)


def is_dense(tensor: Any) -> bool:
    """True if the elements are without gaps in memory, in any order of the dimensions."""
    return memory_order(layout(tensor)) is not None


def _complete(state: dict[str, Any], like: Any, kinds: Mapping[str, Make]) -> None:
    """Make missing states; loaded ones get the dtype, device and memory order of new ones."""
    for name, make in kinds.items():
        kept = state.get(name)
        if kept is None:
            state[name] = make(like)
            continue
        fresh = make(like)
        same = kept.dtype == fresh.dtype and kept.device == fresh.device
        if not same or kept.stride() != fresh.stride():
            state[name] = fresh.copy_(kept)
