"""The text of a course chapter as HTML for the lab's pane."""

from __future__ import annotations

from typing import Any

from markdown_it import MarkdownIt

from weft.learn import chapter


def text(number: int) -> dict[str, Any]:
    """The chapter's title and its text; HTML in the text is escaped."""
    one = chapter.find(number)
    # The page shows figures of the course only if they are beside the text.
    html = MarkdownIt("commonmark", {"html": False}).enable("table").render(one.text)
    exercises = [{"origin": f"learn:{e.chapter:02}/{e.name}", "title": e.name, "goal": e.goal}
                 for e in one.exercises]  # fmt: skip
    return {"number": one.number, "title": one.title, "html": html, "exercises": exercises}
