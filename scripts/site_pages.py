"""Collects the pages of the site: documents, the course, ladders, the gallery, the reference.

A page is a path in the site -> its Markdown, or the content of a file. Files that documents link to
and that are no documents become pages as well, so that every link stays inside of the site.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from pathlib import Path

import api_document
import site_course
import site_gallery
import site_ladders
import site_markdown

from weft.learn import chapter, puzzle

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
FAMILIES = ROOT / "src" / "weft" / "ops" / "families"
LADDERS = ROOT / "src" / "weft" / "ladders"
NAMED = {
    DOCS / "start.md": "index.md",
    DOCS / "README.md": "documents.md",
    ROOT / "README.md": "overview.md",
    ROOT / "CHANGELOG.md": "changelog.md",
    ROOT / "CONTRIBUTING.md": "contributing.md",
    ROOT / "SECURITY.md": "security.md",
}
"""Documents whose pages have another name than the file."""
LANGUAGES = {".py": "python", ".cu": "cuda", ".cuh": "cuda", ".cpp": "cpp", ".h": "cpp"}
"""Ending of a source file -> its language."""
Content = str | bytes
Nav = list[dict[str, "str | Nav"] | str]


def pages() -> dict[str, Content]:
    """Every page and file of the site."""
    site = Pages()
    site.made = {place: site.document(path) for path, place in list(site.at.items())} | site.made
    site.made["assets/site.css"] = (Path(__file__).parent / "site.css").read_text("utf-8")
    for one in chapter.chapters():
        page = f"course/{one.folder.name}.md"
        site.made[page] = f"{site.made[page]}\n\n{site_course.exercises(one)}"
    for one in site_ladders.recorded():
        page = f"ladders/{one.ladder}.md"
        site.made[page] = site_ladders.with_charts(str(site.made[page]), one)
    site.made["gallery.md"] = site_gallery.framed(str(site.made["gallery.md"]))
    return site.made | (
        site_course.pages() | site_ladders.files() | site_gallery.files(DOCS) | reference()
    )


def reference() -> dict[str, Content]:
    """Pages whose text mkdocstrings writes: one for each section of docs/api.md."""
    return {
        page: f"# {title}\n\n" + "\n\n".join(f"::: {one.title}" for one in found)
        for title, found in api_document.entries().items()
        for page in [f"reference/{_slug(title)}.md"]
    }


def nav() -> Nav:
    """The menu: the sections of docs/README.md, then what it has no table for."""
    index = (DOCS / "README.md").read_text("utf-8")
    tables = re.findall(r"^\| ([a-z ]+) \| \|\n((?:\|.*\n)+)", index, re.M)
    listed: list[tuple[str, Nav]] = [
        (
            title.capitalize(),
            [_page(name) for name in re.findall(r"^\| \[\w+\]\((.+?)\)", rows, re.M)],
        )
        for title, rows in tables
    ]
    listed[0][1].extend([{"Overview": "overview.md"}, {"All documents": "documents.md"}])
    chapters: Nav = [f"course/{one.folder.name}.md" for one in chapter.chapters()]
    puzzles: Nav = [site_course.page(one) for one in puzzle.puzzles()]
    families = [f"families/{path.parent.name}.md" for path in sorted(FAMILIES.glob("*/README.md"))]
    ladders = [f"ladders/{path.parent.name}.md" for path in sorted(LADDERS.glob("*/ladder.md"))]
    more: list[tuple[str, Nav]] = [
        ("Course", ["course/index.md", *chapters, {"Puzzles": puzzles}]),
        ("Ladders", ["ladders/index.md", *ladders]),
        ("Kernels of ops", [*families]),
        ("Reference", [*reference()]),
        ("Project", ["changelog.md", "contributing.md", "security.md"]),
    ]
    return [{title: rows} for title, rows in [*listed, *more]]


def places() -> dict[Path, str]:
    """Every document, and its page."""
    return {
        **{path: path.name for path in sorted(DOCS.glob("*.md"))},
        **{path: f"families/{path.parent.name}.md" for path in FAMILIES.glob("*/README.md")},
        **{path: f"ladders/{path.parent.name}.md" for path in LADDERS.glob("*/ladder.md")},
        **{path: f"course/{path.parent.name}.md" for path in chapter.HOME.glob("*/chapter.md")},
        **NAMED,
    }


@dataclass
class Pages:
    """Files that have a page, and the pages made so far."""

    at: dict[Path, str] = field(default_factory=places)
    made: dict[str, Content] = field(default_factory=dict)

    def document(self, path: Path) -> str:
        """The text of a document, adapted to its page."""
        text = path.read_text("utf-8")
        return site_markdown.adapted(text, lambda target: self._link(target, path))

    def _link(self, target: str, path: Path) -> str:
        name, _, anchor = target.partition("#")
        place = self._place((path.parent / name).resolve())
        here = posixpath.dirname(self.at[path])
        return posixpath.relpath(place, here or ".") + (f"#{anchor}" if anchor else "")

    def _place(self, path: Path) -> str:
        """The page of a file; a file without one gets a page or a copy."""
        path = path / "README.md" if path / "README.md" in self.at else path
        if path not in self.at:
            name = path.relative_to(ROOT).as_posix()
            paged = path.is_dir() or path.suffix in LANGUAGES
            inside = path.parent == DOCS
            self.at[path] = path.name if inside else f"source/{name}{'.md' if paged else ''}"
            self.made[self.at[path]] = self._content(path, name)
        return self.at[path]

    def _content(self, path: Path, name: str) -> Content:
        hidden = f"---\nsearch:\n  exclude: true\n---\n\n# {name}\n\n"
        if path.is_dir():
            return hidden + "".join(f"- `{one.name}`\n" for one in sorted(path.iterdir()))
        if path.suffix == ".md":
            return self.document(path)
        if path.suffix in LANGUAGES:
            return hidden + site_markdown.code(path.read_text("utf-8"), LANGUAGES[path.suffix])
        return path.read_bytes()


def _page(document: str) -> str:
    return NAMED.get(DOCS / document, document)


def _slug(title: str) -> str:
    return re.sub(r"\W+", "_", title.lower())
