"""Draws the curves of trainings as an HTML page without scripts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2

from weft.values.training import History

PAGE = Path(__file__).with_name("training.html")
COLOURS = ("#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed")
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 720, 320, 56, 32, 12


def page(title: str, histories: Sequence[History]) -> str:
    """The whole page."""
    rows = [
        {
            "name": h.name,
            "colour": colour,
            "steps": len(h.losses),
            "loss": f"{h.losses[-1]:.4f}" if h.losses else "",
            "accuracy": _tested(h),
        }
        for h, colour in zip(histories, COLOURS, strict=False)
    ]
    texts = any(h.validation for h in histories)
    template = jinja2.Template(PAGE.read_text(encoding="utf-8"), autoescape=True)
    text: str = template.render(
        title=title,
        rows=rows,
        loss=_chart([_smooth(h.losses) for h in histories], 0.0),
        accuracy="" if texts else _chart([[0.0, *h.accuracy] for h in histories], 0.0, 1.0),
        tested="loss on kept text" if texts else "accuracy",
        times=_times(histories),
    )
    return text


def _tested(history: History) -> str:
    """The last result on data that is not trained on."""
    if history.validation:
        return f"{history.validation[-1]:.4f}"
    return f"{100 * history.accuracy[-1]:.2f} %" if history.accuracy else ""


def _times(histories: Sequence[History]) -> dict[str, Any] | None:
    """The parts of a step in milliseconds; None if they were not timed."""
    timed = [(h.name, h.times) for h in histories if h.times is not None]
    if not timed:
        return None
    parts = list(dict.fromkeys(part for _, times in timed for part in times.parts))
    rows = [
        [
            name,
            *(f"{1e3 * times.parts[p]:.3f}" if p in times.parts else "" for p in parts),
            f"{1e3 * times.total:.3f}",
        ]
        for name, times in timed
    ]
    return {"how": timed[0][1].how, "columns": ["", *parts, "sum"], "rows": rows}


def _smooth(values: Sequence[float], points: int = 200) -> list[float]:
    """Means of neighbouring values, at most `points` of them: single steps are noisy."""
    size = max(1, len(values) // points)
    return [
        sum(values[i : i + size]) / len(values[i : i + size]) for i in range(0, len(values), size)
    ]


def _chart(curves: Sequence[Sequence[float]], low: float, high: float | None = None) -> str:
    top = high if high is not None else max((max(c) for c in curves if c), default=1.0)
    parts = []
    for k in range(5):
        value = low + (top - low) * k / 4
        y = _down(value, low, top)
        parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.2f}</text>')
    for curve, colour in zip(curves, COLOURS, strict=False):
        last = max(1, len(curve) - 1)
        points = " ".join(
            f"{LEFT + (WIDTH - LEFT) * i / last:.1f},{_down(v, low, top):.1f}"
            for i, v in enumerate(curve)
        )
        parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{points}"/>'
        )
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(parts)}</svg>'


def _down(value: float, low: float, high: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - (value - low) / max(high - low, 1e-9))
