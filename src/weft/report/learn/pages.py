"""Renders the map and the certificate as HTML pages without scripts."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from weft.report.learn import learners_text
from weft.report.learn.text import damage, numbers
from weft.values.learn.course import ChapterProgress, CourseMap
from weft.values.learn.learners import Certificate

_W, _H, _GAP_X, _GAP_Y, _EDGE = 152, 60, 28, 14, 2
"""Width and height of a chapter in the drawing, the gaps between chapters, and the margin."""
_LETTERS = 20
"""Letters of a title that fit into a line of a chapter."""


def course_map(found: CourseMap) -> str:
    """The map: a drawing of the chapters by what they need, and a table of exercises."""
    places = _places(found.chapters)
    columns = 1 + max((x for x, _ in places.values()), default=0)
    rows = 1 + max((y for _, y in places.values()), default=0)
    return _template("map.html").render(
        width=2 * _EDGE + columns * (_W + _GAP_X) - _GAP_X,
        height=2 * _EDGE + rows * (_H + _GAP_Y) - _GAP_Y,
        boxes=[_box(c, places[c.chapter]) for c in found.chapters],
        edges=[
            _edge(places[n], places[c.chapter])
            for c in found.chapters
            for n in c.needs
            if n in places
        ],
        chapters=[(c, state(c), numbers(c.needs)) for c in found.chapters],
        exercises=found.exercises,
        answers=found.answers,
        puzzles=found.puzzles,
        due=found.due,
        notes=[line for line, _ in damage(found)],
    )


def certificate(found: Certificate) -> str:
    """The certificate: name, date, and each exercise with the counters that were measured."""
    groups: dict[str, list[Any]] = {}
    for one in found.exercises:
        facts = ", ".join(f"{name} {value:,.4g}" for name, value in one.facts.items())
        groups.setdefault(one.chapter, []).append((one, facts))
    return _template("certificate.html").render(
        one=found, groups=groups, count=learners_text.count(found), day=found.when[:10]
    )


def state(c: ChapterProgress) -> str:
    """done, begun, ready (all that it needs is done) or later."""
    if c.done:
        return "done"
    if c.passed:
        return "begun"
    return "later" if c.missing else "ready"


def _places(chapters: Sequence[ChapterProgress]) -> dict[int, tuple[int, int]]:
    """Column and row of each chapter: it is right of all that it needs."""
    columns: dict[int, int] = {}
    rows: dict[int, int] = {}
    for c in chapters:
        columns[c.chapter] = 1 + max((columns.get(n, -1) for n in c.needs), default=-1)
        rows[c.chapter] = sum(columns[c.chapter] == columns[n] for n in rows)
    return {n: (columns[n], rows[n]) for n in columns}


def _box(c: ChapterProgress, place: tuple[int, int]) -> Mapping[str, Any]:
    x, y = _corner(place)
    each = min(14.0, (_W - 50) / max(1, len(c.exercises)))
    return {
        "x": x, "y": y, "width": _W, "height": _H, "state": state(c), "number": f"{c.chapter:02}",
        "lines": _wrapped(c.title), "title": c.title,
        "dots": [(x + 14 + i * each, y + _H - 10, e) for i, e in enumerate(c.exercises)],
    }  # fmt: skip


def _edge(start: tuple[int, int], end: tuple[int, int]) -> str:
    """A curve from the right side of a chapter to the left side of another."""
    (x, y), (u, v) = _corner(start), _corner(end)
    x, y, v = x + _W, y + _H / 2, v + _H / 2
    bend = max(14.0, (u - x) / 2)
    return f"M{x:g} {y:g} C{x + bend:g} {y:g} {u - bend:g} {v:g} {u:g} {v:g}"


def _corner(place: tuple[int, int]) -> tuple[float, float]:
    return _EDGE + place[0] * (_W + _GAP_X), _EDGE + place[1] * (_H + _GAP_Y)


def _wrapped(title: str) -> list[str]:
    """A title in at most two lines."""
    first, rest = "", ""
    for word in title.split():
        if not rest and len(f"{first} {word}") <= _LETTERS:
            first = f"{first} {word}".strip()
        else:
            rest = f"{rest} {word}".strip()
    return [first, rest if len(rest) <= _LETTERS else f"{rest[: _LETTERS - 1]}…"]


@functools.cache
def _template(name: str) -> jinja2.Template:
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(name)
