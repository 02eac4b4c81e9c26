"""Writes the course as a static site: pages for chapters and puzzles that need no network.

index.html                   the map
ch04_memory/index.html       a chapter with its exercises and figures
puzzles/p01_map.html         a puzzle in all languages, with a picture of its accesses
"""

from __future__ import annotations

import functools
import re
import shutil
from collections.abc import Callable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from markdown_it import MarkdownIt
from markupsafe import Markup

from weft.learn import drawing
from weft.learn.chapter import Chapter
from weft.learn.exercise import Exercise
from weft.learn.picture import picture
from weft.learn.puzzle import LANGUAGES, Puzzle
from weft.report.colour import colour_block

Progress = Callable[[str], None]
_COMMENT = re.compile(r"^<!--.*?-->\n", re.MULTILINE)
"""The marks of generated tables."""
_SUFFIXES = {"python": ".py", "cpp": ".cu", "c++": ".cu", "cuda": ".cu"}


def write(
    folder: Path,
    chapters: Sequence[Chapter],
    puzzles: Sequence[Puzzle],
    progress: Progress = lambda what: None,
) -> list[Path]:
    """Write the pages into a folder; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "style.css").write_text(_part("site.css"), encoding="utf-8")
    rows = [(f"{c.number:02}", c.title, f"{c.folder.name}/index.html", c) for c in chapters]
    count = sum(len(c.exercises) for c in chapters)
    index = folder / "index.html"
    written = [_page(index, "index", title="The course", chapters=rows, count=count,
                     puzzles=[(p, f"puzzles/{_file(p)}") for p in puzzles])]  # fmt: skip
    for place, chapter in enumerate(chapters):
        progress(chapter.title)
        mine = [(p.name, f"../puzzles/{_file(p)}") for p in puzzles if p.name in chapter.puzzles]
        written.append(_chapter(folder / chapter.folder.name, chapters, place, mine))
    for place, puzzle in enumerate(puzzles):
        progress(puzzle.name)
        written.append(_puzzle(folder / "puzzles", puzzles, place))
    return written


def _chapter(
    folder: Path, chapters: Sequence[Chapter], place: int, puzzles: Sequence[tuple[str, str]]
) -> Path:
    folder.mkdir(exist_ok=True)
    chapter = chapters[place]
    for figure in chapter.figures:
        shutil.copyfile(figure, folder / figure.name)
    return _page(
        folder / "index.html",
        "chapter",
        title=f"{chapter.number:02} {chapter.title}",
        text=_html(chapter.text),
        exercises=[_exercise(e) for e in chapter.exercises],
        number=f"{chapter.number:02}",
        puzzles=puzzles,
        **_around([f"../{c.folder.name}/index.html" for c in chapters], place),
    )


def _puzzle(folder: Path, puzzles: Sequence[Puzzle], place: int) -> Path:
    folder.mkdir(exist_ok=True)
    puzzle = puzzles[place]
    threads = puzzle.answers["cuda"]
    return _page(
        folder / _file(puzzle),
        "puzzle",
        title=f"{puzzle.number}. {puzzle.name}",
        puzzle=puzzle,
        size=repr(threads.op.cases[0]),
        picture=Markup(drawing.svg(picture(threads, threads.solution))),
        answers=[(key, LANGUAGES[key].name, _exercise(a)) for key, a in puzzle.answers.items()],
        **_around([_file(p) for p in puzzles], place),
    )


def _file(puzzle: Puzzle) -> str:
    return f"p{puzzle.number:02}_{puzzle.name}.html"


def _around(links: Sequence[str], place: int) -> dict[str, str]:
    before = links[place - 1] if place else ""
    after = links[place + 1] if place + 1 < len(links) else ""
    return {"before": before, "after": after}


def _exercise(exercise: Exercise) -> dict[str, Any]:
    return {
        "name": exercise.name,
        "goal": exercise.goal,
        "file": exercise.file,
        "given": _source(exercise.text, exercise.file),
        "solution": _source(exercise.solution.read_text("utf-8"), exercise.file),
        "hints": exercise.hints,
    }


def without_marks(text: str) -> str:
    """A solution without the lines that enclose the learner's part."""
    return "\n".join(line for line in text.splitlines() if line.strip() not in _MARKS)


def _source(text: str, file: str) -> Markup:
    return Markup(colour_block(without_marks(text), file))


_MARKS = ("// begin", "// end", "# begin", "# end")
"""Lines that enclose the learner's part in the solution of a puzzle."""


@functools.cache
def _reader() -> MarkdownIt:
    options = {"html": False, "highlight": _highlighted}
    return MarkdownIt("commonmark", options).enable("table")


def _highlighted(code: str, language: str, attributes: str) -> str:
    suffix = _SUFFIXES.get(language.split()[0] if language else "")
    if suffix is None:
        return escape(code)
    return colour_block(code, suffix)


def _html(markdown: str) -> Markup:
    """A text without its title, which the page has already."""
    _, _, rest = _COMMENT.sub("", markdown).partition("\n")
    # Wide tables and code scroll by themselves, so that a page fits a phone.
    html = _reader().render(rest).replace("<table>", '<div class="wide"><table>')
    return Markup(html.replace("</table>", "</table></div>"))


def _page(path: Path, template: str, **values: Any) -> Path:
    depth = "" if template == "index" else "../"
    path.write_text(
        _environment().get_template(f"{template}.html").render(root=depth, **values),
        encoding="utf-8",
    )
    return path


@functools.cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(_part), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )


def _part(name: str) -> str:
    return files("weft.learn.export").joinpath(name).read_text("utf-8")
