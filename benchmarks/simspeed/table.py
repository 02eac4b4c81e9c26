"""The tables people read, from a record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.table import Table

from simspeed.record import BESIDE, TARGETS

Record = dict[str, Any]


def tables(record: Record) -> Iterator[Table]:
    """Kernels against C++, against other simulators, and the targets."""
    if record["cases"]:
        yield _speed(record)
    if any(record["others"].values()):
        yield _others(record)
    yield _targets(record)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(columns[0], no_wrap=True)
    for name in columns[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _speed(record: Record) -> Table:
    table = _table(
        "weft and the same algorithm in C++ (g++ -O3 -march=native), processor time",
        "kernel", "weft ms", "C++ ms", "rate", "x C++", "1 to 2", "at most",
    )  # fmt: skip
    for case in record["cases"]:
        for mode, ratios in case["against"].items():
            for twin, ratio in ratios.items():
                table.add_row(*_row(case, mode, twin, ratio))
    return table


def _row(case: Record, mode: str, twin: str, ratio: float) -> list[str]:
    times = case["times"]
    name = case["name"] + (", fast" if mode == "fast" else "")
    if len(case["against"][mode]) > 1:
        name += f" / {twin}.cpp"
    shown = [times[c]["cpu_median"] * 1e3 for c in (f"{mode} 1", f"c++ {twin}")]
    rate = case["work"] / times[f"{mode} 1"]["cpu_median"] / 1e9
    return [
        name,
        *(f"{ms:.1f}" for ms in shown),
        f"{rate:.3g} G{case['unit']}/s",
        f"{ratio:.2f}",
        f"{case['two_cores'][mode]:.2f}",
        f"{case['two_cores_bound'][mode]:.2f}",
    ]


def _others(record: Record) -> Table:
    found = {name: other for name, other in record["others"].items() if other}
    titles = [f"{name} {other['version']}" for name, other in found.items()]
    table = _table("how many times the rate of other simulators, on one core", "kernel", *titles)
    times = [other["times"] for other in found.values()]
    for kernel in dict.fromkeys(k for t in times for k in t):
        table.add_row(kernel, *(f"{t[kernel]:,.0f}" if kernel in t else "" for t in times))
    return table


def _targets(record: Record) -> Table:
    table = _table("targets", "figure", "measured", "to reach", "")
    for target in TARGETS:
        value = target.value(record)
        sign = "at least" if target.least is not None else "below"
        shown = ["not measured", ""]
        if value is not None:
            shown = [target.text(value), "yes" if target.met(value) else "no"]
        table.add_row(target.name, shown[0], f"{sign} {target.text(target.limit)}", shown[1])
    for name, figure in BESIDE:
        value = figure(record)
        if value is not None:
            table.add_row(name, f"{value:.2f} x", "beside", "")
    return table
