"""Shows the statistics of a timeline in the terminal, as `nsys stats` does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.report import words
from weft.report.words import Block, Table
from weft.values.time.timeline import Statistic, Timeline

_TITLES = {
    "calls": "calls of the host",
    "kernels": "kernels",
    "copies": "copies and fills",
    "ranges": "NVTX ranges",
}
_ROWS = 12
_SHOWN = 3
"""The gaps and hints that are listed."""


def view(value: Timeline) -> Iterator[Block]:
    """The totals, the critical path, gaps, hints, and a table for each kind of event."""
    seconds = value.seconds
    yield "", ""
    yield f"timeline of {value.program} on {value.gpu}, {value.clock} time", "bold"
    yield (
        (
            f"{_time(seconds)} in all; the GPU is busy {_part(value.busy, seconds)}, with "
            f"several things at once {_part(value.overlap, seconds)}"
        ),
        "",
    )
    path = ", ".join(f"{name} {_part(s, seconds)}" for name, s in value.critical[:_SHOWN])
    yield f"critical path: {path}", ""
    for gap in value.gaps[:_SHOWN]:
        yield (f"idle for {_time(gap.seconds)} at {_time(gap.start)}: {gap.why}", "")
    for hint in value.hints[:_SHOWN]:
        yield said(value, hint.copy, hint.kernel, hint.seconds), "yellow"
        yield f"  {hint.why}", ""
    if len(value.hints) > _SHOWN:
        yield f"and {len(value.hints) - _SHOWN} more copies that could overlap with kernels", ""
    for kind, title in _TITLES.items():
        if rows := value.statistics.get(kind):
            yield "", ""
            yield title, "bold"
            yield _table(rows, sized=kind == "copies")
            if len(rows) > _ROWS:
                yield f"and {len(rows) - _ROWS} more", "dim"


def said(value: Timeline, copy: int, kernel: int, seconds: float) -> str:
    """The sentence of a hint."""
    one, other = value.events[copy], value.events[kernel]
    nbytes = words.size(one.facts.get("bytes", 0))
    return (
        f"copies could overlap with kernels here: {one.name} of {nbytes} at "
        f"{_time(one.start)} with {words.kernel(other.name)}, "
        f"{_time(seconds)}"
    )


def _time(seconds: float) -> str:
    """A duration; sums of equal times are rounded to one."""
    return words.duration(round(seconds, 12))


def _part(seconds: float, whole: float) -> str:
    return f"{100 * seconds / whole:.1f} %" if whole else "0 %"


def _table(rows: Sequence[Statistic], *, sized: bool) -> Table:
    total = sum(row.total for row in rows)
    columns = ["share", "total", "calls", "mean", "least", "most", *["bytes"] * sized, "name"]
    return Table(
        columns,
        [
            [
                _part(row.total, total), _time(row.total), f"{row.calls:,}",
                *map(_time, (row.mean, row.least, row.most)),
                *[words.size(row.nbytes)] * sized, words.kernel(row.name),
            ]
            for row in rows[:_ROWS]
        ],
        columns[:-1],
    )  # fmt: skip
