"""Renders a climb as one self-contained HTML page.

The page has charts of all rungs, then for each rung its idea, its changed counters and a diff of
its source, then the ladder's text.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markupsafe import Markup

from weft.report import words
from weft.report.cells import frame
from weft.report.climb_text import moved, notes, number
from weft.report.colour import colour
from weft.report.page import render
from weft.values.climb import ClimbResult, LadderText, RungResult, RungText, Time

_QUIET = ("samples", "throttled_samples")
"""Fields of a machine record that the page omits."""


def page(source: LadderText | None, result: ClimbResult, verb: str = "climb") -> str:
    """The whole page; `source` is the ladder, if it is available."""
    return render(
        "ladder",
        title=result.ladder,
        verb=verb,
        floors=list(result.floors.items()),
        recorded=result.recorded,
        size=result.counted,
        notes=list(notes(result)),
        name=result.ladder,
        about=source.about if source is not None else "",
        signature=source.signature if source is not None else "",
        how="timed on" if result.device.startswith("gpu") else "checked and counted for",
        gpu=result.gpu,
        when=result.when[:10],
        machine=", ".join(f"{k} {v}" for k, v in result.machine.items() if k not in _QUIET),
        timed=list(_charts(result)),
        counted=list(_counters(result.rungs)),
        rungs=list(_rungs(source, result)),
        text=_text(source.text if source is not None else ""),
    )


def framed(source: LadderText | None, result: ClimbResult) -> str:
    """The page in an iframe, for notebooks."""
    return frame(page(source, result), "weft climb")


def _text(markdown: str) -> Markup:
    # Raw HTML is off: a ladder's text may come from another person.
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    return Markup(reader.render(markdown)) if markdown else Markup("")


# ---- the picture -----------------------------------------------------------------------------
def _charts(result: ClimbResult) -> Iterator[dict[str, Any]]:
    """A chart for each timed case."""
    rungs = [(result.named(r), r.times, "rung") for r in result.rungs]
    every = rungs + [(name, times, "peer") for name, times in result.peers.items()]
    for case in dict.fromkeys(t.case for _, times, _ in every for t in times):
        rows = [(n, t, kind) for n, times, kind in every for t in times if t.case == case]
        best = min((t.seconds for _, t, kind in rows if kind == "rung"), default=0.0)
        yield {
            "case": case,
            "limit": result.limits.get(case, "by the GPU's ceilings"),
            "rows": [
                _bar(n, t, "best" if t.seconds == best else kind, result.fastest(case))
                for n, t, kind in rows
            ],
            "most": max(1.0, *(t.of_limit for _, t, _ in rows)) * 1.02,
        }


def _bar(name: str, t: Time, kind: str, fastest: float) -> dict[str, Any]:
    """A bar: the fraction of the limit, or of the fastest if the limit is unknown."""
    peer = f" · {t.of_peer:.2f} x best peer" if t.of_peer and kind != "peer" else ""
    part = f" · {t.of_limit:.1%}" if t.of_limit else ""
    limit = t.of_limit * t.seconds or fastest
    return {
        "name": name,
        "kind": kind,
        "part": limit / t.seconds,
        "low": limit / t.high,
        "high": limit / t.low,
        "limit": 1.0,
        "said": f"{words.duration(t.seconds)}{part}{peer}",
        "title": f"{name}: {words.duration(t.low)} to {words.duration(t.high)}, {t.how}",
    }


def _counters(reached: Sequence[RungResult]) -> Iterator[dict[str, Any]]:
    """Charts of counters that differ between rungs."""
    counted = [r for r in reached if r.facts]
    for name in counted[0].facts if counted else ():
        values = [r.facts.get(name, 0.0) for r in counted]
        # A chart of equal bars has no information.
        if max(values) - min(values) <= 0.1 * max(map(abs, values)):
            continue
        rows = [
            {"name": r.title, "kind": "rung", "part": v, "said": number(v), "title": r.idea}
            for r, v in zip(counted, values, strict=True)
        ]
        yield {"name": name, "rows": rows, "most": max(values)}


# ---- rungs -----------------------------------------------------------------------------------
def _rungs(source: LadderText | None, result: ClimbResult) -> Iterator[dict[str, Any]]:
    files = {r.title: r for r in source.rungs} if source is not None else {}
    counted: Mapping[str, float] | None = None
    before: RungText | None = None
    for reached in result.rungs:
        rung = files.get(reached.title)
        changed = [
            (name, number(old) if old is not None else "", number(new))
            for name, old, new in moved(reached.facts, counted)
        ]
        yield {
            **vars(reached),
            "title": reached.title,
            "best": _best(reached.times),
            "moved": changed,
            "lesson": rung.lesson if rung is not None else "",
            **(_source(rung, before) if rung is not None else {}),
        }
        counted = reached.facts or counted
        before = rung


def _best(times: Sequence[Time]) -> str:
    if not times:
        return ""
    t = max(times, key=lambda one: one.of_limit)
    return f"{words.duration(t.seconds)}, {t.of_limit:.1%} of the limit at {t.case}"


def _source(rung: RungText, before: RungText | None) -> dict[str, Any]:
    """The lines of the file, as a diff against the previous rung if the language is the same."""
    new, suffix = rung.source.splitlines(), Path(rung.file).suffix
    comparable = before is not None and Path(before.file).suffix == suffix
    old = before.source.splitlines() if before is not None and comparable else []
    lines = _compared(old, new) if comparable else ((i, t, "") for i, t in _numbered(new))
    rows = [_row(place, text, kind, rung.file) for place, text, kind in lines]
    kinds = [row["kind"] for row in rows]
    return {
        "file": rung.file,
        "source": rows,
        "against": before.title if before is not None and comparable else "",
        "added": kinds.count("new"),
        "gone": kinds.count("gone"),
    }


def _numbered(lines: Sequence[str], first: int = 1) -> Iterator[tuple[int, str]]:
    return enumerate(lines, first)


def _compared(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[object, str, str]]:
    """(number, text, kind) of each line; kind is "new", "gone" or ""."""
    # autojunk would ignore frequent lines such as a closing brace.
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for _, a, b, c, d in matcher.get_opcodes():
        same = old[a:b] == new[c:d]
        if not same:
            yield from (("", text, "gone") for text in old[a:b])
        yield from ((i, t, "" if same else "new") for i, t in _numbered(new[c:d], c + 1))


def _row(place: object, text: str, kind: str, file: str) -> dict[str, Any]:
    sign = {"new": "+", "gone": "-"}.get(kind, "")
    return {"number": place, "code": Markup(colour(text, file)), "kind": kind, "sign": sign}
