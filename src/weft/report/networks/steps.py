"""Formats the times of steps of networks as tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from weft.report.words import Block, Table
from weft.values.networks import NetworkCase, NetworkTime, NetworkTimes, mean, own

TIMES = (
    "step",
    "contender",
    "ms",
    "graph ms",
    "peak GB",
    "first s",
    "second s",
    "losses differ by",
)
LISTED = ("step",)
CHECKED = ("step", "contender", "first loss", "last loss", "losses differ by")


def summary(times: NetworkTimes) -> Iterator[Block]:
    """A row per contender of each step, the ratios, and what went wrong."""
    timed = any(r.seconds for t in times.times for r in t.results.values())
    if timed:
        rows = [row for t in times.times for row in _rows(t)]
        yield Table(TIMES, rows, TIMES[2:])
        yield from _ratios(times.times)
    else:
        yield Table(CHECKED, [row for t in times.times for row in _checked(t)], CHECKED[2:])
    yield from _problems(times)
    wrong = sum(bool(t.wrong) for t in times.times)
    text = f"\n{len(times.times)} of {times.asked} steps: {len(times.failed)} failed, {wrong} wrong"
    yield text, "bold"


def _rows(t: NetworkTime) -> Iterator[tuple[str, ...]]:
    for number, (name, r) in enumerate(t.results.items()):
        yield (
            "" if number else t.case.words,
            f"{name} (alone)" if r.alone else name,
            _ms(r.time("called")),
            _ms(r.time("graph")),
            f"{r.memory / 1e9:.1f}" if r.memory else "",
            *("" if math.isnan(s) else f"{s:.1f}" for s in (r.first, r.second)),
            _apart(t, name),
        )


def _checked(t: NetworkTime) -> Iterator[tuple[str, ...]]:
    for number, (name, r) in enumerate(t.results.items()):
        losses = [f"{r.losses[i]:.5f}" if r.losses else "" for i in (0, -1)]
        yield "" if number else t.case.words, name, *losses, _apart(t, name)


def _ratios(times: Sequence[NetworkTime]) -> Iterator[Block]:
    yield "\nPyTorch's fastest contender over weft's fastest: above 1, weft is faster", "bold"
    rows = [
        (t.case.words, *(_ratio(t.ratio(clock)) for clock in ("called", "graph", "")))
        for t in times
    ]
    means = (_ratio(mean(t.ratio(clock) for t in times)) for clock in ("called", "graph", ""))
    header = ("step", "as called", "graph", "best of both")
    yield Table(header, [*rows, ("geometric mean", *means)], header[1:])


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2f}" if math.isfinite(seconds) else ""


def _ratio(number: float) -> str:
    return "" if math.isnan(number) else f"{number:.2f}"


def _apart(t: NetworkTime, name: str) -> str:
    apart = t.apart(name)
    return "" if math.isnan(apart) else f"{apart:.1e}"


def _problems(times: NetworkTimes) -> Iterator[Block]:
    for t in times.times:
        for name in t.wrong:
            graph = t.results[name].graph_apart
            apart = f"{_apart(t, name) or 0}, those of its graph by {graph:.1e}"
            yield f"WRONG: the losses of {name} differ by {apart}: {t.case.words}", "red"
        for name, r in t.results.items():
            if r.failed:
                yield f"{name} failed: {r.failed}: {t.case.words}", "red" if own(name) else "yellow"
            if r.graph_failed:
                yield f"{name} has no graph: {r.graph_failed}: {t.case.words}", "yellow"


def listed(cases: Sequence[NetworkCase]) -> Iterator[Block]:
    """The steps by their words."""
    yield Table(LISTED, [(case.words,) for case in cases], ())
    yield f"\n{len(cases)} steps", "bold"
