"""Shows the life of a block's stages: a table for the terminal, a chart over modelled clocks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple

from weft.report.words import Styled, size
from weft.values.profile import Profile
from weft.values.stages import BlockStages, Span, Stage, StageUse

SHOWN = 400
"""The most uses that a chart draws: the first ones."""
LEGEND = (
    ("fill", "copies under way"),
    ("full", "filled, and no warp has gone on yet"),
    ("used", "read"),
    ("busy", "unit busy"),
)
"""Kinds of bars."""
_LEFT, _RIGHT, _TOP, _ROW, _BAR = 92, 12, 24, 26, 18
_LEAST, _MOST, _OF_A_USE = 900, 6000, 60
"""The width of a chart: of all, and of each use of a stage."""


_MOMENTS = {"copied": "copy", "waited": "wait", "read": "read", "released": "release"}
"""Columns of a table -> the instruction of a use."""


class Times(NamedTuple):
    """Clocks of a stage, on average; None where no use has them."""

    fill: float | None
    full: float | None
    used: float | None
    free: float | None


def view(p: Profile) -> Iterator[Styled]:
    """The table of a profile's stages; nothing if it has none."""
    s = p.stages
    if s is None:
        return
    yield f"Stages of block {s.block}: clocks on average, and lines", "bold"
    heads = ("stage", "bytes", "uses", *Times._fields, *_MOMENTS)
    yield f" {''.join(f' {head:>8}' for head in heads)}", "dim"
    lines = _lines(p)
    for number, stage in enumerate(s.stages):
        first = stage.uses[0]
        times = ("" if x is None else f"{x:,.0f}" for x in _times(stage))
        places = (lines.get(getattr(first, name), "") for name in _MOMENTS.values())
        cells = (number, size(first.nbytes), len(stage.uses), *times, *places)
        yield " " + "".join(f" {x:>8}" for x in cells), ""
    yield f"  {says(s)}", "dim"
    yield "", ""


def says(s: BlockStages) -> str:
    """A sentence about the clocks and the units."""
    busy = [
        f"{name} {100 * sum(b - a for a, b in spans) / max(1, s.clocks):.0f} %"
        for name, spans in (("tensor cores", s.tensor), ("copies", s.copies))
        if spans
    ]
    kept = "" if s.whole else " Only its first events were recorded."
    return f"~ {s.clocks:,} clocks by a model; busy: {', '.join(busy)}.{kept}"


def _times(stage: Stage) -> Times:
    uses = stage.uses
    return Times(
        _mean([u.filled - u.issued for u in uses]),
        _mean([u.opened - u.filled for u in uses if u.opened is not None]),
        _mean([_end(u) - u.opened for u in uses if u.opened is not None]),
        _mean([b.issued - _end(a) for a, b in itertools.pairwise(uses)]),
    )


def _mean(clocks: Sequence[int]) -> float | None:
    return sum(clocks) / len(clocks) if clocks else None


def _end(u: StageUse) -> int:
    """The clock at which a stage has been read."""
    return max(x for x in (u.filled, u.opened, u.consumed) if x is not None)


def _lines(p: Profile) -> Mapping[int | None, int]:
    """Instruction -> its source line."""
    return {i.index: i.line.own.line for i in p.instructions if i.line is not None}


# ---- the chart -----------------------------------------------------------------------------------
def chart(p: Profile) -> str:
    """The uses of each stage as bars over the clocks, and the units below; "" without stages."""
    return "" if p.stages is None else _Chart(p.stages, _lines(p)).svg()


