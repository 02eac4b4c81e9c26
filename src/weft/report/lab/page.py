"""Renders a kernel of the lab as one self-contained page, and the index of such pages.

The page has the page of the profiles in it, and before it the source, the form, the results and the
predicted times. Nothing is fetched: it opens from a file as well as from any server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from weft.report import page as profile_page
from weft.report.colour import colour
from weft.report.words import Block
from weft.values.analysis import AnalysedProfile


@dataclass(frozen=True)
class Exported:
    """A kernel as the lab has run it.

    rows       (name, value) of the form: sizes, arrays, launches, the reference
    results    arrays after the run: name, text of its type, and its first elements
    printed    what it printed
    failure    the error that it ended with; then there may be no profiles
    times      the report of the predicted times
    """

    title: str
    note: str
    language: str
    file: str
    source: str
    rows: Sequence[tuple[str, str]]
    results: Sequence[Mapping[str, Any]]
    printed: str
    failure: str
    times: Sequence[Block]
    profiles: Sequence[AnalysedProfile]


def page(one: Exported, index: str = "index.html") -> str:
    """The page of one kernel; `index` is the address of the list."""
    return profile_page.render(
        "lab/page",
        script_of="page",
        title=one.title,
        verb="lab",
        one=one,
        index=index,
        lines=[Markup(colour(line, one.file)) for line in one.source.splitlines()],
        times=[_shown(block) for block in one.times],
        views=profile_page.views(one.profiles),
    )


def index(pages: Sequence[tuple[str, str, str]], title: str = "Kernels") -> str:
    """The list of pages: (address, title, what is known of it)."""
    return profile_page.render("lab/index", title=title, verb="lab", pages=pages)


def _shown(block: Block) -> dict[str, Any]:
    if len(block) == 2:
        return {"text": block[0], "style": block[1]}
    return {"columns": block.columns, "rows": block.rows}
