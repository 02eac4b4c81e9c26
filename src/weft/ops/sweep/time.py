"""Time calls on a GPU: as users make them, alone, and by the host clock."""

from __future__ import annotations

import functools
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

ROUNDS = 5
"""Samples of each contender; they take turns, so that a slow moment meets all of them."""
LEAST = 0.5e-3
"""Seconds that a sample should last."""
LONG = 0.05
"""Seconds that all samples of a contender may last; one sample is taken in any case."""
MOST = 400
"""Calls in a sample at the most."""
MOST_CAPTURED = 64
"""Calls in a graph at the most, but one with each set of arguments."""

Function = Callable[[], Any]
Clock = Callable[[Sequence[Function]], list[float]]
"""Seconds per call of each contender."""


def as_called(contenders: Sequence[Function]) -> list[float]:
    """Seconds per call of each contender, as the GPU sees a row of eager calls: medians."""
    once = [_once(f) for f in contenders]
    counts = [max(1, min(MOST, round(LEAST / seconds))) for seconds in once]
    return _medians(contenders, counts, max(1, min(ROUNDS, int(LONG / max(once)))))


def _medians(contenders: Sequence[Function], counts: Sequence[int], rounds: int) -> list[float]:
    """The median seconds of each contender, which take turns in a new order every round."""
    samples: list[list[float]] = [[] for _ in contenders]
    order, rng = list(range(len(contenders))), random.Random(0)
    for _ in range(rounds):
        rng.shuffle(order)
        for i in order:
            samples[i].append(_sample(contenders[i], counts[i]))
    return [statistics.median(times) for times in samples]


def _sample(f: Function, n: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(n):
        f()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3 / n


def _once(f: Function) -> float:
    """About the seconds of a call."""
    f()
    torch.cuda.synchronize()
    once = _sample(f, 1)
    if once < LEAST:  # one call is too short to be timed alone
        once = _sample(f, 3)
    return max(once, 1e-7)


def settle(most: float = 0.5) -> None:
    """Wait until no kernels of other, stopped processes are left on the GPU.

    While there are, a small copy waits for their time slice. Gives up after `most` seconds.
    """
    x = torch.zeros(1, device="cuda")
    end = time.perf_counter() + most
    quick = 0
    while quick < 2 and time.perf_counter() < end:
        begin = time.perf_counter()
        x.add_(1)
        torch.cuda.synchronize()
        quick = quick + 1 if time.perf_counter() - begin < 2e-4 else 0


def host(contenders: Sequence[Function], calls: int = 200) -> list[float]:
    """Seconds of the host per call, for tensors so small that the GPU keeps up: medians."""
    samples: list[list[float]] = [[] for _ in contenders]
    for f in contenders:
        for _ in range(100):
            f()
    for _ in range(ROUNDS):
        for f, times in zip(contenders, samples, strict=True):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(calls):
                f()
            times.append((time.perf_counter() - begin) / calls)
    return [statistics.median(times) for times in samples]


def in_graphs(contenders: Sequence[Function], least: int = 1) -> list[float]:
    """Seconds per call of each contender in a CUDA graph of at least so many calls: medians.

    The host takes no part. Contenders take turns.
    """
    once = [_once(f) for f in contenders]
    counts = [max(least, min(MOST_CAPTURED, round(LEAST / seconds))) for seconds in once]
    graphs = [_captured(f, n) for f, n in zip(contenders, counts, strict=True)]
    whole = max(n * seconds for n, seconds in zip(counts, once, strict=True))
    rounds = max(2, min(ROUNDS, int(LONG / whole)))
    seconds = _medians([g.replay for g in graphs], [1] * len(graphs), rounds)
    return [s / n for s, n in zip(seconds, counts, strict=True)]


@functools.cache
def _side_stream() -> torch.cuda.Stream:
    """The stream on which graphs are captured; the default one cannot be."""
    return torch.cuda.Stream()


def _captured(f: Function, calls: int) -> torch.cuda.CUDAGraph:
    """A graph of calls, replayed once."""
    graph, stream = torch.cuda.CUDAGraph(), _side_stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        f()  # libraries allocate what they need on a stream at their first call
        torch.cuda.synchronize()
        # `torch.cuda.graph` would collect garbage first, which takes longer than all samples.
        graph.capture_begin()
        try:
            for _ in range(calls):
                f()
        finally:
            graph.capture_end()
    torch.cuda.synchronize()
    graph.replay()
    torch.cuda.synchronize()
    return graph


def alone(f: Function, launches: int = 20) -> float:
    """Seconds per call without the host: replays of a CUDA graph of several calls."""
    f()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            f()
    graph.replay()
    times = []
    for _ in range(ROUNDS):
        times.append(_sample(graph.replay, 1) / launches)
    return statistics.median(times)
