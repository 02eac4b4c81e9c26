"""The functions that record calls of one plan, in C++ where there is a recipe for a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from weft.ops.core.native import loaded, record

KEYS = 8
"""The most keys of a plan in the table of `calls.Calls`, such as `dim=1` and `dim=[1]`."""


def unknown(*tensors: Any) -> Any:
    """Records nothing: the call has no recipe yet."""
    return NotImplemented


class Recorders(dict[int, Any]):
    """Recording functions by the number of results that they return; see `eager.differentiable`.

    open  how many keys of the plan the C++ code may still learn
    """

    def __init__(self, open: int = 0) -> None:
        super().__init__()
        self.open = open
        self._capsules: dict[int, Any] = {}
        self._refused: set[tuple[int, int]] = set()

    def __missing__(self, results: int) -> Any:
        return unknown

    def add(self, op: Any, entry: Any, results: int, args: Sequence[Any]) -> bool:
        """Make the recipe for calls like this one; False if there is none, or not yet."""
        module = loaded.module(entry.device)
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
        recorder = self.capsule(module, results, len(tensors), len(op.definition.varying))
        self[results] = module.recording(recorder)
        module.add(recorder, wanted, recipe)
        return True

    def capsule(self, module: Any, results: int, tensors: int, words: int) -> Any:
        """The recipes of calls that return so many results, for the C++ code."""
        if results not in self._capsules:
            self._capsules[results] = module.recorder(tensors, words)
        return self._capsules[results]
