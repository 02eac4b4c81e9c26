"""The step that `weft.graph` returns: it finds the capture that serves a call, or makes one."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from weft.errors import CaptureError
from weft.ops.graph.capture import Capture
from weft.ops.graph.inputs import OBJECTS, Inputs, inputs
from weft.ops.graph.surroundings import Surroundings
from weft.ops.graph.watch import Watch


@dataclass
class _Kind:
    """Calls of one kind: how many have run without a graph, and their graphs.

    objects  arguments that their key has by identity, which another object must not get
    touches  whether a call reads or writes the gradients that it finds, as far as it is known
    """

    calls: int
    objects: list[Any]
    touches: bool = True
    captures: list[Capture] = field(default_factory=list)


class GraphedStep:
    """A step that runs as a CUDA graph; see `weft.graph`."""

    def __init__(self, step: Callable[..., Any], warmup: int, most: int, copy: bool) -> None:
        self._step, self._warmup, self._most, self._copy = step, warmup, most, copy
        self._around = Surroundings(step)
        self._kinds: dict[Any, _Kind] = {}
        self._last: tuple[Any, ...] | None = None
        self._stream: Any = None
        self._warned = False
        functools.update_wrapper(self, step, updated=())

    @property
    def captures(self) -> int:
        """The number of graphs."""
        return sum(len(kind.captures) for kind in self._kinds.values())

    def reset(self) -> None:
        """Drop all graphs; the next calls warm up again."""
        self._kinds.clear()

    def __call__(self, *args: Any, **options: Any) -> Any:
        given = inputs(args, options)
        key = (*given.key, *self._around.key())
        kind = self._kinds.get(key)
        if kind is None:
            return self._first(given)
        if not self._on_gpu(given):
            return given.call(self._step)
        grads = [p.grad for p in self._around.params]
        for capture in kind.captures:
            if capture.fits(grads):
                return capture.replay(given, grads, self._copy)
        if kind.calls >= self._warmup and self.captures < self._most:
            made = Capture(self._step, given, self._around.params, self._stream, kind.touches)
            kind.captures.append(made)
            return made.replay(given, made.after, self._copy)
        if kind.calls >= self._warmup:
            self._warn(given, key)
            return self._aside(given)
        kind.calls += 1
        if kind.calls > 2:  # as in the capture: a watched call takes other ways through torch
            return self._aside(given)
        watch = Watch(True, grads)
        with watch:
            result = self._aside(given)
        # Without gradients before the step, it is not known what it does to them.
        kind.touches = watch.touched or all(g is None for g in grads)
        return result

    # ---- without a graph -----------------------------------------------------------------------
    def _first(self, given: Inputs) -> Any:
        """The first call of a kind: it is watched."""
        if len(self._kinds) >= self._most and not self._warned:
            self._warn(given, (*given.key, *self._around.key()))
        numbers, versions = self._around.numbers(), [t._version for t in given.tensors]
        watch = Watch(False)
        with watch:
            result = self._aside(given)
        self._around.check_numbers(numbers)
        if [t._version for t in given.tensors] != versions:
            raise CaptureError(
                "weft.graph: the step writes to an argument, of which a graph has a copy",
                next="return the new tensor, or let the step use the tensor without being given it",
            )
        if self._around.add(watch):
            self._kinds.clear()  # their keys lack what is new
        self._check_devices(given)
        key = (*given.key, *self._around.key())  # with what the call has used
        self._kinds[key] = _Kind(1, [leaf for leaf in given.leaves if isinstance(leaf, OBJECTS)])
        self._last = key
        return result

    def _aside(self, given: Inputs) -> Any:
        """Call the step, on a GPU in the stream of captures: gradients belong to a stream."""
        if not self._on_gpu(given):
            return given.call(self._step)
        if self._stream is None:
            self._stream = torch.cuda.Stream()
        current = torch.cuda.current_stream()
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            result = given.call(self._step)
        current.wait_stream(self._stream)
        return result

    def _on_gpu(self, given: Inputs) -> bool:
        # Under `weft run`, whose graphs are simulated, all tensors are in the host's memory.
        if torch.cuda.CUDAGraph.__module__.startswith("weft."):
            return True
        return any(t.is_cuda for t in (*given.tensors, *self._around.params))

    def _check_devices(self, given: Inputs) -> None:
        kinds = {t.device.type for t in (*given.tensors, *self._around.params)}
        if "cuda" in kinds and len(kinds) > 1:
            raise CaptureError(
                "weft.graph: an argument is not on the GPU, where the step computes",
                got=", ".join(sorted(kinds)),
                next="x.to('cuda', non_blocking=True) before the call",
            )

    def _warn(self, given: Inputs, key: tuple[Any, ...]) -> None:
        """Say once what differs from the last kind of calls."""
        if self._warned:
            return
        self._warned = True
        labels = [*given.labels(), *self._around.labels()]
        pairs = zip(labels, key, self._last or (), strict=False)
        changed = [label for label, new, old in pairs if new != old]
        warnings.warn(
            f"weft.graph: calls are of more than {self._most} kinds; further ones run without a "
            f"graph. The last differs in {'; '.join(changed) or 'the gradients that it finds'}",
            stacklevel=3,
        )
