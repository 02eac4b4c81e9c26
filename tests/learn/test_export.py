"""The course for readers: pages that need no network and fit a phone, and notebooks."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest
from typer.testing import CliRunner

from limits import PROCESS_SECONDS
from weft.cli import app
from weft.learn import chapter, puzzle
from weft.learn.export import notebooks, site
from weft.learn.export.blocks import blocks

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
CHAPTERS, PUZZLES = chapter.chapters(), puzzle.puzzles()[2:5]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    written = site.write(folder, CHAPTERS, PUZZLES)
    assert len(written) == 1 + len(CHAPTERS) + len(PUZZLES)
    return folder


def test_links_lead_somewhere(pages: Path) -> None:
    for page in pages.rglob("*.html"):
        text = page.read_text()
        links = re.findall(r'(?:href|src)="([^"#]+)"', text)
        assert links and [n for n in links if not (page.parent / n).is_file()] == [], page
        assert "<script" not in text and "{{" not in text and "&lt;!--" not in text


def test_pages_have_the_texts_and_the_exercises(pages: Path) -> None:
    for one in CHAPTERS:
        page = unescape(re.sub("<[^>]*>", "", (pages / one.folder.name / "index.html").read_text()))
        for exercise in one.exercises:
            assert exercise.goal in page and exercise.hints[-1] in page
            assert exercise.text.splitlines()[-2] in page
            assert exercise.solution.read_text().splitlines()[-2] in page
    guard = (pages / "puzzles" / "p03_guard.html").read_text()
    assert "<svg" in guard and "begin" not in guard
    # What the third thread of the solution touches, as it was recorded.
    assert "thread 2 reads x[2] writes y[2]" in guard and "thread 12 reads nothing" in guard


MEASURE = """<body><script>
const width = 390, found = [];
async function look(name) {
  const frame = document.createElement("iframe");
  frame.style = `width: ${width}px; height: 800px; border: 0`; frame.src = name;
  document.body.append(frame);
  await new Promise(done => frame.onload = done);
  const page = frame.contentDocument;
  const whole = page.documentElement;
  found.push([whole.scrollWidth - whole.clientWidth, getComputedStyle(page.body).backgroundColor]);
}
(async () => { for (const name of NAMES) await look(name);
  document.title = JSON.stringify(found); document.body.innerHTML = "<p>done</p>"; })();
</script>"""


@pytest.mark.skipif(BROWSER is None, reason="no chromium here: apt-get install chromium")
def test_pages_fit_a_phone_and_are_dark_where_it_is(pages: Path) -> None:
    names = ["index.html", "ch01_gpu/index.html", "ch18_streams/index.html"]
    names += ["puzzles/p05_broadcast.html"]
    (pages / "measure.htm").write_text(MEASURE.replace("NAMES", json.dumps(names)))
    assert BROWSER is not None
    address = f"file://{pages / 'measure.htm'}"
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
               "--allow-file-access-from-files", "--virtual-time-budget=20000",
               "--blink-settings=preferredColorScheme=0",
               f"--user-data-dir={pages / 'profile'}", address]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_SECONDS)
    (title,) = re.findall("<title>(.*)</title>", done.stdout)
    assert json.loads(unescape(title)) == [[0, "rgb(13, 17, 23)"]] * len(names)


def test_notebooks_have_cells_that_jupyter_reads(tmp_path: Path) -> None:
    written = notebooks.write(tmp_path, CHAPTERS, PUZZLES)
    assert len(written) == len(CHAPTERS) + 3
    for path in written:
        notebook = json.loads(path.read_text())
        assert notebook["nbformat"] == 4 and notebook["nbformat_minor"] >= 5
        assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
        for cell in notebook["cells"]:
            assert isinstance(cell["source"], list) and isinstance(cell["metadata"], dict)
            assert cell["cell_type"] in ("markdown", "code")
            assert ("outputs" in cell) == (cell["cell_type"] == "code")
    fourth = json.loads((tmp_path / "ch04_memory.ipynb").read_text())["cells"]
    texts = ["".join(cell["source"]) for cell in fourth]
    (example,) = [c for c in fourth if "".join(c["source"]).startswith("import numpy as np, weft")]
    assert "stride 8: 32 sectors per request" in "".join(example["outputs"][0]["text"])
    assert "%%writefile learn/ch04_memory/exercise_strip.cu\n" in "".join(texts)
    assert "!weft learn check 04 --only strip" in texts


def test_code_of_a_text_is_told_from_what_it_prints() -> None:
    text = "a\n\n```python\nx\n```\n```text\ny\n```\nb\n```text\nz\n```\n```cpp file=k.cu\nw\n```\n"
    kinds = [(b.kind, b.text, b.name) for b in blocks(text)]
    assert kinds == [
        ("prose", "a", ""), ("python", "x", ""), ("output", "y", ""), ("prose", "b", ""),
        ("other", "z", ""), ("file", "w", "k.cu"),
    ]  # fmt: skip


def test_the_verb(tmp_path: Path) -> None:
    def learn(*words: str) -> str:
        return CliRunner().invoke(app, ["learn", "export", *words]).output

    assert "--html DIR" in learn()
    html, notebook = tmp_path / "html", tmp_path / "notebook"
    listed = learn("04", "--html", str(html), "--notebook", str(notebook), "--json")
    assert json.loads(listed) == [
        str(html / "index.html"),
        str(html / "ch04_memory" / "index.html"),
        str(notebook / "ch04_memory.ipynb"),
    ]
