"""The site of the documents: its pages, and the built site with its links, in a browser, too."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from folders import ROOT
from limits import PROCESS_SECONDS
from weft.cli import NAMES, command
from weft.learn import chapter

sys.path.insert(0, str(ROOT / "scripts"))

import api_document
import site_gallery
import site_ladders
import site_markdown
import site_pages

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
MKDOCS = all(map(importlib.util.find_spec, ("mkdocs", "material", "mkdocstrings")))
BUILD_SECONDS = 3 * PROCESS_SECONDS
"""A build takes a minute of CPU time; a busy machine changes no verdict."""
pytestmark = pytest.mark.timeout(2 * BUILD_SECONDS)
GUIDES = sorted((ROOT / "docs").glob("from_*.md"))


# ---- pages -------------------------------------------------------------------------------------
def _listed(nav: Any) -> Iterator[str]:
    for one in nav:
        if isinstance(one, str):
            yield one
            continue
        for rows in one.values():
            yield from _listed([rows] if isinstance(rows, str) else rows)


def test_the_menu_has_every_document_once() -> None:
    listed = list(_listed(site_pages.nav()))
    assert len(listed) > 150 and len(listed) == len(set(listed))
    assert listed[0] == "index.md"
    assert sorted(set(site_pages.places().values()) - set(listed)) == []


def test_links_lead_to_pages_and_sources() -> None:
    site = site_pages.Pages()
    text = site.document(ROOT / "CONTRIBUTING.md")
    assert "](tests.md)" in text and "](simulator.md#inspecting-the-generated-code)" in text
    assert "](source/src/weft/ptx/isa/registry.py.md)" in text
    assert "](families/histogram.md)" in text
    assert "def instruction(" in str(site.made["source/src/weft/ptx/isa/registry.py.md"])
    figure = "source/src/weft/learn/chapters/ch04_memory/figure_strides.svg"
    assert f"](../{figure})" in site.document(chapter.HOME / "ch04_memory" / "chapter.md")
    assert b"<svg" in site.made[figure]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("[a](b.md#c) `x[1](y.md)`", "[a](<b.md#c>) `x[1](y.md)`"),
        ("[a](https://x.y) [b](#c)", "[a](https://x.y) [b](#c)"),
        ("y[r][c] `t[1][2]`", "y[r&#93;[c] `t[1][2]`"),
        ("<!-- table:x -->\n| a |\n<!-- /table -->\n", "| a |\n"),
        ("- a\n  - b\n", "- a\n    - b\n"),
        ("```sh run\nls [a](b)\n```\n", "```sh\nls [a](b)\n```\n"),
        ("```cpp file=x.cu\nint x;\n```\n", '```cpp title="x.cu"\nint x;\n```\n'),
        ("```py\nf()\n```\n", "```python\nf()\n```\n"),
    ],
    ids=["link", "other links", "indices", "marks", "nested", "run", "file", "alias"],
)
def test_markdown_is_adapted(given: str, expected: str) -> None:
    assert site_markdown.adapted(given, lambda target: f"<{target}>") == expected


def test_plain_text_has_no_markup() -> None:
    text = "y[i] = a*b_c | <x> `d`"
    assert MarkdownIt().renderInline(site_markdown.plain(text)) == ("y[i] = a*b_c | &lt;x&gt; `d`")


def test_ladders_have_charts_of_their_records() -> None:
    climb = next(one for one in site_ladders.recorded() if one.ladder == "vecadd")
    text = site_ladders.with_charts("# Vector addition\n\nText.\n", climb)
    assert text.startswith("# Vector addition\n") and text.endswith("Text.\n")
    files = site_ladders.files()
    shown = re.findall(r"\]\((\w+\.\w+)\)", text)
    assert shown and all(f"ladders/{name}" in files for name in shown)
    assert "</svg>" in str(files["ladders/vecadd_0.svg"])


def test_reports_stand_below_their_examples() -> None:
    text = '```python\np.save("a.html")\n```\n\nb.html\n'
    framed = site_gallery.framed(text)
    assert framed.count("<iframe") == 1 and 'src="gallery/a.html"' in framed
    assert framed.index("<iframe") > framed.index("```\n\n")


def test_docstrings_become_markdown() -> None:
    doc = "Add.\n\na   the first\nb   the second\n\n>>> 1 + 1\n2\n"
    assert api_document.markdown(doc) == (
        "Add.\n\n- `a`: the first\n- `b`: the second\n\n```python\n1 + 1\n```\n```text\n2\n```\n"
    )
    assert api_document.markdown("Add.") == "Add.\n"


# ---- guides ------------------------------------------------------------------------------------
def _unknown(words: str) -> set[str]:
    """The options of a command line of weft that its verb does not have."""
    verb = words.split()[0]
    assert verb in NAMES, words
    known = {o for p in command(verb).params for o in (*p.opts, *p.secondary_opts)}
    return set(re.findall(r"(?<!\S)--[a-z-]+", words)) - known


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.name)
def test_commands_of_guides_exist(path: Path) -> None:
    text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.S | re.M)
    commands = re.findall(r"`weft ([a-z][^`]*)`", text)
    assert len(commands) >= 4
    assert {words: _unknown(words) for words in commands if _unknown(words)} == {}


def test_the_cookbook_has_thirty_recipes() -> None:
    text = (ROOT / "docs" / "cookbook.md").read_text("utf-8")
    numbers = [int(n) for n in re.findall(r"^### (\d+)\. ", text, re.M)]
    assert numbers == list(range(1, 31))
    assert sorted(map(int, re.findall(r"\[(\d+)\]\(#\1-", text))) == numbers


# ---- the built site ----------------------------------------------------------------------------
@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not MKDOCS:
        pytest.skip("MkDocs is not installed: pip install 'weft-gpu[site]'")
    folder = tmp_path_factory.mktemp("built") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=BUILD_SECONDS,
    )
    assert done.returncode == 0, done.stdout
    return folder


class Read(HTMLParser):
    """The links and anchors of a page, and the elements of its article."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.inside = False
        self.elements: Counter[str] = Counter()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.inside |= tag == "article"
        self.elements[tag] += self.inside
        self.anchors |= {given[key] or "" for key in ("id", "name") if key in given}
        self.links += [given[key] or "" for key in ("href", "src") if key in given]

    def handle_endtag(self, tag: str) -> None:
        self.inside &= tag != "article"


