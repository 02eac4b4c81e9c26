"""Draws bars and rooflines as SVG that is readable in light and in dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, LABEL, VALUE, ROW = 460, 146, 100, 26
"""Narrow, so that a phone need not shrink the text."""
STYLE = """
svg { --ink: #1f2328; --soft: #59636e; --grid: #d1d9e0; --plain: #0969da; --best: #1a7f37;
  --other: #8c959f; }
@media (prefers-color-scheme: dark) { svg { --ink: #e6edf3; --soft: #9198a1; --grid: #3d444d;
  --plain: #4493f8; --best: #3fb950; --other: #6e7681; } }
text { font: 13px system-ui, sans-serif; fill: var(--ink); } .soft { fill: var(--soft); }
.end { text-anchor: end; } .middle { text-anchor: middle; }
.plain { fill: var(--plain); } .best { fill: var(--best); } .other { fill: var(--other); }
.grid { stroke: var(--grid); } .roof { stroke: var(--ink); stroke-width: 2; fill: none; }
"""


@dataclass(frozen=True)
class Bar:
    """A row of a chart; `kind` is "plain", "best" or "other"."""

    label: str
    value: float
    text: str
    kind: str = "plain"


def bars(title: str, rows: Sequence[Bar], note: str = "") -> str:
    """Horizontal bars with their values; the longest one is as wide as the chart."""
    most = max(row.value for row in rows)
    room = WIDTH - LABEL - VALUE
    parts = [_text(0, 16, title)]
    for place, row in enumerate(rows):
        y = 32 + place * ROW
        long = max(1.5, room * row.value / most)
        parts.append(_text(LABEL - 10, y + 15, row.label, "end"))
        parts.append(f'<rect class="{row.kind}" x="{LABEL}" y="{y + 3}" width="{long:.1f}" ')
        parts.append('height="16" rx="3"/>')
        parts.append(_text(LABEL + long + 8, y + 15, row.text, "soft"))
    high = 32 + len(rows) * ROW
    if note:
        high += 22
        parts.append(_text(0, high - 6, note, "soft"))
    return _whole(high, title, parts)


@dataclass(frozen=True)
class Point:
    """A kernel in a roofline: operations per byte and operations per second."""

    label: str
    intensity: float
    rate: float
    kind: str = "plain"


def roofline(title: str, bandwidth: float, peak: float, points: Sequence[Point], note: str) -> str:
    """A roofline on logarithmic axes, with kernels as points."""
    left, top, wide, high = 48, 34, WIDTH - 72, 260
    low_x, high_x, low_y, high_y = -2.0, 4.0, 8.0, 14.2  # powers of ten

    def place(intensity: float, rate: float) -> tuple[float, float]:
        x = left + wide * (math.log10(intensity) - low_x) / (high_x - low_x)
        return x, top + high * (1 - (math.log10(rate) - low_y) / (high_y - low_y))

    parts = [_text(0, 16, title)]
    for power in range(int(low_y), int(high_y) + 1):
        _, y = place(1, 10.0**power)
        parts.append(f'<path class="grid" d="M{left} {y:.1f}h{wide}"/>')
        parts.append(_text(left - 6, y + 4, _RATES[power], "soft end"))
    for power in range(int(low_x), int(high_x) + 1):
        x, _ = place(10.0**power, 1.0)
        parts.append(_text(x, top + high + 18, f"{10.0**power:g}", "soft middle"))
    corner = peak / bandwidth
    roof = [place(10**low_x, bandwidth * 10**low_x), place(corner, peak), place(10**high_x, peak)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in roof)
    parts.append(f'<polyline class="roof" points="{path}"/>')
    for point in points:
        x, y = place(point.intensity, point.rate)
        parts.append(f'<circle class="{point.kind}" cx="{x:.1f}" cy="{y:.1f}" r="5"/>')
        # To the left of the sloping roof there is room.
        before = point.intensity < corner
        parts.append(_text(x - 9 if before else x + 9, y + 4, point.label, "end" * before))
    parts.append(_text(left + wide / 2, top + high + 38, "operations per byte", "soft middle"))
    parts.append(_text(0, top + high + 62, note, "soft"))
    return _whole(top + high + 70, title, parts)


_RATES = {8: "100 M", 9: "1 G", 10: "10 G", 11: "100 G", 12: "1 T", 13: "10 T", 14: "100 T"}
"""Power of ten -> operations per second, in words."""


def _text(x: float, y: float, text: str, style: str = "") -> str:
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _whole(high: float, title: str, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {high:.0f}"'
    head += f' width="{WIDTH}" role="img">'
    return f"{head}<title>{escape(title)}</title><style>{STYLE}</style>{''.join(parts)}</svg>\n"
