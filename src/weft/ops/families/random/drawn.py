"""Draw random numbers for a tensor, with the generator's seed and offset taken by C++ code."""

from __future__ import annotations

from typing import Any

import torch

from weft.ops.core import eager, library
from weft.ops.core.native.calls import Calls
from weft.ops.families.random.start import moved_by, source, start

# Bound once, as in eager.py.
_compiling = torch.compiler.is_dynamo_compiling


class Drawn:
    """The calls of an op that draws a number for each element of a tensor, also with a gradient.

    seeded   the op that takes seed and offset behind the tensor and its options
    options  the number of its options
    """

    def __init__(self, name: str, seeded: str, options: int) -> None:
        self._name, self._seeded = name, library.function(seeded)
        self._native = Calls([True, *[False] * options, True])

    def __call__(self, x: Any, *options: Any, generator: Any = None) -> Any:
        if generator is None and not _compiling():
            result = self._native.call(x, *options, None)
            if result is not NotImplemented:
                return result
            if type(x) in eager.PLAIN and x.is_cuda and eager.unseen():
                self._learn(x, options)
        begin = start(self._name, x.numel(), x.device, generator)
        return self._seeded.call(x, *options, *begin)

    def _learn(self, x: Any, options: tuple[Any, ...]) -> None:
        entry = self._seeded.entry(x, *options, 0, 0, None)
        if entry.record.open:
            drawn = source(x.device), moved_by(x.numel(), x.device)
            self._native.learn(entry, (x, *options, None), (0, 1), drawn)
