"""Draws a picture of accesses as SVG: inputs above, threads in the middle, results below.

A line leads from each element to each thread that reads it, and from a thread to what it writes.
One thread is emphasised; on a page, the thread under the pointer is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from weft.learn.picture import Box, Picture, Strip

CELL, GAP, BETWEEN, LABEL = 26, 28, 64, 18
"""Sizes in pixels: of a cell, between arrays, between rows, and above an array for its name."""

STYLE = """
.weft-picture { --ink: #1f2328; --soft: #59636e; --cell: #eef1f4; --edge: #c8d0d8;
  --read: #0969da; --write: #bc4c00; max-width: 100%; height: auto; }
@media (prefers-color-scheme: dark) { .weft-picture { --ink: #e6edf3; --soft: #9198a1;
  --cell: #1d242c; --edge: #3d444d; --read: #4493f8; --write: #f0883e; } }
.weft-picture text { font: 11px ui-monospace, Menlo, monospace; fill: var(--soft);
  text-anchor: middle; }
.weft-picture .name { font-weight: 600; fill: var(--ink); text-anchor: start; }
.weft-picture .cell, .weft-picture .box { fill: var(--cell); stroke: var(--edge); }
.weft-picture .line { fill: none; stroke-width: 1; opacity: .16; }
.weft-picture .read { stroke: var(--read); } .weft-picture .write { stroke: var(--write); }
.weft-picture .mark { opacity: 0; stroke-width: 2; fill: none; }
.weft-picture .on .line, .weft-picture .t:hover .line { opacity: 1; stroke-width: 1.8; }
.weft-picture .on .mark, .weft-picture .t:hover .mark { opacity: 1; }
.weft-picture .on .box, .weft-picture .t:hover .box { stroke: var(--ink); stroke-width: 2; }
.weft-picture .idle { opacity: .45; }
"""


@dataclass(frozen=True)
class _Placed:
    """An array or a block of threads in the drawing: its corner and its shape in cells."""

    left: float
    top: float
    columns: int
    rows: int

    def centre(self, index: int) -> tuple[float, float]:
        row, column = divmod(index, self.columns)
        return self.left + (column + 0.5) * CELL, self.top + (row + 0.5) * CELL


def svg(picture: Picture) -> str:
    """The drawing, with its style."""
    inputs = [a for a in picture.arrays if not a.output]
    outputs = [a for a in picture.arrays if a.output]
    blocks = _blocks(picture)
    size = (picture.block[0], _rows(picture)) if picture.unit == "thread" else (1, 1)
    shapes = [[_shape(a) for a in inputs], [size for _ in blocks], [_shape(a) for a in outputs]]
    width = max(sum(c * CELL for c, _ in row) + GAP * (len(row) - 1) for row in shapes)
    rows, top = [], 0.0
    for row in shapes:
        rows.append(list(_line_up(row, width, top + LABEL)))
        top += LABEL + max((r for _, r in row), default=0) * CELL + BETWEEN
    above, middle, below = rows
    placed = {a.name: p for a, p in zip((*inputs, *outputs), (*above, *below), strict=True)}
    named = [(a.name, placed[a.name]) for a in picture.arrays]
    if len(blocks) > 1 or picture.unit == "program":
        word = "block" if picture.unit == "thread" else "program"
        named += [(f"{word} {n}", p) for n, p in enumerate(middle)]
    else:
        named.append(("threads", middle[0]))
    parts = [_name(name, place) for name, place in named]
    parts += [_cells(place) for place in placed.values()]
    shown = _emphasised(picture)
    for boxes, place in zip(blocks, middle, strict=True):
        parts += [_box(picture, box, place, i, placed, box is shown) for i, box in enumerate(boxes)]
    high = top - BETWEEN
    head = f'<svg class="weft-picture" viewBox="-2 -2 {width + 4:.0f} {high + 4:.0f}"'
    head += f' width="{width + 4:.0f}" xmlns="http://www.w3.org/2000/svg" role="img">'
    about = f"<title>{escape(_about(picture, shown))}</title>"
    return f"{head}{about}<style>{STYLE}</style>{''.join(parts)}</svg>\n"


def _blocks(picture: Picture) -> list[list[Box]]:
    out: dict[tuple[int, int, int], list[Box]] = {}
    for box in picture.boxes:
        out.setdefault(box.block, []).append(box)
    return list(out.values())


def _rows(picture: Picture) -> int:
    return picture.block[1] if len(picture.block) > 1 else 1


def _shape(array: Strip) -> tuple[int, int]:
    """Columns and rows of an array."""
    return array.shape[-1], array.shape[0] if len(array.shape) == 2 else 1


def _line_up(shapes: Sequence[tuple[int, int]], width: float, top: float) -> Iterable[_Placed]:
    """Place shapes side by side, in the middle of a row."""
    left = (width - sum(c * CELL for c, _ in shapes) - GAP * (len(shapes) - 1)) / 2
    for columns, rows in shapes:
        yield _Placed(left, top, columns, rows)
        left += columns * CELL + GAP


def _name(name: str, place: _Placed) -> str:
    return f'<text class="name" x="{place.left:.0f}" y="{place.top - 5:.0f}">{escape(name)}</text>'


def _cells(place: _Placed) -> str:
    out = []
    for index in range(place.columns * place.rows):
        x, y = place.centre(index)
        out.append(_rect(x, y, "cell") + _text(x, y, str(index % place.columns)))
    return "".join(out)


def _rect(x: float, y: float, style: str, inset: float = 1) -> str:
    side = CELL - 2 * inset
    at = f'x="{x - side / 2:.1f}" y="{y - side / 2:.1f}" width="{side}" height="{side}" rx="4"'
    return f'<rect class="{style}" {at}/>'


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y + 4:.1f}">{text}</text>'


def _box(
    picture: Picture, box: Box, place: _Placed, number: int, placed: Mapping[str, _Placed], on: bool
) -> str:
    """A thread with its lines."""
    x, y = place.centre(number)
    parts = [f"<title>{escape(_about(picture, box))}</title>"]
    # Lines start at the edge of the cell that faces the other one.
    ways = (("read", box.reads, -1, 1), ("write", box.writes, 1, -1))
    for style, touched, here, there in ways:
        for name, many in touched.items():
            for index in many:
                u, v = placed[name].centre(index)
                if (style == "read" and v > y) or (style == "write" and v < y):
                    here, there = -here, -there  # an array that is read and written
                start, end = y + here * CELL / 2, v + there * CELL / 2
                bend = (start + end) / 2
                path = (
                    f"M{x:.1f} {start:.1f}C{x:.1f} {bend:.1f} {u:.1f} {bend:.1f} {u:.1f} {end:.1f}"
                )
                parts.append(f'<path class="line {style}" d="{path}"/>')
                parts.append(_rect(u, v, f"mark {style}"))
    idle = "" if box.reads or box.writes else " idle"
    parts.append(_rect(x, y, f"box{idle}") + _text(x, y, str(number % place.columns)))
    return f'<g class="t{" on" * on}">{"".join(parts)}</g>'


def _emphasised(picture: Picture) -> Box:
    """A thread of the middle that reads and writes, if there is one."""
    busy = [b for b in picture.boxes if b.reads and b.writes] or list(picture.boxes)
    return busy[len(busy) // 3]


def _about(picture: Picture, box: Box) -> str:
    return " ".join(picture.row(box))
