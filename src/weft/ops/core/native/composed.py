"""Calls of an op that are calls of two others, one after the other, as one program in C++."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from weft.ops.core.native import launches, loaded, record


class Part(NamedTuple):
    """A call of an op that is a part of another.

    op      a `function.Function`
    args    its arguments
    places  its tensors among those of the whole call, and then the results of the first part
    """

    op: Any
    args: tuple[Any, ...]
    places: tuple[int, ...]


def learn(whole: Any, args: Sequence[Any], first: Part, second: Part, written: list[int]) -> None:
    """Let the C++ code make calls of `whole`, a `function.Function`, with arguments like these.

    The first part has the gradient, and the call returns its first result. The second writes to
    the tensors with the numbers `written`.
    """
    tensors = [a for a, row in zip(args, whole.arguments, strict=True) if row.name in whole.tensors]
    device = next(t.device for t in tensors if t is not None)
    if loaded.module(device) is None:
        return
    entry = first.op.entry(*first.args)
    module = whole.native.opened(entry) if entry.record.open > 0 else None
    if module is None:
        return
    then = launches.step(second.op.entry(*second.args), second.places)
    start = launches.step(entry, first.places)
    if then is None or start is None:
        return
    count, steps = len(tensors), [then, ("written", written)]
    recorder = module.recorder(count, 0)
    wanted = sum(t.requires_grad << i for i, t in enumerate(tensors) if t is not None)
    if wanted and torch.is_grad_enabled():
        around = record.Around(count, first.places, steps)
        try:
            recipe = record.recipe(first.op, entry, 1, first.args, around)
        except (record.Refused, torch.OutOfMemoryError):
            return
        module.add(recorder, wanted, recipe)
    whole.native.enter(args, module.program([start, *steps], [count]), recorder)
