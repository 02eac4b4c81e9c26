"""Draws predicted times of several GPUs as an HTML page without scripts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import jinja2

from weft.report.parallel.text import COLUMNS, cells
from weft.values.time.parallel import ParallelRow

PAGE = Path(__file__).with_name("page.html")
COLOURS = (
    "#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2", "#db2777", "#65a30d",
    "#92400e", "#64748b",
)  # fmt: skip
_W, _H, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 320, 48, 16, 12, 32
_BAR_W, _BAR_H, _LABELS = 320, 180, 20


def page(
    rows: Sequence[ParallelRow],
    sources: Sequence[str],
    links: Sequence[str],
    left_out: Sequence[str],
) -> str:
    """The whole page."""
    names = list(dict.fromkeys(row.layout for row in rows))
    groups = {name: [row for row in rows if row.layout == name] for name in names}
    colours = dict(zip(names, COLOURS, strict=False))
    template = jinja2.Template(PAGE.read_text(encoding="utf-8"), autoescape=True)
    text: str = template.render(
        facts=[*(f"one GPU: {source}" for source in sources), *(f"link: {x}" for x in links)],
        lines=_lines(groups, colours),
        colours=list(colours.items()),
        bars=[(name, _bars(group)) for name, group in groups.items()],
        columns=COLUMNS,
        rows=[cells(row) for row in rows],
        left_out=left_out,
    )
    return text


def _lines(groups: dict[str, list[ParallelRow]], colours: dict[str, str]) -> str:
    """Efficiency against the number of GPUs, which is on a logarithmic axis."""
    sizes = sorted({row.gpus for group in groups.values() for row in group})
    low, high = math.log2(sizes[0]), math.log2(sizes[-1])

    def at(row: ParallelRow) -> tuple[float, float]:
        share = (math.log2(row.gpus) - low) / (high - low) if high > low else 0.5
        return _LEFT + share * (_W - _LEFT - _RIGHT), _down(row.efficiency)

    parts = []
    for k in range(5):
        y = _down(k / 4)
        parts.append(f'<line class="axis" x1="{_LEFT}" x2="{_W}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{k / 4:.0%}</text>')
    labels = {row.gpus: at(row)[0] for group in groups.values() for row in group}
    parts += [
        f'<text x="{x:.1f}" y="{_H - 10}" text-anchor="middle">{n:,}</text>'
        for n, x in labels.items()
    ]
    for name, group in groups.items():
        spots = [at(row) for row in sorted(group, key=lambda row: row.gpus)]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        stroke = f'fill="none" stroke="{colours[name]}" stroke-width="2"'
        parts.append(f'<polyline {stroke} points="{points}"><title>{name}</title></polyline>')
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colours[name]}"/>' for x, y in spots
        ]
    return _svg(_W, _H, "efficiency of each layout", parts)


def _down(efficiency: float) -> float:
    return _TOP + (_H - _TOP - _BOTTOM) * (1 - min(1.0, efficiency))


def _bars(rows: Sequence[ParallelRow]) -> str:
    """Parts of the time of each number of GPUs, as shares of the whole."""
    width = _BAR_W / len(rows)
    parts = []
    for place, row in enumerate(rows):
        x, y = place * width, float(_BAR_H)
        for kind in ("compute", "exposed", "idle"):
            height = getattr(row, kind) / row.seconds * _BAR_H
            y -= height
            box = f'x="{x + 2:.1f}" y="{y:.1f}" width="{width - 4:.1f}" height="{height:.1f}"'
            parts.append(f'<rect class="{kind}" {box}/>')
        middle = x + width / 2
        label = f'x="{middle:.1f}" y="{_BAR_H + 15}" text-anchor="middle"'
        parts.append(f"<text {label}>{row.gpus}</text>")
    return _svg(_BAR_W, _BAR_H + _LABELS, f"parts of the time of {rows[0].layout}", parts)


def _svg(width: int, height: int, label: str, parts: list[str]) -> str:
    box = f'viewBox="0 0 {width} {height}" role="img" aria-label="{label}"'
    return f"<svg {box}>{''.join(parts)}</svg>"
