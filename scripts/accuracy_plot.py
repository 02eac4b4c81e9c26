"""Draws docs/train.svg: the accuracy of weft and of PyTorch, from the newest record.

python scripts/accuracy_plot.py            writes it
python scripts/accuracy_plot.py --check    fails when it is stale
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from network_tables import PEERS, training

PLOT = Path(__file__).resolve().parents[1] / "docs" / "train.svg"
COLOURS = {"weft": "#2563eb", "graph": "#d97706"}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 320, 52, 20, 34, 40


def files() -> dict[Path, str]:
    """The picture, and where it is."""
    return {PLOT: plot(training())}


def plot(record: dict[str, Any]) -> str:
    """The picture: accuracy after each epoch; dashed lines are tf32."""
    curves = [
        (f"{PEERS.get(name, name)}, {precision}", COLOURS[name], precision == "tf32",
         [100 * a for a in run["accuracy"]])
        for precision, runs in record["epochs"].items() for name, run in runs.items()
        if name in COLOURS
    ]  # fmt: skip
    count = max(len(values) for *_, values in curves)
    lowest = min(min(values) for *_, values in curves) - 0.2
    highest = max(max(values) for *_, values in curves) + 0.2
    width = WIDTH - LEFT - RIGHT
    parts = [_axes(LEFT, width, [c[1:] for c in curves], lowest, highest)]
    parts.append(_epochs(LEFT, width, range(1, count + 1)))
    for number, (name, colour, dashed, _) in enumerate(curves):
        x = LEFT + number * 205
        parts.append(f'<path d="M{x} {HEIGHT - 10}h28" {_line(colour, dashed)}/>')
        parts.append(f'<text x="{x + 34}" y="{HEIGHT - 6}">{escape(name)}</text>')
    style = "text { font: 12px system-ui, sans-serif; fill: #57606a }"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
    return f"{head}<style>{style}</style>{''.join(parts)}</svg>\n"


def _axes(
    left: int, width: int, curves: Sequence[tuple[str, bool, list[float]]], low: float, high: float
) -> str:
    """The chart of values between `low` and `high`."""

    def down(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM - 20) * (1 - (value - low) / (high - low))

    parts = [
        f'<text x="{left}" y="{TOP - 14}">accuracy on the test images after an epoch, %</text>'
    ]
    for value in _ticks(low, high):
        y = down(value)
        parts.append(f'<path d="M{left} {y:.1f}h{width}" stroke="#8c959f" stroke-opacity=".3"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.1f}</text>')
    for colour, dashed, values in curves:
        step = width / max(1, len(values) - 1)
        points = " ".join(f"{left + i * step:.1f},{down(v):.1f}" for i, v in enumerate(values))
        parts.append(f'<polyline points="{points}" {_line(colour, dashed)}/>')
    return "".join(parts)


def _epochs(left: int, width: int, numbers: range) -> str:
    """The numbers of epochs below a chart."""
    step, y = width / max(1, len(numbers) - 1), HEIGHT - BOTTOM - 4
    return "".join(
        f'<text x="{left + i * step:.1f}" y="{y}" text-anchor="middle">{number}</text>'
        for i, number in enumerate(numbers)
    )


def _ticks(low: float, high: float) -> list[float]:
    """Multiples of 0.2 within a range."""
    return [k / 5 for k in range(math.ceil(low * 5), math.floor(high * 5) + 1)]


def _line(colour: str, dashed: bool) -> str:
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return f'fill="none" stroke="{colour}" stroke-width="1.8"{dash}'
