"""Formats the times of layer calls of models as tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from weft.report.words import Block, Table
from weft.values.models import CLOCKS, LIMITS, LayerCall, LayerTime, ModelTimes, groups, speeds

SUMMARY = ("calls of", "number", *(
    f"{clock} {what}" for clock in CLOCKS for what in ("mean", "worst", *(f"< {x}" for x in LIMITS))
))  # fmt: skip
WORST = ("ratio", "call", "kernel", "µs by contender", "tensors")
CHECKED = ("error", "PyTorch's", "call", "kernel", "tensors")
BACKENDS = ("cudnn", "flash")
LISTED = ("call", "kind", "GFLOP", "MB", "least µs", "bound", "tensors")


def of_gpu(times: ModelTimes) -> Iterator[Block]:
    """The summary under the name of the GPU."""
    yield f"\n{times.gpu}", "bold"
    yield from summary(times)


def summary(times: ModelTimes) -> Iterator[Block]:
    """One row per group of calls, the worst calls by each clock, and what went wrong."""
    if any(t.result.seconds for t in times.times):
        rows = [_row(name, found) for name, found in groups(times.times).items()]
        yield Table(SUMMARY, rows, SUMMARY[1:])
        yield (
            "\nmean: geometric mean of the time of the best peer over weft's. eager: as called;"
            " graph: in a CUDA graph, without the host.",
            "dim",
        )
        for clock in CLOCKS:
            yield f"\nthe worst calls, {clock}", "bold"
            found = [_worst(t, clock) for t in times.worst(clock)]
            yield Table(WORST, found, WORST[:1])
    else:
        yield Table(CHECKED, [_checked(t) for t in times.times], CHECKED[:2])
    yield from _problems(times)
    yield (
        f"\n{len(times.times)} of {times.drawn} calls of seed {times.seed}: {len(times.wrong)}"
        f" wrong, {len(times.imprecise)} less precise than PyTorch",
        "bold",
    )


def _checked(t: LayerTime) -> tuple[str, ...]:
    errors = [f"{t.result.errors[who]:.1e}" if t.result.errors else "" for who in ("weft", "torch")]
    return *errors, t.layer.words, t.result.plan, t.layer.call


def _row(name: str, found: Sequence[LayerTime]) -> list[str]:
    cells = []
    for clock in CLOCKS:
        s = speeds(found, clock)
        cells += [_ratio(s.mean), _ratio(s.worst), *map(str, s.below)]
    return [name, str(len(found)), *cells]


def _ratio(number: float) -> str:
    return "" if math.isnan(number) else f"{number:.2f}"


def _worst(t: LayerTime, clock: str) -> tuple[str, ...]:
    times = _times(t.seconds(clock))
    return _ratio(t.ratio(clock)), t.layer.words, t.result.plan, times, t.layer.call


def _times(seconds: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {1e6 * s:.1f}" for name, s in seconds.items())


def _problems(times: ModelTimes) -> Iterator[Block]:
    for t in times.times:
        if t.result.wrong and "weft" not in t.result.failed:
            yield f"WRONG by {t.result.error:.3g} x the allowed error: {t.layer.words}", "red"
        for who, reason in t.result.failed.items():
            if who in BACKENDS:  # no backend takes every call
                continue
            yield f"{who} failed: {reason}: {t.layer.words}", "red" if who == "weft" else "yellow"
    for t in times.imprecise:
        weft, torch = (t.result.errors[who] for who in ("weft", "torch"))
        yield f"error {weft:.2e}, PyTorch's {torch:.2e}: {t.layer.words}", "red"


def listed(calls: Sequence[LayerCall]) -> Iterator[Block]:
    """The calls with their FLOPs, bytes and least times."""
    rows = [
        (
            c.words,
            c.kind,
            f"{c.flops / 1e9:.1f}",
            f"{c.moved / 1e6:.1f}",
            f"{1e6 * c.least:.1f}",
            c.bound,
            c.call,
        )
        for c in calls
    ]
    yield Table(LISTED, rows, LISTED[2:5])
    yield f"\n{len(calls)} calls; the least times are those of an H200", "bold"
