"""Formats predicted times: a table of kernels by GPU, and the lines where warps wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from weft.report import words
from weft.report.words import WIDTH, Block, Styled, Table
from weft.values.time.prediction import LineStalls, Prediction

LINES = 8
"""The number of source lines shown for a kernel."""
REASONS = 3


def view(
    counted: str, names: Mapping[str, str], launches: Sequence[Sequence[Prediction]]
) -> Iterator[Block]:
    """The predicted times of all launches, then the stalls of each on the first GPU."""
    yield from times(counted, names, launches)
    for row in launches:
        yield from stalls(row[0])


def times(
    counted: str, names: Mapping[str, str], launches: Sequence[Sequence[Prediction]]
) -> Iterator[Block]:
    """The predicted times of all launches, with what bounds each."""
    yield "Predicted time of a launch (modelled; docs/predict.md has its errors)", "bold"
    yield f"counters are those of a simulated {counted}", "dim"
    columns = ["kernel", "launches", *(part for key in names for part in (key, f"{key}: bound by"))]
    rows = [
        [row[0].kernel, str(row[0].launches), *(cell for one in row for cell in cells(one))]
        for row in launches
    ]
    yield Table(columns, rows, ("launches", *names))
    if len(launches) > 1:
        columns_of = zip(*launches, strict=True)
        totals = (sum(one.seconds * one.launches for one in col) for col in columns_of)
        spent = ", ".join(
            f"{key} {words.duration(t)}" for key, t in zip(names, totals, strict=True)
        )
        yield f"all launches, one after the other: {spent}", ""
    unknown = [key for key, one in zip(names, launches[0], strict=True) if not one.judged]
    if unknown:
        verb = "was" if len(unknown) == 1 else "were"
        yield f"{', '.join(unknown)} {verb} never measured: rates are of data sheets", "yellow"


def cells(one: Prediction) -> tuple[str, str]:
    """The predicted time, marked as modelled, and what bounds the launch."""
    return f"~{words.duration(one.seconds)}", one.bound


def stalls(one: Prediction) -> Iterator[Styled]:
    """The lines that take most of the warps' time, and why."""
    shown = one.stalls[:LINES]
    if not shown:
        return
    yield "", ""
    yield f"{one.kernel} on {one.gpu}: where warps spend their time", "bold"
    for line in shown:
        place = f"line {line.number}" if line.number else "no line"
        yield f"  {line.share:>4.0%}  {place:<9} {reasons(line)}", ""
        if line.quote:
            yield f"        {line.quote.strip()}"[:WIDTH], "dim"


def reasons(line: LineStalls) -> str:
    """The stall reasons of a line that take most time, each with its part."""
    return ", ".join(f"{name} {part:.0%}" for name, part in [*line.reasons.items()][:REASONS])
