"""Formats numbers, durations and shapes, the same in every view."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from weft.values.analysis import Change, Metric
from weft.values.profile import Access, Line

WIDTH = 100
"""Columns of a terminal that reports are made for."""
Styled = tuple[str, str]
"""A line and its style: bold, dim, a colour or none."""
Cell = str | Styled


class Table(NamedTuple):
    """Rows under a header; columns named in `right` are right-aligned."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    right: Sequence[str] = ()


Block = Styled | Table
"""A part of a report for the terminal."""
_SMALL = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_LARGE = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def plain(blocks: Iterable[Block]) -> str:
    """Blocks as text without styles."""
    lines = []
    for block in blocks:
        if len(block) == 2:
            lines.append(block[0])
            continue
        rows = [list(block.columns), *([str(cell) for cell in row] for row in block.rows)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(block.columns))]
        for row in rows:
            cells = [
                cell.rjust(width) if name in block.right else cell.ljust(width)
                for cell, width, name in zip(row, widths, block.columns, strict=True)
            ]
            lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def duration(seconds: float) -> str:
    """1.1 µs"""
    for size, unit in _SMALL:
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return "0 s" if not seconds else f"{seconds / 1e-9:.2g} ns"


def precise(seconds: float) -> str:
    """1.234 ms: four digits, for times that are compared."""
    for size, unit in _SMALL[:-1]:
        if seconds >= size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds / 1e-9:.4g} ns"


def amount(n: float) -> str:
    """1.05 M: three digits and an SI prefix; integers below 10,000 in full."""
    # Small counts are exact; rounding them would mislead.
    if n < 10_000 and n == int(n):
        return f"{int(n):,}"
    for size, letter in _LARGE:
        if n >= size:
            return f"{n / size:.3g} {letter}"
    return f"{n:.3g}"


def size(n: float) -> str:
    """Bytes with four digits: 48 KiB, 1.25 MiB."""
    number, unit = _scaled(n)
    return f"{number:.4g} {unit}"


def rounded_size(n: float) -> str:
    """Bytes with one decimal: 48 KiB, 139.8 GiB."""
    number, unit = _scaled(n)
    return f"{number:.1f}".removesuffix(".0") + f" {unit}"


def _scaled(n: float) -> tuple[float, str]:
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    step = 0
    while n >= 1024 and step < len(units) - 1:
        n, step = n / 1024, step + 1
    return n, units[step]


def kernel(name: str) -> str:
    """The name of a C++ kernel without its type, template arguments and parameters."""
    plain = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    return re.split(r"[<(]", plain)[0].rstrip() if name.startswith("void ") else name


def dims(shape: tuple[int, int, int]) -> str:
    """16 x 16; trailing sizes of 1 are omitted."""
    sizes = list(shape)
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes.pop()
    return " x ".join(f"{n:,}" for n in sizes)


def value(m: Metric) -> str:
    """The value of a metric with its unit."""
    if isinstance(m.value, str):
        return m.value
    if m.unit == "s":
        return duration(m.value)
    if m.unit == "byte":
        return size(m.value)
    if m.unit == "%":
        return f"{m.value:.3g} %"
    whole = m.value == int(m.value)
    number = f"{int(m.value):,}" if whole else f"{m.value:,.4g}"
    return f"{number} {m.unit}".strip()


def change(c: Change) -> tuple[str, str, str]:
    """A value before and after, and the ratio."""
    before, after = (
        "-" if v is None else value(Metric("", "", v, c.unit)) for v in (c.before, c.after)
    )
    return before, after, f"{c.ratio:.3g}x" if c.ratio is not None else ""


def _ratio(accesses: list[Access], steps: str) -> str:
    requests = sum(a.requests for a in accesses)
    done = sum(getattr(a, steps) for a in accesses)
    return f"{done / requests:.3g}" if requests and done else ""


def sectors(line: Line) -> str:
    """Sectors per request in global memory, or ""."""
    return _ratio([a for a in line.accesses if a.space == "global"], "sectors")


def wavefronts(line: Line) -> str:
    """Wavefronts per request in shared memory, or ""."""
    return _ratio([a for a in line.accesses if a.space == "shared"], "wavefronts")


def lanes(line: Line) -> str:
    """Average active lanes per instruction."""
    return f"{line.threads / line.executions:.3g}" if line.executions else ""
