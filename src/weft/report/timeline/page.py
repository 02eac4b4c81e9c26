"""Renders a timeline as one HTML page that needs no server: lanes, zoom, search, critical path.

The events are columns of numbers: a hundred thousand of them are a few megabytes, and the page
draws what is wider than a pixel.
"""

from __future__ import annotations

import json
from typing import Any

from markupsafe import Markup

from weft.report import words
from weft.report.page import render
from weft.report.timeline import text
from weft.report.timeline.trace import Lanes
from weft.values.time.timeline import Timeline

_NANOSECONDS = 1e9
_HIDDEN = ("memory", "memory of tensors")


def page(value: Timeline) -> str:
    """The whole page."""
    seconds = value.seconds
    return render(
        "timeline/page",
        title=value.program,
        verb="timeline",
        program=value.program,
        headline=f"{value.gpu}, {value.clock} time",
        tiles=[
            ("in all", words.duration(seconds)),
            ("GPU busy", words.duration(value.busy)),
            ("several at once", words.duration(value.overlap)),
            ("events", f"{len(value.events):,}"),
        ],
        hints=[
            {"event": h.copy, "says": text.said(value, h.copy, h.kernel, h.seconds), "why": h.why}
            for h in value.hints
        ],
        gaps=[
            {"event": g.event, "says": words.duration(g.seconds), "at": words.duration(g.start),
             "why": g.why}
            for g in value.gaps
        ],
        path=[(name, words.duration(s)) for name, s in value.critical[:8]],
        tables=[_table(kind, value) for kind in value.statistics if value.statistics[kind]],
        data=Markup(json.dumps(data(value), separators=(",", ":")).replace("<", "\\u003c")),
    )  # fmt: skip


def data(value: Timeline) -> dict[str, Any]:
    """The events as columns; times are in nanoseconds, names and facts by number."""
    events = value.events
    lanes = list(Lanes(value).place)
    row = {lane: n for n, lane in enumerate(lanes)}
    names: dict[str, int] = {}
    kinds: dict[str, int] = {}
    facts: dict[str, int] = {}
    return {
        "lanes": lanes,
        "lane": [row[e.lane] for e in events],
        "kind": [kinds.setdefault(e.kind, len(kinds)) for e in events],
        "start": [round(e.start * _NANOSECONDS, 2) for e in events],
        "dur": [round(e.seconds * _NANOSECONDS, 2) for e in events],
        "name": [names.setdefault(e.name, len(names)) for e in events],
        "facts": [facts.setdefault(_facts(e.facts), len(facts)) for e in events],
        "after": [e.until if e.until >= 0 else e.after for e in events],
        "launch": [e.launch for e in events],
        "names": list(names),
        "kinds": list(kinds),
        "said": list(facts),
        "path": list(value.path),
    }


def _facts(facts: Any) -> str:
    shown = {
        k: words.size(v) if k == "bytes" else v for k, v in facts.items() if v and k not in _HIDDEN
    }
    return ", ".join(f"{key} {_value(v)}" if v is not True else key for key, v in shown.items())


def _value(value: Any) -> str:
    return " x ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _table(kind: str, value: Timeline) -> dict[str, Any]:
    rows = value.statistics[kind]
    total = sum(row.total for row in rows) or 1.0
    return {
        "title": kind,
        "sized": kind == "copies",
        "rows": [
            {"name": row.name, "share": f"{100 * row.total / total:.1f} %", "calls": row.calls,
             "total": words.duration(row.total), "mean": words.duration(row.mean),
             "least": words.duration(row.least), "most": words.duration(row.most),
             "bytes": words.size(row.nbytes)}
            for row in rows[:40]
        ],
    }  # fmt: skip
