"""Results of single candidates of an op, by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

import draw
from weft.ops.core import library
from weft.ops.core.runner import runner
from weft.ops.core.target import named


def by(name: str, op: str, *args: Any, gpu: str = "", **options: Any) -> Any:
    """The result of the candidate whose name has these words.

    gpu  the model that it is a candidate for; else that of the tensors
    """
    function = library.function(op)
    values = function.bound(args, options)
    request = function.request(*values)
    choice = function.choice(replace(request, target=named(gpu)) if gpu else request)
    offered = [c for c in (choice.used, *choice.others) if name in c.name]
    assert offered, [c.name for c in (choice.used, *choice.others)]
    inputs = [v for v, a in zip(values, function.arguments, strict=True) if "Tensor" in str(a.type)]
    return runner(offered[0].build(), len(inputs), inputs[0].device)(*inputs)


def tensor(*shape: int, dtype: Any = None) -> Any:
    """Normally distributed numbers, or integers from -9 to 9."""
    generator = draw.seeded(sum(shape) + len(shape))
    if dtype is not None and not dtype.is_floating_point:
        return generator.integers(-9, 10, shape, dtype=dtype)
    return generator.normal(*shape).to(dtype or torch.float32)