@functools.cache
def _read(path: Path) -> Read:
    return Read(path.read_text("utf-8"))


def _broken(page: Path) -> Iterator[str]:
    for link in _read(page).links:
        name, _, anchor = link.partition("#")
        if re.match(r"\w+:|//", link):
            continue
        target = (page.parent / name.partition("?")[0]).resolve() if name else page
        target = target / "index.html" if target.is_dir() else target
        anchored = not anchor or target.suffix != ".html"
        if not target.is_file() or not (anchored or anchor in _read(target).anchors):
            yield link


@pytest.mark.slow
def test_every_link_and_anchor_leads_somewhere(site: Path) -> None:
    # 404.html has links from the root of a server.
    pages = [page for page in site.rglob("*.html") if page.name != "404.html"]
    assert len(pages) > 200
    found = {str(page.relative_to(site)): list(_broken(page)) for page in pages}
    assert {page: links for page, links in found.items() if links} == {}


COUNTED = ("h2", "h3", "h4", "li", "table", "tr", "pre", "img")
ADDED = ("course/", "ladders/", "gallery.md")
"""Pages to whose documents the site adds parts."""


@pytest.mark.slow
def test_pages_have_what_commonmark_makes_of_the_documents(site: Path) -> None:
    reader = MarkdownIt("commonmark").enable("table")
    for path, place in site_pages.places().items():
        if place.startswith(ADDED):
            continue
        article = f"<article>{reader.render(path.read_text('utf-8'))}</article>"
        built = _read(site / place.replace(".md", ".html")).elements
        expected = Read(article).elements
        assert {t: built[t] for t in COUNTED} == {t: expected[t] for t in COUNTED}, place


@pytest.mark.slow
def test_the_reference_has_every_public_name(site: Path) -> None:
    anchors = {a for page in (site / "reference").glob("*.html") for a in _read(page).anchors}
    names = [one.title for found in api_document.entries().values() for one in found]
    assert len(names) > 80 and [name for name in names if name not in anchors] == []


# ---- in a browser ------------------------------------------------------------------------------
class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder without a log."""

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if BROWSER is None:
        pytest.skip("no chromium here: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    with playwright.sync_playwright() as driver:
        # Root may not use Chromium's sandbox; the pages come from this machine.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        one = driver.chromium.launch(executable_path=BROWSER, args=options)
        yield one
        one.close()


class Tab:
    """A page of the browser, with all that went wrong in it and every host that it asked."""

    def __init__(self, browser: Any, width: int) -> None:
        self.errors: list[str] = []
        self.hosts: set[str] = set()
        self.of = browser.new_page(viewport={"width": width, "height": 900})
        self.of.on("pageerror", lambda error: self.errors.append(str(error)))
        self.of.on("console", lambda m: m.type == "error" and self.errors.append(m.text))
        self.of.on("request", lambda r: self.hosts.add(r.url.split("/")[2].partition(":")[0]))


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit_and_have_no_errors(width: int, browser: Any, address: str) -> None:
    tab = Tab(browser, width)
    wide = []
    for page in _listed(site_pages.nav()):
        tab.of.goto(f"{address}/{page.replace('.md', '.html')}")
        found = tab.of.evaluate("document.documentElement.scrollWidth")
        wide += [f"{page}: {found}"] if found > width else []
    assert (wide, tab.errors) == ([], [])
    assert tab.hosts <= {"127.0.0.1", ""}
    tab.of.close()


@pytest.mark.slow
def test_search_and_colours(browser: Any, address: str) -> None:
    tab = Tab(browser, 1280)
    tab.of.goto(f"{address}/index.html")
    tab.of.fill("[data-md-component=search-query]", "coalesced")
    tab.of.wait_for_selector(".md-search-result__item a")
    tab.of.keyboard.press("Escape")
    schemes = []
    for _ in range(3):
        tab.of.click("[data-md-component=palette] label:not([hidden])")
        schemes.append(tab.of.get_attribute("body", "data-md-color-scheme"))
    assert {"default", "slate"} <= set(schemes) and tab.errors == []
    tab.of.close()
