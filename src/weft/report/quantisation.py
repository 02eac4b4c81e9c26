"""Formats the errors of quantised layers: a table, and a page with histograms."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

import jinja2

from weft.report.words import Block, Table
from weft.values.quantisation import EDGES, FormatNoise, NoiseReport

COLOURS = ("#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed")
WIDTH, HEIGHT, FLOOR = 280, 96, 80
"""A histogram in pixels, and the line that its bars stand on."""


def view(found: NoiseReport) -> Iterator[Block]:
    """A row for each layer, and the worst layer of each format."""
    yield f"{found.model}: signal-to-noise ratio of outputs in dB / of the worst channel", "bold"
    columns = ("layer", "shape", *found.formats)
    rows = [
        [one.layer or "(model)", _shape(one.shape), *map(cell, one.formats)] for one in found.layers
    ]
    yield Table(columns, rows, found.formats)
    for name in found.formats:
        if worst := found.worst(name):
            yield f"{name}: the worst layer is {worst[0] or '(model)'}, {worst[1]:.1f} dB", ""
    for reason in dict.fromkeys(f.refused for one in found.layers for f in one.formats):
        if reason:
            yield f"no: {reason}", "yellow"


def cell(noise: FormatNoise) -> str:
    """The ratio of a layer, and that of its worst channel."""
    if noise.refused:
        return "no"
    if noise.snr is None or noise.worst_snr is None:
        return "exact"
    return f"{noise.snr:.1f} / {noise.worst_snr:.1f}"


def page(found: NoiseReport) -> str:
    """One HTML page without scripts: a histogram for each layer and format."""
    text = files("weft.report").joinpath("quantisation.html").read_text("utf-8")
    layers = [
        {
            "name": one.layer or "(model)",
            "shape": _shape(one.shape),
            "rows": one.rows,
            "formats": [
                {
                    "name": f.format,
                    "cell": cell(f),
                    "channel": f.worst_channel,
                    "bits": f"{f.bits:.3g}",
                    "refused": f.refused,
                    "chart": histogram(f, colour),
                }
                for f, colour in zip(one.formats, _colours(len(one.formats)), strict=True)
            ],
        }
        for one in found.layers
    ]
    template = jinja2.Template(text, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    made: str = template.render(model=found.model, layers=layers)
    return made


def histogram(noise: FormatNoise, colour: str) -> str:
    """The errors of a layer as an SVG; its horizontal axis is logarithmic."""
    counts = noise.histogram
    most = max(counts, default=0) or 1
    step = WIDTH / (len(EDGES) - 1)
    bars = [
        f'<rect x="{i * step + 1:.1f}" y="{FLOOR - 72 * n / most:.1f}" width="{step - 2:.1f}" '
        f'height="{72 * n / most:.1f}" fill="{colour}"><title>{EDGES[i]:.1e} to '
        f"{EDGES[i + 1]:.1e}: {n:,} outputs</title></rect>"
        for i, n in enumerate(counts)
    ]
    ticks = [
        f'<text x="{i * step:.1f}" y="{HEIGHT - 3}" text-anchor="middle">{EDGES[i]:.0e}</text>'
        for i in range(2, len(EDGES) - 1, 4)
    ]
    axis = f'<line x1="0" x2="{WIDTH}" y1="{FLOOR}" y2="{FLOOR}" class="axis"/>'
    inside = "".join((*bars, axis, *ticks))
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{inside}</svg>'


def _colours(count: int) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(count)]


def _shape(shape: tuple[int, int]) -> str:
    return " x ".join(map(str, shape))
