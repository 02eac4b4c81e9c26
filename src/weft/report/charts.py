"""Draws charts as SVG text: the roofline, and occupancy against three resources.

No plotting library is used: it would add four megabytes to every page for two charts, and CSS
classes let the colours follow the page's theme.
"""

from __future__ import annotations

import math
from html import escape

from weft.report.words import amount
from weft.values.analysis import Curve, Roofline

_W, _H = 640, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 20, 20, 46


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{escape(words)}</text>'


def _svg(width: int, height: int, label: str, parts: list[str]) -> str:
    body = "".join(parts)
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">{body}</svg>'
    )


class _Log:
    """Logarithmic axes with grid lines at whole decades."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float]) -> None:
        self.x, self.y = (tuple(math.log10(v) for v in span) for span in (x, y))

    def at(self, x: float, y: float) -> tuple[float, float]:
        (a, b), (c, d) = self.x, self.y
        right = _LEFT + (math.log10(x) - a) / (b - a) * (_W - _LEFT - _RIGHT)
        down = _H - _BOTTOM - (math.log10(y) - c) / (d - c) * (_H - _TOP - _BOTTOM)
        return right, down

    def grid(self) -> list[str]:
        out, ground = [], _H - _BOTTOM
        for k in range(math.ceil(self.x[0]), math.floor(self.x[1]) + 1):
            x = self.at(10.0**k, 1.0)[0]
            out += [
                _line(x, _TOP, x, ground, "grid"),
                _text(x, ground + 16, f"{10.0**k:g}", "tick", "middle"),
            ]
        for k in range(math.ceil(self.y[0]), math.floor(self.y[1]) + 1):
            y = self.at(1.0, 10.0**k)[1]
            out += [_line(_LEFT, y, _W - _RIGHT, y, "grid")]
            out += [_text(_LEFT - 7, y + 4, amount(10.0**k), "tick", "end")]
        return out


def roofline(r: Roofline, measured: float | None = None) -> str:
    """Operations per second against operations per byte; one dot per memory level."""
    # Without memory traffic or arithmetic there is no point to draw.
    if not r.levels or not r.operations:
        return ""
    top = max(rate for _, rate in r.ceilings)
    spots = [level.intensity for level in r.levels]
    # The measured dot must lie inside of the axes as well.
    speed = r.operations / measured if measured else r.peak
    # Leave room around the extreme points, so that dots and labels stay inside.
    low = min(speed, *(level.allows for level in r.levels)) / 4
    first = min(*spots, *(low / level.bandwidth for level in r.levels)) / 1.5
    last = max(*spots, *(top / level.bandwidth for level in r.levels)) * 4
    axes = _Log((first, last), (low, top * 1.7))
    parts = [*axes.grid(), *_roofs(r, axes, last)]
    for i, level in enumerate(r.levels):
        begin = max(first, low / level.bandwidth)
        a, b = axes.at(begin, begin * level.bandwidth), axes.at(top / level.bandwidth, top)
        x, y = axes.at(level.intensity, level.allows)
        label = (
            f"{level.name} {'~' if level.modelled else ''}{level.intensity:.3g} operations a byte"
        )
        parts += [
            _line(*a, *b, f"slope level{i}"),
            _line(x, y, x, _H - _BOTTOM, f"drop level{i}"),
            f'<circle class="dot level{i}" cx="{x:.1f}" cy="{y:.1f}" r="6"><title>{label}, allows '
            f"{amount(level.allows)}/s</title></circle>",
            f'<circle class="level{i}" cx="{_LEFT + 14}" cy="{_TOP + 14 + 17 * i}" r="4"/>',
            _text(_LEFT + 24, _TOP + 18 + 17 * i, label, f"name level{i}"),
        ]
    if measured:
        x, y = axes.at(r.levels[0].intensity, speed)
        box = f'x="{x - 5:.1f}" y="{y - 5:.1f}" width="10" height="10"'
        parts += [f'<rect class="dot measured" {box}/>', _text(x + 9, y + 4, "measured", "name")]
    parts.append(_text(_W / 2, _H - 8, "operations a byte", "axis", "middle"))
    parts.append(_text(4, 11, "operations a second", "axis"))
    return _svg(_W, _H, "Roofline", parts)


def _roofs(r: Roofline, axes: _Log, last: float) -> list[str]:
    """Arithmetic ceilings; solid for units that the kernel uses."""
    out = []
    for name, rate in r.ceilings:
        start = axes.at(min(rate / level.bandwidth for level in r.levels), rate)
        end = axes.at(last, rate)
        out.append(_line(*start, *end, "roof used" if name in r.uses else "roof"))
        out.append(_text(end[0] - 4, end[1] - 5, f"{name} {amount(rate)}/s", "tick", "end"))
    return out


_CW, _CH = 320, 190
_CL, _CR, _CT, _CB = 34, 12, 14, 36


def occupancy(curve: Curve, most: int) -> str:
    """A step chart of resident warps against one resource; a dot marks the launch."""
    low, high = curve.points[0][0], curve.points[-1][0]

    def at(value: float, warps: float) -> tuple[float, float]:
        x = _CL + (value - low) / (high - low) * (_CW - _CL - _CR)
        return x, _CH - _CB - warps / most * (_CH - _CT - _CB)

    parts = []
    for warps in range(0, most + 1, max(1, most // 4)):
        x, y = at(low, warps)
        parts += [_line(x, y, _CW - _CR, y, "grid"), _text(x - 5, y + 4, str(warps), "tick", "end")]
    path, previous = [], None
    for value, _, warps in curve.points:
        x, y = at(value, warps)
        # Horizontal then vertical: occupancy changes in steps.
        path.append(f"M{x:.1f} {y:.1f}" if previous is None else f"H{x:.1f}V{y:.1f}")
        previous = y
    floor = at(low, 0)[1]
    steps = "".join(path)
    area = f"{steps}V{floor:.1f}H{at(low, 0)[0]:.1f}Z"
    parts.append(f'<path class="area" d="{area}"/><path class="curve" d="{steps}"/>')
    # The curve is sampled; the launch's own value may lie between two points.
    nearest = min(curve.points, key=lambda p: abs(p[0] - curve.now))
    x, y = at(min(max(curve.now, low), high), nearest[2])
    parts.append(_line(x, y, x, floor, "drop"))
    parts.append(
        f'<circle class="dot now" cx="{x:.1f}" cy="{y:.1f}" r="5.5"><title>{curve.now:,}: '
        f"{nearest[1]} blocks, {nearest[2]} warps</title></circle>"
    )
    for value in _TICKS[curve.resource]:
        if low <= value <= high:
            words = _short(curve.resource, value)
            parts.append(_text(at(value, 0)[0], floor + 15, words, "tick", "middle"))
    parts.append(_text(_CW / 2, _CH - 4, _TITLES[curve.resource], "axis", "middle"))
    return _svg(_CW, _CH, f"Warps of an SM against {curve.resource}", parts)


_TICKS = {
    "registers": (32, 64, 96, 128, 168, 255),
    "shared memory": tuple(k * 1024 for k in (0, 32, 64, 96, 128, 160, 192, 224)),
    "block size": (32, 128, 256, 512, 768, 1024),
}
_TITLES = {
    "registers": "registers a thread",
    "shared memory": "shared memory of a block, KiB",
    "block size": "threads of a block",
}


def _short(resource: str, value: int) -> str:
    return f"{value / 1024:.0f}" if resource == "shared memory" else str(value)
