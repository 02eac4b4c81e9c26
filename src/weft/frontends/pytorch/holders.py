"""Finds who holds the memory of a PyTorch script: parameters, gradients, state, layers."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils import _pytree

from weft.frontends.pytorch.memory import Tracker
from weft.values.model import Allocation, MemoryLog, Origin

PARAMETERS, BUFFERS, GRADIENTS = "parameters", "buffers", "gradients"
STATE = "optimizer state"


class Holders:
    """The origin and the role of every allocation that a tracker counts."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._roles: dict[int, str] = {}
        self._places: dict[int, tuple[Origin, str]] = {}
        self._placed = 0
        self._modules: dict[int, Any] = {}
        """Modules that no other module calls. They are kept alive: an id must not return."""
        tracker.order = []

    def install(self) -> None:
        """Follow all modules, backward passes and optimizers from now on."""
        torch.nn.modules.module.register_module_forward_pre_hook(self._enter)
        register_optimizer_step_pre_hook(self._before_step)
        register_optimizer_step_post_hook(self._after_step)
        plain = torch.autograd.backward

        @functools.wraps(plain)
        def backward(*args: Any, **options: Any) -> Any:
            out = plain(*args, **options)
            self._mark(self._gradients(), GRADIENTS)
            return out

        # Hooks of tensors see a gradient before it is stored, and there is none for the pass.
        torch.autograd.backward = backward

    def place(self, place: Origin, phase: str) -> None:
        """Give the allocations since the last call this place."""
        for number in range(self._placed + 1, self._tracker.count + 1):
            self._places[number] = place, phase
        self._placed = self._tracker.count

    def log(self) -> MemoryLog:
        """Every allocation so far."""
        found = {
            number: Allocation(
                size, *self._places.get(number, (Origin(), "")), self._roles.get(number, "")
            )
            for number, size in self._tracker.sizes.items()
        }
        return MemoryLog(found, tuple(self._tracker.order or ()))

    def _enter(self, module: Any, _: Any) -> None:
        if id(module) in self._modules:
            return
        for part in module.modules():
            self._modules[id(part)] = part
        self._mark(module.parameters(), PARAMETERS)
        self._mark(module.buffers(), BUFFERS)

    def _gradients(self) -> Iterable[Any]:
        for module in self._modules.values():
            for parameter in module.parameters(recurse=False):
                if parameter.grad is not None:
                    yield parameter.grad

    def _before_step(self, optimizer: Any, *_: Any) -> None:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self._mark(parameters, PARAMETERS)
        self._mark([p.grad for p in parameters if p.grad is not None], GRADIENTS)

    def _after_step(self, optimizer: Any, *_: Any) -> None:
        leaves = _pytree.tree_leaves(list(optimizer.state.values()))
        self._mark([leaf for leaf in leaves if isinstance(leaf, torch.Tensor)], STATE)

    def _mark(self, tensors: Iterable[torch.Tensor], role: str) -> None:
        for tensor in tensors:
            number = self._tracker.number(tensor)
            if number:
                # A parameter stays one, although an optimizer may keep it in its state.
                self._roles.setdefault(number, role)
