"""Times of CUDA graphs that take turns in a random order, and a record of them: for scripts that
compare kernels.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
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


def race(
    contenders: Mapping[str, Callable[[], Any]],
    calls: int,
    judge: Callable[[Callable[[], Any]], float],
    *,
    once: bool,
    rounds: int = 12,
) -> dict[str, dict[str, Any]]:
    """Microseconds of each contender in graphs of so many calls, its error, why others failed.

    judge  makes a call and returns its error
    once   leaves out the times, for a profiler
    """
    row: dict[str, dict[str, Any]] = {"us": {}, "error": {}, "failed": {}}
    graphs = {}
    for name, call in contenders.items():
        try:
            row["error"][name] = judge(call)
            torch.cuda.synchronize()
            if not once:
                graphs[name] = graph(call, calls)
        except (RuntimeError, IndexError) as e:
            row["failed"][name] = str(e)[:200]
    if not once:
        timed(graphs, 2, calls)
        row["us"] = timed(graphs, rounds, calls)
    return row


class Session:
    """A run of a script: [seconds] [--once] [words of calls ...].

    Rows go to $OUT/NAME.jsonl. Nothing is begun after so many seconds.
    """

    def __init__(self, name: str, seconds: float) -> None:
        words = [w for w in sys.argv[1:] if not w.startswith("--")]
        self.start = time.monotonic()
        self.limit = float(words[0]) if words else seconds
        self.only = words[1:]
        self.once = "--once" in sys.argv
        self.path = Path(os.environ.get("OUT", ".")) / f"{name}.jsonl"

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    def wants(self, name: str) -> bool:
        """True if a call has one of the words, or no words were given."""
        return not self.only or any(w in name for w in self.only)

    def has_time(self, name: str) -> bool:
        """True before the limit; else print what is left out."""
        if self.spent <= self.limit:
            return True
        print("no time left for", name, flush=True)
        return False

    def note(self, row: dict[str, Any]) -> None:
        """Append a row, with the GPU and the seconds so far."""
        row |= {"gpu": torch.cuda.get_device_name(), "seconds": self.spent}
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")
