"""The functions that record calls of one plan, in C++ where there is a recipe for a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from weft.device import driver
from weft.device.gpu import native_launch
from weft.ops.native import build, launches, record

ON_CPU = False
"""True: calls on the simulated GPU are recorded by the C++ code as well, as tests do."""


def unknown(*tensors: Any) -> Any:
    """Records nothing: the call has no recipe yet."""
    return NotImplemented


class Recorders(dict[int, Any]):
    """Recording functions by the number of results that they return; see `eager.differentiable`."""

    def __init__(self) -> None:
        super().__init__()
        self._capsules: dict[int, Any] = {}
        self._refused: set[tuple[int, int]] = set()

    def __missing__(self, results: int) -> Any:
        return unknown

    def add(self, op: Any, entry: Any, results: int, args: Sequence[Any]) -> bool:
        """Makes the recipe for calls like this one; False if there is none, or not yet."""
        module = _module(entry.device)
        if module is None:
            return False
        tensors = [a for a, row in zip(args, op.arguments, strict=True) if row.name in op.tensors]
        wanted = sum(t.requires_grad << i for i, t in enumerate(tensors) if t is not None)
        if (results, wanted) in self._refused:
            return False
        # Also for a recipe that is made: a call that it refuses must not make another one.
        self._refused.add((results, wanted))
        try:
            recipe = record.recipe(op, entry, results, args)
        except (record.Refused, torch.OutOfMemoryError):  # a recipe needs the results twice
            return False
        if results not in self._capsules:
            self._capsules[results] = module.recorder(len(tensors))
            self[results] = module.recording(self._capsules[results])
        module.add(self._capsules[results], wanted, recipe)
        return True


def _module(device: torch.device) -> Any:
    """The C++ code, where it may be used on a device and is compiled."""
    if device.type == "cuda":
        # With several GPUs, launches look at the current context first, in Python.
        known = driver.count() == 1 and hasattr(torch.Tensor, native_launch.EXCHANGE)
        return _for_gpus() if known and not record.capturing() else None
    return build.started().module if ON_CPU else None


_CONFIGURED: list[Any] = []


def _for_gpus() -> Any:
    module = build.started().module
    if module is not None and not _CONFIGURED:
        launches.configure(module)
        _CONFIGURED.append(module)
    return module
