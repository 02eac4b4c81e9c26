"""The page of a profile, in a real headless browser: no errors, nothing fetched, lines linked."""

from __future__ import annotations

import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import numpy as np
import pytest

import weft
from limits import PROCESS_SECONDS
from weft.report import changes
from weft.report.colour import colour
from weft.report.page import fragment, page

pytestmark = pytest.mark.sim

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
browser = pytest.mark.skipif(BROWSER is None, reason="no chromium here: apt-get install chromium")

SOURCE = r"""
__global__ void turn(const float* x, float* y) {
    __shared__ float tile[32][32];
    tile[threadIdx.y][threadIdx.x] = x[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    if (x[0] < 2.0f) // "</script>" and <b> must stay text
        y[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
"""
CLICKS = """
<script>
const text = (selector) => document.querySelector(selector)?.textContent ?? "";
const said = { hot: text(".says"), hotRows: document.querySelectorAll(".ptx tr.picked").length };
document.querySelector('.source tr[data-place$=":4"]').click();
said.line = text(".says");
said.words = document.querySelectorAll(".picture .word").length;
const rows = [...document.querySelectorAll(".ptx tr")];
rows.find((row) => /st\\.global/.test(row.textContent)).click();
said.source = document.querySelector(".source tr.picked .n").textContent;
said.heat = document.querySelector(".source tr.hot td.h i").style.width;
said.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
const out = document.createElement("pre");
out.id = "said";
out.textContent = JSON.stringify(said);
document.body.append(out);
</script></body>"""


@pytest.fixture(scope="module")
def profile() -> weft.Profile:
    x, y = np.ones(1024, np.float32), np.ones(1024, np.float32)
    return weft.profile(weft.cuda(SOURCE).turn[1, (32, 32)], x, y)


@pytest.fixture(scope="module")
def html(profile: weft.Profile) -> str:
    return page([profile])


def _open(html: str, folder: Path, width: int) -> tuple[str, str]:
    """The page after its scripts ran, and what the browser's console said."""
    path = folder / "page.html"
    path.write_text(html, encoding="utf-8")
    command = [
        str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
        f"--user-data-dir={folder / 'browser'}", f"--window-size={width},1200", "--dump-dom",
        path.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_SECONDS)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, "\n".join(console)


@browser
@pytest.mark.parametrize("width", [1280, 800])
def test_the_page_works(html: str, tmp_path: Path, width: int) -> None:
    dom, console = _open(html.replace("</body>", CLICKS), tmp_path, width)
    assert console == "" and 'data-ready="yes"' in dom
    found = re.search(r'<pre id="said">(.*?)</pre>', dom, re.DOTALL)
    assert found is not None
    said = found[1]
    assert '"hot":"32 different words of 4 bytes; bank 0 has 32 of them' in said
    assert '"line":"32 lanes ask for 128 bytes: 4 sectors of 32 bytes in 1 line of 128' in said
    assert '"words":32' in said and '"source":"7"' in said, "a click on PTX picks its source line"
    assert '"wide":0' in said, "nothing is wider than the window"
    assert re.search(r'"heat":"[\d.]+%"', said) and '"hotRows":0' not in said


@browser
def test_many_kernels_are_chosen_from_a_list(profile: weft.Profile, tmp_path: Path) -> None:
    choice = """<script>const c = document.getElementById("choose"); c.value = "1";
      c.dispatchEvent(new Event("change"));</script></body>"""
    dom, console = _open(page([profile, profile]).replace("</body>", choice), tmp_path, 1280)
    assert console == ""
    shown = re.findall(r'<main class="profile" data-number="(\d)"( hidden="")?>', dom)
    assert shown == [("0", ' hidden=""'), ("1", "")]


@pytest.fixture(scope="module")
def compared(profile: weft.Profile) -> str:
    x, y = np.ones(1024, np.float32), np.ones(1024, np.float32)
    padded = weft.cuda(SOURCE.replace("tile[32][32]", "tile[32][33]").replace("2.0f", "3.0f"))
    other = weft.profile(padded.turn[1, (32, 32)], x, y)
    return changes.page([profile.compare(other), profile.compare(profile)])


def test_the_page_of_changes(compared: str) -> None:
    assert re.search(r"<td>Shared memory: wavefronts</td><td>1,056</td><td>64</td>", compared)
    assert compared.count('<tr class="gone">') == compared.count('<tr class="new">') == 1
    assert "&lt;b&gt; must stay" in compared and "Nothing changed." in compared
    assert not re.search(r"(?:src|href)\s*=|url\(|@import|https?://", compared)


@browser
@pytest.mark.parametrize("width", [1280, 420])
def test_the_page_of_changes_fits(compared: str, tmp_path: Path, width: int) -> None:
    wide = """<script>document.getElementById("theme").click(); const e = document.documentElement;
      e.dataset.wide = e.scrollWidth - e.clientWidth;</script></body>"""
    dom, console = _open(compared.replace("</body>", wide), tmp_path, width)
    assert console == "" and 'data-ready="yes"' in dom and 'data-wide="0"' in dom
    assert re.search(r'data-theme="(dark|light)"', dom)


def test_nothing_is_fetched(html: str) -> None:
    assert not re.search(r"(?:src|href)\s*=|url\(|@import|https?://(?!www\.w3\.org/2000/svg)", html)


def test_what_the_source_says_stays_text(html: str) -> None:
    assert html.count("</script>") == html.count("<script") and "<b> must" not in html


def test_the_page_has_all_its_parts(html: str) -> None:
    for part in ("Advice", "Source and PTX", "Addresses of a warp", "Roofline", "Occupancy",
                 "Memory Workload Analysis", "bank conflicts", "st.global.f32"):  # fmt: skip
        assert part in html


def test_a_kernel_without_memory_or_source_has_a_page() -> None:
    ptx = weft.load_ptx(weft.cuda("__global__ void nothing() {}").ptx.text)
    p = weft.profile(ptx.kernel(ptx.names[0])[1, 32])
    assert "Nothing is computed" in page([p])


def test_notebooks_get_a_frame(profile: weft.Profile) -> None:
    assert profile._repr_html_() == fragment(profile)
    assert profile.compare(profile)._repr_html_().startswith("<iframe srcdoc=")
    attribute = '"[^"]*"'
    whole = f"<iframe srcdoc={attribute} style={attribute} title={attribute}></iframe>"
    assert re.fullmatch(whole, fragment(profile)), "the page is one attribute, quotes and all"


COLOURED = [
    (
        "k.cu",
        "__global__ void k() { // a <b>",
        'cuda">__global__|keyword">void|comment">// a &lt;b&gt;',
    ),
    (
        "k.cu",
        "y[threadIdx.x] = 1.5f; __syncthreads();",
        'cuda">threadIdx|number">1.5f|cuda">__sync',
    ),
    ("k.cu", "#include <cuda_fp16.h>", "#include &lt;cuda_fp16.h&gt;"),
    ("k.py", "def k(x):  # a comment", 'keyword">def|comment"># a comment'),
]


@pytest.mark.parametrize(("file", "text", "marks"), COLOURED)
def test_colours_follow_the_language(file: str, text: str, marks: str) -> None:
    shown = colour(text, file)
    assert all(mark in shown for mark in marks.split("|"))
    assert unescape(re.sub(r"</?i[^>]*>", "", shown)) == text
