"""Renders reports as small HTML for notebooks, in the notebook's colours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from weft.report import words
from weft.values.check import Verdict
from weft.values.findings import Finding
from weft.values.timing import Timing

_GOOD, _BAD = "#12805c", "#c2341d"
# Inline styles only: notebooks strip style sheets from outputs.
_CELL = "text-align:left;padding:2px 12px 2px 0"


def check(summary: str, trials: Sequence[Verdict]) -> str:
    """The trials of a passed check."""
    rows = [(t.trial, f"{t.worst:.2g}", "yes" if t.deterministic else "no") for t in trials]
    table = _table(("trial", "worst error, of what is allowed", "same bits twice"), rows)
    return _head("✓", summary, good=True) + _folded(f"{len(rows)} trials", table)


def sanitized(findings: Sequence[Finding], summary: str) -> str:
    """The findings of the sanitizer."""
    head = f"{len(findings)} found" if findings else "nothing found"
    out = _head("✗" if findings else "✓", f"sanitizer: {head} in {summary}", good=not findings)
    return out + "".join(plain(str(f)) for f in findings)


def plain(text: str) -> str:
    """Text as it is printed."""
    return f"<pre>{escape(text)}</pre>"


def times(gpu: str, timings: Sequence[Timing], floor: float) -> str:
    """A table of times and what they are of the floor."""
    best = min(t.seconds for t in timings)
    rows = [
        (
            t.name,
            words.duration(t.seconds),
            f"{words.duration(t.low)} to {words.duration(t.high)}",
            f"{floor / t.seconds:.1%}" if floor else "",
            f"{t.seconds / best:.2f} x",
            "" if t.memory is None else words.size(t.memory),
            "; ".join(t.notes),
        )
        for t in timings
    ]
    columns = ("", "time", "95 %", "of the ceiling", "of the fastest", "peak memory", "")
    return f"<div>timed on {escape(gpu)}</div>" + _table(columns, rows)


def frame(page: str, title: str) -> str:
    """A whole page in an iframe, which isolates its styles from the notebook's."""
    return (
        f'<iframe srcdoc="{escape(page)}" style="width:100%;height:900px;border:0" '
        f'title="{escape(title)}"></iframe>'
    )


def _head(sign: str, text: str, *, good: bool) -> str:
    colour = _GOOD if good else _BAD
    return f'<div><b style="color:{colour}">{sign}</b> {escape(text)}</div>'


def _folded(title: str, inside: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{inside}</details>"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th style="{_CELL}">{escape(c)}</th>' for c in columns)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{escape(cell)}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"