class _Chart:
    """The chart of one block."""

    def __init__(self, s: BlockStages, lines: Mapping[int | None, int]) -> None:
        self.s, self.lines = s, lines
        issued = sorted(u.issued for stage in s.stages for u in stage.uses)
        self.last = issued[SHOWN] if len(issued) > SHOWN else max(1, s.clocks)
        self.rows = [[u for u in stage.uses if u.issued < self.last] for stage in s.stages]
        self.units = [
            (name, [span for span in spans if span[0] < self.last])
            for name, spans in (("tensor cores", s.tensor), ("copy engine", s.copies))
            if spans
        ]
        self.wide = min(_MOST, max(_LEAST, _OF_A_USE * max(map(len, self.rows))))
        self.high = _TOP + _ROW * (len(self.rows) + len(self.units)) + 8

    def svg(self) -> str:
        parts = self._ticks()
        for row, (stage, uses) in enumerate(zip(self.s.stages, self.rows, strict=True)):
            parts.append(self._label(row, f"stage {row}", f"byte {stage.offset} of shared memory"))
            for u, following in itertools.zip_longest(uses, uses[1:]):
                said = self._said(u, following)
                parts += [self._bar(row, kind, span, said, i) for kind, span, i in _spans(u)]
        for row, (name, spans) in enumerate(self.units, len(self.rows)):
            parts.append(self._label(row, name, name))
            parts += [self._bar(row, "busy", x, f"{x[0]:,} to {x[1]:,}", None) for x in spans]
        label = escape(f"Stages of block {self.s.block} over modelled clocks")
        box = f'viewBox="0 0 {self.wide} {self.high}" width="{self.wide}" height="{self.high}"'
        kind = "stages" if self.wide == _LEAST else "stages long"
        return f'<svg class="{kind}" {box} role="img" aria-label="{label}">{"".join(parts)}</svg>'

    def _at(self, clock: int) -> float:
        return _LEFT + min(clock, self.last) / self.last * (self.wide - _LEFT - _RIGHT)

    def _ticks(self) -> list[str]:
        """Lines at round numbers of clocks, about ten in 900 pixels."""
        rough = self.last * _LEAST / self.wide / 10
        decade = 10 ** max(0, len(str(int(rough))) - 1)
        step = next(n * decade for n in (1, 2, 5, 10) if n * decade >= rough)
        out = []
        for clock in range(0, self.last + 1, step):
            x = self._at(clock)
            out += [
                f'<line class="grid" x1="{x:.1f}" y1="{_TOP - 4}" x2="{x:.1f}" y2="{self.high}"/>',
                f'<text class="tick" x="{x:.1f}" y="{_TOP - 9}" text-anchor="middle">'
                f"{clock:,}</text>",
            ]
        return out

    def _label(self, row: int, words: str, title: str) -> str:
        place = f'x="{_LEFT - 8}" y="{_TOP + _ROW * row + _ROW / 2 + 4}" text-anchor="end"'
        return f'<text class="name" {place}>{escape(words)}<title>{escape(title)}</title></text>'

    def _bar(self, row: int, kind: str, span: Span, title: str, instruction: int | None) -> str:
        start, end = (self._at(clock) for clock in span)
        y = _TOP + _ROW * row + (_ROW - _BAR) / 2
        line = self.lines.get(instruction, 0)
        box = f'x="{start:.1f}" y="{y}" width="{max(0.6, end - start):.1f}" height="{_BAR}"'
        where = f' data-line="{line}"' if line else ""
        return f'<rect class="{kind}"{where} {box}><title>{escape(title)}</title></rect>'

    def _said(self, u: StageUse, following: StageUse | None) -> str:
        """The moments of a use, one a line, with their source lines."""
        moments = [
            ("copied", u.issued, u.copy),
            ("filled", u.filled, None),
            ("waited for", u.opened, u.wait),
            ("read until", u.consumed, u.read),
            ("released", u.released, u.release),
        ]
        if following is not None:
            moments.append(("copied again", following.issued, following.copy))
        return "\n".join(
            f"{word} {clock:,}" + (f" (line {self.lines[i]})" if i in self.lines else "")
            for word, clock, i in moments
            if clock is not None
        )


def _spans(u: StageUse) -> list[tuple[str, Span, int | None]]:
    """The parts of a use: kind, clocks, and an instruction of its line."""
    parts = [("fill", (u.issued, u.filled), u.copy)]
    if u.opened is not None:
        opened = max(u.filled, u.opened)
        parts += [
            ("full", (u.filled, opened), u.wait or 0),
            ("used", (opened, max(opened, _end(u))), u.read or u.wait or 0),
        ]
    return [(kind, span, i) for kind, span, i in parts if span[0] < span[1]]
