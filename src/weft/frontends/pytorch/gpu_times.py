"""Times of kernels on a real GPU, by the call of a script that launched them.

Calls are marked with numbers in a trace of `torch.profiler`, which reads kernels from CUPTI. This
needs no permission for performance counters. A kernel belongs to the innermost mark around the
call of the CUDA runtime that launched it.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from weft.values.model import GpuKernel

PREFIX = "weft mark "
TUNING = -1
"""The mark of launches that an autotuner times."""

_ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
_LAUNCHES = ("cuda_runtime", "cuda_driver")
_MARKS = ("cpu_op", "user_annotation")

Thread = tuple[Any, Any]
"""(process, thread) of an event."""


class KernelTimes(NamedTuple):
    """Kernels by mark; those outside of all marks; the time that autotuners took on the GPU."""

    marked: dict[int, tuple[GpuKernel, ...]]
    others: tuple[GpuKernel, ...]
    tuning: float


class _Mark(NamedTuple):
    start: float
    end: float
    number: int
    outer: int
    """Index of the mark around it, or -1."""


def read(trace: Mapping[str, Any]) -> KernelTimes:
    """The kernels of a trace in Chrome's format."""
    events = [e for e in trace["traceEvents"] if e.get("ph") == "X"]
    marks = {thread: _nested(of) for thread, of in _by_thread(events).items()}
    launches = {
        e["args"]["correlation"]: ((e["pid"], e["tid"]), float(e["ts"]))
        for e in events
        if e.get("cat") in _LAUNCHES and "correlation" in e.get("args", {})
    }
    marked: dict[int, list[GpuKernel]] = {}
    others, tuning = [], 0.0
    for event in sorted(_on_device(events), key=lambda e: float(e["ts"])):
        thread, at = launches.get(event["args"].get("correlation"), (None, 0.0))
        number = _innermost(marks.get(thread, []), at) if thread else 0
        kernel = GpuKernel(event["name"], float(event["ts"]) / 1e6, float(event["dur"]) / 1e6,
                        int(event["args"].get("stream", 0)))  # fmt: skip
        if number == TUNING:
            tuning += kernel.seconds
        elif number:
            marked.setdefault(number, []).append(kernel)
        else:
            others.append(kernel)
    return KernelTimes({n: tuple(of) for n, of in marked.items()}, tuple(others), tuning)


def _on_device(events: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    return (e for e in events if e.get("cat") in _ON_DEVICE)


def _by_thread(events: Iterable[Mapping[str, Any]]) -> dict[Thread, list[tuple[float, float, int]]]:
    """The marks of each thread as (start, end, number)."""
    found: dict[Thread, list[tuple[float, float, int]]] = {}
    for e in events:
        if e.get("cat") in _MARKS and e["name"].startswith(PREFIX):
            start, number = float(e["ts"]), int(e["name"].removeprefix(PREFIX))
            mark = (start, start + float(e["dur"]), number)
            found.setdefault((e["pid"], e["tid"]), []).append(mark)
    return found


def _nested(marks: list[tuple[float, float, int]]) -> list[_Mark]:
    """The marks of one thread by their start, each with the mark around it."""
    out: list[_Mark] = []
    open_: list[int] = []
    # An outer mark may begin at the same time as its inner one: the longer comes first.
    for start, end, number in sorted(marks, key=lambda m: (m[0], -m[1])):
        while open_ and out[open_[-1]].end <= start:
            open_.pop()
        out.append(_Mark(start, end, number, open_[-1] if open_ else -1))
        open_.append(len(out) - 1)
    return out


def _innermost(marks: list[_Mark], at: float) -> int:
    """The number of the innermost mark at a time, or 0; TUNING if any mark around is of that."""
    index = bisect.bisect_right(marks, at, key=lambda m: m.start) - 1
    while index >= 0 and marks[index].end < at:
        index = marks[index].outer
    if index < 0:
        return 0
    number, outer = marks[index].number, index
    while outer >= 0:
        if marks[outer].number == TUNING:
            return TUNING
        outer = marks[outer].outer
    return number
