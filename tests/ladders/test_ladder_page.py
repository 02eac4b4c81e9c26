"""The page of a climb, in a real headless browser: counted or timed, and what is in it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from limits import PROCESS_SECONDS
from small_ladder import GOOD, OP, run, timed
from weft.climbing import ladder, records
from weft.report.climb_page import page

pytestmark = pytest.mark.sim

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
CLICKS = """
<script>
document.querySelector(".toggle input")?.click();
const shown = (s) => [...document.querySelectorAll(s)].filter((e) => e.offsetParent).length;
document.querySelectorAll("details").forEach((d) => { d.open = true; });
const out = document.createElement("pre");
out.id = "said";
out.textContent = [document.documentElement.scrollWidth - document.documentElement.clientWidth,
  shown("tr.new"), shown("tr.gone"), getComputedStyle(document.body).backgroundColor].join("|");
document.body.append(out);
</script></body>"""


@pytest.fixture
def climbed(tmp_path: Path) -> tuple[Path, str]:
    """A ladder of two rungs with a text, and its page."""
    (tmp_path / "op.py").write_text(f'"""Twice a number, </script> and all."""\n{OP}')
    (tmp_path / "rung_00_naive.cu").write_text(GOOD)
    (tmp_path / "rung_01_sum.cu").write_text(GOOD.replace("2 * x[i]", "x[i] + x[i]"))
    (tmp_path / "ladder.md").write_text("# Why\n\n| a | b |\n|---|---|\n| 1 | <b>2</b> |\n")
    result = run(
        str(tmp_path), "--html", str(tmp_path / "out.html"), "--record", str(tmp_path / "r")
    )
    assert result.exit_code == 0 and "ladder.md" in result.stdout, result.output
    return tmp_path, (tmp_path / "out.html").read_text()


def _open(html: str, folder: Path, width: int) -> tuple[str, list[str]]:
    """The DOM after the scripts ran, and what the console said."""
    path = folder / "shown.html"
    path.write_text(html)
    command = [
        str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
        f"--user-data-dir={folder / 'browser'}", f"--window-size={width},1200", "--dump-dom",
        path.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_SECONDS)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def test_the_page_has_it_all(climbed: tuple[Path, str]) -> None:
    folder, html = climbed
    assert "a thread for each element" in html and "+1 -1 lines against 00 naive" in html
    assert "<td>1</td>" in html and "&lt;b&gt;2" in html, "the text, as text"
    assert "Twice a number, &lt;/script&gt;" in html
    assert not re.search(r'(src|href)="', html), "nothing is fetched"
    again = page(ladder.find(str(folder)).texts, records.climb(folder / "r"))
    assert again.count("rung_01_sum.cu") == 1, "a record's page has the sources as well"


def test_a_page_of_times_needs_no_ladder() -> None:
    html = page(None, timed())
    assert "1.25 ms · 80.0% · 1.60 x best peer" in html and "limit copy: 4.00 TB/s" in html
    assert 'class="bar-row peer" title="torch.add(a, b): 1.98 ms to 2.02 ms' in html
    assert "checked and counted" not in html and "<details" not in html


@pytest.mark.skipif(BROWSER is None, reason="no chromium here: apt-get install chromium")
@pytest.mark.parametrize("width", [1400, 700])
def test_the_page_works(climbed: tuple[Path, str], tmp_path: Path, width: int) -> None:
    dom, console = _open(climbed[1].replace("</body>", CLICKS), tmp_path, width)
    found = re.search(r'<pre id="said">(.*?)</pre>', dom)
    assert not console and 'data-ready="yes"' in dom and found is not None
    assert found[1].startswith("0|1|0|"), "no wider than the window; what has gone is hidden"
