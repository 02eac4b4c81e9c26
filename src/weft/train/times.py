"""Time per step, split into its parts: load, forward, backward, update.

On a GPU events are recorded between the parts. The parts of a step that is a CUDA graph are graphs
of their own here, so that launches take as long as in the whole graph. On the simulated GPU the
clock of the host is read: the time of a simulation, which says nothing about a GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from weft.train.batches import Fill
from weft.train.step import TrainingStep
from weft.values.training import PartTimes

LOAD = "load"
STEPS = {"cuda": 50, "cpu": 2}
"""Steps that are timed, by the type of the device."""
WARM_UP = {"cuda": 5, "cpu": 0}
HOW = {
    "cuda": "CUDA events between the parts, mean of {steps} steps",
    "cpu": "host time of the simulated GPU and of PyTorch on the CPU, mean of {steps} steps",
}


def part_times(step: TrainingStep, batches: Iterator[Fill], device: torch.device) -> PartTimes:
    """PartTimes the parts of further steps on these batches; the training goes on meanwhile."""
    kind = device.type
    steps, warm_up = STEPS[kind], WARM_UP[kind]
    stages = _graphs(step) if step.graphed else step.stages
    clock: _Events | _Clock = _Events() if kind == "cuda" else _Clock()
    done = 0
    for fill in batches:
        if done == steps + warm_up:
            break
        if done == warm_up:
            clock.clear()
        clock.begin()
        fill(step.pixels, step.classes)
        clock.end(LOAD)
        for name, run in stages.items():
            run()
            clock.end(name)
        done += 1
    taken = max(1, done - warm_up)
    parts = {name: seconds / taken for name, seconds in clock.seconds().items()}
    return PartTimes(parts, HOW[kind].format(steps=taken))


def _graphs(step: TrainingStep) -> dict[str, Callable[[], None]]:
    """The parts of a step, each as a CUDA graph; they share memory, as they do in one graph."""
    graphs: dict[str, Callable[[], None]] = {}
    pool: Any = torch.cuda.graph_pool_handle()
    for name, run in step.stages.items():
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            run()
        graphs[name] = graph.replay
    return graphs


class _Clock:
    """Reads the clock of the host."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._last = 0.0

    def clear(self) -> None:
        self._seconds.clear()

    def begin(self) -> None:
        self._last = time.perf_counter()

    def end(self, part: str) -> None:
        now = time.perf_counter()
        self._seconds[part] = self._seconds.get(part, 0.0) + now - self._last
        self._last = now

    def seconds(self) -> dict[str, float]:
        return self._seconds


class _Events:
    """Records CUDA events; their times are read at the end."""

    def __init__(self) -> None:
        self._last: Any = None
        self._pairs: list[tuple[str, Any, Any]] = []

    def clear(self) -> None:
        self._pairs.clear()

    def begin(self) -> None:
        self._last = self._record()

    def end(self, part: str) -> None:
        event = self._record()
        self._pairs.append((part, self._last, event))
        self._last = event

    def seconds(self) -> dict[str, float]:
        torch.cuda.synchronize()
        seconds: dict[str, float] = {}
        for part, first, last in self._pairs:
            seconds[part] = seconds.get(part, 0.0) + first.elapsed_time(last) / 1e3
        return seconds

    @staticmethod
    def _record() -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event
