"""Times of CUDA graphs that take turns in a random order: for scripts that compare kernels."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable
from typing import Any

import torch


def graph(call: Callable[[], Any], calls: int, stream: Any = None) -> torch.cuda.CUDAGraph:
    """The graph of so many calls."""
    made = torch.cuda.CUDAGraph()
    with torch.cuda.graph(made, stream=stream):
        for _ in range(calls):
            call()
    return made


def timed(graphs: dict[str, torch.cuda.CUDAGraph], rounds: int, calls: int) -> dict[str, float]:
    """Median microseconds of a call, of graphs that have `calls` each."""
    names, events = list(graphs), []
    for _ in range(rounds):
        random.shuffle(names)
        for n in names:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graphs[n].replay()
            end.record()
            events.append((n, start, end))
    torch.cuda.synchronize()
    times: dict[str, list[float]] = {n: [] for n in graphs}
    for n, start, end in events:
        times[n].append(start.elapsed_time(end) * 1e3 / calls)
    return {n: statistics.median(t) for n, t in times.items()}
