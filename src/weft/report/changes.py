"""Renders a comparison of profiles as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from weft.report import cells, words
from weft.report.colour import colour
from weft.report.page import render
from weft.values.analysis import Change, Differences, LineChange

_KINDS = {(True, False): ("gone", "-"), (False, True): ("new", "+")}
"""(line exists before, line exists after) -> CSS class of the row, and its sign."""


def page(changes: Sequence[Differences]) -> str:
    """The whole page, with one section per pair of kernels."""
    pairs = [_pair(c) for c in changes]
    title = ", ".join(p["title"] for p in pairs)
    return render("changes", title=title, verb="profile", pairs=pairs)


def framed(changes: Differences) -> str:
    """The notebook's view: the page in an iframe."""
    return cells.frame(page([changes]), "weft profile: comparison")


def _pair(c: Differences) -> dict[str, Any]:
    # One name if both profiles are of the same kernel.
    kernels = dict.fromkeys(name.partition(",")[0] for name in c.names)
    return {
        "title": " → ".join(kernels),
        "before": c.names[0],
        "after": c.names[1],
        "sections": [(name, [_row(row) for row in rows]) for name, rows in c.sections],
        "lines": [_line(line) for line in c.lines],
    }


def _row(c: Change) -> dict[str, str]:
    before, after, ratio = words.change(c)
    return {"what": c.what, "before": before, "after": after, "ratio": ratio}


def _line(line: LineChange) -> dict[str, Any]:
    kind, sign = _KINDS.get((line.before is not None, line.after is not None), ("", ""))
    return {
        "kind": kind,
        "sign": sign,
        "old": "" if line.before is None else line.before,
        "new": "" if line.after is None else line.after,
        "code": Markup(colour(line.quote, line.file)),
        "counters": [_row(row) for row in line.counters],
    }
