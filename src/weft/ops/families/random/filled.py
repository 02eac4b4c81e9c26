"""Make new tensors of random numbers, with a plan that is found by size, dtype and device alone.

The ops take a tensor that says shape and dtype, which torch.compile and fake tensors need. Making
it takes as long as all the rest of a call, so eager calls on a GPU store their plan here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from weft.ops.core import eager, library
from weft.ops.core.function import Entry
from weft.ops.core.native.calls import Calls
from weft.ops.core.native.launches import NONE
from weft.ops.core.native.loaded import capturing
from weft.ops.families.random.start import moved_by, source, start, taken

REMEMBERED = 8192
"""The most plans that an op keeps; when exceeded, all are dropped."""

# Bound once, as in eager.py.
_compiling = torch.compiler.is_dynamo_compiling


class _Ready(NamedTuple):
    """A plan, the generator that it draws from, and how far it moves that one."""

    entry: Entry
    generator: Any
    moved: int


class Filled:
    """The calls of an op that fills a new tensor; `seeded` is the op that takes seed and offset."""

    def __init__(self, name: str, seeded: str) -> None:
        self._name, self._seeded = name, library.function(seeded)
        self._ready: dict[Any, _Ready] = {}
        self._native = Calls([False] * 4)

    def __call__(
        self, size: Any, numbers: Sequence[float], generator: Any, dtype: Any, device: Any
    ) -> Any:
        """A new tensor; `numbers` are the options of the distribution."""
        if generator is not None or device is None or _compiling():
            return self._drawn(size, numbers, generator, dtype, device)
        result = self._native.call(size, numbers, dtype, device)
        if result is not NotImplemented:
            return result
        if eager.unseen() and not capturing():
            key = (tuple(size) if type(size) is list else size, numbers, dtype, device)
            ready = self._ready.get(key) or self._made(key)
            if ready is not None:
                entry, *drawn = ready
                if entry.record.open:
                    args = size, numbers, dtype, device
                    self._native.learn(entry, args, (NONE, NONE), ready[1:])
                return entry.run(None, None, *taken(*drawn))
        return self._drawn(size, numbers, generator, dtype, device)

    def _drawn(
        self, size: Any, numbers: Sequence[float], generator: Any, dtype: Any, device: Any
    ) -> Any:
        like = _like(size, dtype, device)
        begin = start(self._name, like.numel(), like.device, generator)
        return self._seeded.call(like, *numbers, *begin)

    def _made(self, key: Any) -> _Ready | None:
        """The plan of a new size, if it is one for a certain GPU."""
        size, numbers, dtype, device = key
        place = torch.device(device)
        # A device without a number is the current one, which may be another in the next call.
        if place.type != "cuda" or (place.index is None and torch.cuda.device_count() > 1):
            return None
        if len(self._ready) >= REMEMBERED:
            self._ready.clear()
            self._native.forget()
        like = _like(size, dtype, device)
        request = self._seeded.request(like, *numbers, 0, 0, None)
        entry = self._seeded.entry_of(request, like.device)
        ready = _Ready(entry, source(place), moved_by(like.numel(), place))
        self._ready[key] = ready
        return ready


def _like(size: Any, dtype: Any, device: Any) -> torch.Tensor:
    """A tensor of this shape whose memory is one element."""
    return torch.empty((), dtype=dtype, device=device).expand(*size)


def size_of(size: tuple[Any, ...]) -> Any:
    """The sizes of a call that gives them one by one, or as one sequence."""
    return size[0] if len(size) == 1 and not isinstance(size[0], int) else size
