"""The tables people read."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.table import Table

from simspeed.contest import Result


def geomean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def speed_table(results: Sequence[Result]) -> Table:
    """A row a case and mode: milliseconds, and how weft compares."""
    table = Table(title="weft against the same algorithm in C++ (g++ -O3 -march=native)")
    table.add_column("case")
    for name in ["1 core ms", "2 cores ms", "C++ ms", "rate on 1 core", "x C++", "1 to 2"]:
        table.add_column(name, justify="right")
    for r in results:
        for label in ["weft", "fast"]:
            if f"{label} 1" not in r.times:
                continue
            for twin in r.case.twins:
                table.add_row(*_row(r, label, f"c++ {twin}"))
    return table


def _row(r: Result, label: str, twin: str) -> list[str]:
    one, two = f"{label} 1", f"{label} 2"
    name = r.case.name + (" fast" if label == "fast" else "")
    if len(r.case.twins) > 1:
        name += f" : {twin.removeprefix('c++ ')}.cpp"
    return [
        name,
        *(f"{r.wall(c) * 1e3:.1f}" for c in (one, two, twin)),
        f"{r.case.work / r.wall(one) / 1e9:.3g} G{r.case.unit}/s",
        f"{r.ratio(twin, one, 'cpu'):.2f}",
        f"{r.ratio(one, two):.2f}",
    ]
