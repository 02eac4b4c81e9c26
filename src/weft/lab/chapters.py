"""The text and the figures of a course chapter for the lab's pane."""

from __future__ import annotations

import re
from typing import Any

from markdown_it import MarkdownIt

from weft.errors import ArgumentError
from weft.lab.origins import exercises
from weft.learn import chapter

_FIGURE = re.compile(r'src="(figure_\w+\.svg)"')


def text(number: int) -> dict[str, Any]:
    """The chapter's title and its text as HTML; HTML in the text is escaped."""
    one = chapter.find(number)
    html = MarkdownIt("commonmark", {"html": False}).enable("table").render(one.text)
    shown = _FIGURE.sub(rf'src="api/figure?number={number}&amp;name=\1"', html)
    return {"number": number, "title": one.title, "html": shown, "exercises": exercises(one)}


def figure(number: int, name: str) -> str:
    """A figure of a chapter as SVG."""
    for path in chapter.find(number).figures:
        if path.name == name:
            return path.read_text("utf-8")
    raise ArgumentError("the chapter has no such figure", got=name[:80])
