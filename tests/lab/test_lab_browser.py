"""The lab's page in a real browser: headless Chromium, driven by Playwright."""

from __future__ import annotations

import base64
import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the lab is not installed: pip install 'weft-gpu[lab]'")

from lab_client import JOB, Lab, running
from weft.lab.process import LabWorker
from weft.lab.saving import Files
from weft.learn import chapter

playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
pytestmark = [
    pytest.mark.sim,
    pytest.mark.skipif(BROWSER is None, reason="no chromium here: apt-get install chromium"),
]
LONG = 60_000  # milliseconds; no assertion on time


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home") / "learn"


@pytest.fixture(scope="module")
def lab(course: Path) -> Iterator[Lab]:
    worker = LabWorker(limit=30, memory=4 << 30)
    with running(worker, start={**JOB, "title": "turn"}, files=Files(course)) as one:
        yield one
    worker.close()


@pytest.fixture(scope="module")
def context() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        # Root may not use Chromium's sandbox; the page comes from this machine.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = driver.chromium.launch(executable_path=BROWSER, args=options)
        yield browser.new_context(viewport={"width": 1280, "height": 800})
        browser.close()


class Page:
    """A page, with all that went wrong in it and every host that it asked."""

    def __init__(self, context: Any, url: str) -> None:
        self.errors: list[str] = []
        self.hosts: set[str] = set()
        self.posts: list[str] = []
        self.of = context.new_page()
        self.of.set_default_timeout(LONG)
        self.of.on("pageerror", lambda error: self.errors.append(str(error)))
        self.of.on("console", lambda m: m.type == "error" and self.errors.append(m.text))
        self.of.on("request", lambda r: self.hosts.add(r.url.split("/")[2].partition(":")[0]))
        self.of.on("request", lambda r: r.method == "POST" and self.posts.append(r.url))
        self.of.goto(url)
        self.of.wait_for_selector("html[data-ready=yes]")

    def text(self, selector: str) -> str:
        words: str = self.of.inner_text(selector)
        return words

    def act(self, button: str, shows: str) -> None:
        self.of.click(f"#{button}")
        self.of.wait_for_selector(shows)

    def line(self, words: str) -> None:
        """Puts the cursor into the line of the editor that has these words."""
        self.of.locator("#editor .cm-line", has_text=words).click(position={"x": 60, "y": 8})


@pytest.fixture(scope="module")
def page(context: Any, lab: Lab) -> Iterator[Page]:
    one = Page(context, lab.url)
    yield one
    assert not one.errors and one.hosts <= {"127.0.0.1", ""}
    one.of.close()


def test_profile_links_source_facts_ptx_and_warps(page: Page) -> None:
    page.of.wait_for_selector("#pane-ptx tr.ins")
    page.act("profile", "#pane-facts tr.ins")
    # The line with the most traffic is selected by itself.
    assert "x[i * 32 + t]" in page.text("#pane-facts tr.picked")
    page.line("tile[t][2]")
    assert "tile[t][2]" in page.text("#pane-facts tr.picked")
    assert page.text(".cm-facts span.bad").startswith("8 w/r")
    page.of.click("#results [data-tab=warp]")
    page.of.wait_for_selector(".says >> text=of 32")
    page.of.select_option("[aria-label=Access]", label=page.of.locator(
        "[aria-label=Access] option", has_text="load of 4 bytes, shared").inner_text())  # fmt: skip
    assert "8 wavefronts where 1 would do; bank 2 has 8 words" in page.text(".says")
    assert page.of.locator(".strip .lane.off").count() == 24
    page.line("tile[i][t]")
    page.of.wait_for_selector(".says >> text=4 sectors")
    page.of.click("[aria-label='Next execution']")
    assert "execution 2 of" in page.text(".steps")
    page.of.click("#code [data-tab=ptx]")
    page.of.locator("#pane-ptx tr.ins", has_text="ld.shared").first.click()
    assert page.of.evaluate("document.querySelector('.cm-activeLine').textContent").strip() == (
        "y[t] = tile[t][2] * 3;"
    )


def test_a_bar_of_a_stage_leads_to_its_line(context: Any, lab: Lab) -> None:
    page = Page(context, lab.url)
    page.act("profile", "#pane-facts tr.ins")
    assert page.of.is_hidden("#results [data-tab=stages]"), "this kernel has none"
    page.act("open", "#choices")
    page.of.click("#choices >> text=Ring of stages")
    page.of.wait_for_selector("#pane-ptx tr.ins >> text=cp.async.bulk")
    page.act("profile", "#results [data-tab=stages]:visible")
    page.of.click("#results [data-tab=stages]")
    assert page.of.locator("svg.stages rect.fill").count() == 16
    page.of.locator("svg.stages rect.used").nth(5).click()
    assert "2 * stage[i]" in page.text(".cm-activeLine")
    assert not page.errors
    page.of.close()


def test_predicted_times_of_the_chosen_gpus(page: Page) -> None:
    page.act("profile", "#pane-facts tr.ins")
    assert "Predicted: " in page.text("#pane-output") or page.of.is_hidden("#pane-output")
    page.of.click("#results [data-tab=time]")
    page.of.wait_for_selector(".stalls caption >> text=turn on h200")
    page.of.check(".gpus input[value=a100]")
    page.of.wait_for_selector(".stalls caption >> text=turn on a100")
    assert "a100 was never measured" in page.text("#pane-time")
    page.of.locator(".stalls button", has_text="line 8").first.click()
    assert "tile[t][2]" in page.text(".cm-activeLine")


def test_the_debugger_steps_and_shows_lanes_and_values(context: Any, lab: Lab) -> None:
    page = Page(context, lab.url)
    page.line("if (t % 4 == 1)")
    page.of.keyboard.press("F9")
    assert page.of.locator(".cm-breaks .break").count() == 1
    page.of.click("#debug")
    page.of.wait_for_selector("#status >> text=line 7")
    assert page.of.locator(".lanes td.lane-on").count() == 32
    assert "if (t % 4 == 1)" in page.text(".cm-current")
    # Another thread: by a click, and then by the arrow keys.
    page.of.click(".lanes td[data-thread='4']")
    page.of.wait_for_selector(".where >> text=thread (4, 0, 0)")
    page.of.locator(".lanes td[data-thread='4']").press("ArrowRight")
    page.of.wait_for_selector(".where >> text=thread (5, 0, 0)")
    page.of.keyboard.press("F10")
    page.of.wait_for_selector("#status >> text=line 8")
    assert page.of.locator(".lanes td.lane-on").count() == 8
    page.of.locator("#editor .cm-line", has_text="int t =").hover(position={"x": 66, "y": 8})
    page.of.wait_for_selector(".cm-value >> text=t = 5")
    page.of.fill("[aria-label=Expression]", "t * 10")
    page.of.click("text=Value in all lanes")
    page.of.wait_for_selector("#pane-debug output >> text=50")
    page.of.fill("[aria-label=Expression]", "tile[5][2]")
    page.of.click("text=Back to its last write")
    page.of.wait_for_selector("#status >> text=line 5")
    assert "the last write of tile[5][2]" in page.text(".where")
    # A click into the margin sets one, with a condition from the list.
    at = page.of.locator("#editor .cm-line", has_text="if (t == 5)").bounding_box()
    margin = page.of.locator(".cm-breaks").bounding_box()
    page.of.mouse.click(margin["x"] + 8, at["y"] + 8)
    page.of.fill("[aria-label='Condition of line 9']", "t == 6")
    page.of.press("[aria-label='Condition of line 9']", "Enter")
    page.of.wait_for_selector(".cm-breaks .conditional")
    page.of.click("[aria-label='Remove the breakpoint of line 7']")
    page.of.click("[data-move=continue]")
    page.of.wait_for_selector("#status >> text=line 9")
    assert "thread (6, 0, 0)" in page.text(".where")
    page.of.click("[data-move=continue]")
    page.of.wait_for_selector("#pane-output >> text=the launches have ended")
    # An edit ends the session: lines have moved.
    page.of.keyboard.press("F8")
    page.of.wait_for_selector(".cm-current")
    page.line("int t =")
    page.of.keyboard.type(" ")
    page.of.wait_for_selector("[data-move=start]:visible")
    assert not page.errors
    page.of.close()


def test_run_check_and_errors_show_at_their_line(page: Page) -> None:
    page.act("run", ".said")
    assert page.text(".said").strip() == "lane 5"
    page.act("check", "#pane-output .message.good")
    page.of.click("#code [data-tab=ptx]")
    page.line("int t = threadIdx.x;")
    page.of.keyboard.press("End")
    page.of.keyboard.type(" oops")
    page.of.wait_for_selector(".cm-lint-marker-error")
    page.of.wait_for_selector("#pane-ptx .empty >> text=oops")
    for _ in " oops":
        page.of.keyboard.press("Backspace")
    page.of.wait_for_selector("#pane-ptx tr.ins")


def test_two_versions_are_compared(page: Page) -> None:
    page.act("profile", "#pane-facts tr.ins")
    page.of.click("#results [data-tab=compare]")
    page.of.click("text=Keep this version as A")
    page.line("__shared__")
    page.of.keyboard.press("End")
    for key in ("ArrowLeft", "ArrowLeft", "Backspace", "3"):
        page.of.keyboard.press(key)
    page.act("profile", "#pane-compare .changes")
    assert "tile[32][33]" in page.text("#pane-compare .merge")
    row = page.of.locator(".changes tr", has_text="shared wavefronts").last.inner_text()
    assert row.split() == ["shared", "wavefronts", "8", "1", "0.125x"]


def test_sliders_menu_and_sanitizer(page: Page) -> None:
    page.of.click("#results [data-tab=occupancy]")
    page.of.locator("#pane-occupancy input[type=range]").nth(1).fill("255")
    page.of.wait_for_selector("#pane-occupancy tr.now >> text=registers")
    page.of.click("#open")
    page.of.fill("#filter", "data race")
    page.of.locator("#choices .chip", has_text="Data race").click()
    page.of.wait_for_selector("#editor .cm-line >> text=reversed_too_early")
    page.act("sanitize", "#pane-output .message.bad")
    assert page.of.locator(".cm-lint-marker-error").count() == 2
    assert page.text("#pane-output .message.bad").count("thread (") == 2


def test_an_exercise_is_saved_and_counted(page: Page, course: Path) -> None:
    page.of.click("#open")
    page.of.fill("#filter", "what a gpu is")
    page.of.locator("#choices .chip", has_text="places").click()
    page.of.wait_for_selector("#pane-chapter .task >> text=01 places")
    page.line("warp[i] = start[i];")
    for keys in ("Home", "Shift+End", "Delete"):
        page.of.keyboard.press(keys)
    page.of.keyboard.type("warp[i] = start[i] + threadIdx.x / 32;")
    page.line("lane[i]")
    for keys in ("End", "ArrowLeft"):
        page.of.keyboard.press(keys)
    page.of.keyboard.type(" % 32")
    assert page.text("#title") == "01 places, edited"
    page.act("check", "#pane-output .message.good")
    assert "Save counts it" in page.text("#status") and not course.exists()
    page.of.keyboard.press("Control+s")
    page.of.wait_for_selector("#status >> text=saved")
    assert "threadIdx.x % 32;" in (course / "ch01_gpu" / "exercise_places.cu").read_text()
    assert page.text("#title") == "01 places"
    page.of.click("#open")
    page.of.wait_for_selector("#choices .chip.passed >> text=places")
    exercises = sum(len(one.exercises) for one in chapter.chapters())
    assert f"1 of {exercises} pass" in page.text("#choices")
    page.of.click("#menu >> text=Close")


CUT = """[...document.querySelectorAll('#title, #form td input[data-key], button, select')]
  .filter((e) => e.offsetParent && e.type !== 'checkbox' && e.scrollWidth > e.clientWidth + 1)
  .map((e) => e.value || e.id)"""


@pytest.mark.parametrize("width", [1280, 800])
def test_no_name_is_cut(page: Page, width: int) -> None:
    page.of.set_viewport_size({"width": width, "height": 800})
    for name in ("Histogram: shared atomics", "Transpose: bank conflicts"):
        page.of.click("#open")
        page.of.fill("#filter", name)
        page.of.locator("#choices .chip", has_text=name).click()
        page.of.wait_for_selector(f"#title >> text={name}")
        assert page.of.evaluate(CUT) == []
        assert page.of.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.of.set_viewport_size({"width": 1280, "height": 800})


def test_a_link_holds_the_state_and_runs_nothing(page: Page, context: Any, lab: Lab) -> None:
    page.line("__global__")
    page.of.keyboard.press("F9")
    page.of.select_option("#model", "a100")
    source = page.text("#editor .cm-content")  # what the tests before have left
    page.of.click("#share")
    page.of.wait_for_url("**/#z=*")
    link = page.of.url.partition("/#")[2]
    other = Page(context, f"{lab.url}#{link}")
    assert "__global__" in source and other.text("#editor .cm-content") == source
    assert other.of.input_value("#model") == "a100"
    assert other.of.locator(".cm-breaks .break").count() == 1
    other.of.wait_for_selector("#pane-ptx tr.ins")  # compiled to be shown
    assert {path for path in other.posts if not path.endswith("/do/inspect")} == set()
    # Python in a link waits for the user's consent, too.
    other.of.select_option("#kind", "numba")
    other.of.click("#run")
    other.of.wait_for_selector("#consent[open]")
    assert "your rights on this computer" in other.text("#consent")
    other.of.click("#consent >> text=Cancel")
    other.of.wait_for_selector("#status >> text=nothing ran")
    other.of.set_viewport_size({"width": 390, "height": 800})
    assert other.of.evaluate("document.documentElement.scrollWidth <= innerWidth"), "no side scroll"
    assert not other.errors
    other.of.close()
    page.of.select_option("#model", "h200")


def packed(state: Any) -> str:
    """A fragment as the page makes it: zlib, base64 for URLs."""
    data = zlib.compress(json.dumps(state).encode())
    return f"z={base64.urlsafe_b64encode(data).decode().rstrip('=')}"


BAD_LINKS: dict[str, tuple[Callable[[str], str], str]] = {
    "cut": (lambda link: link[:-9], "damaged"),
    "changed": (lambda link: link[:40] + ("A" if link[40] != "A" else "B") + link[41:], "damaged"),
    "no base64": (lambda link: "z=%%%", "damaged"),
    "too long": (lambda link: "z=" + "A" * 33_000, "too long"),
    "no state": (lambda link: packed({"kind": "cuda", "source": 3}), "no state"),
}


@pytest.mark.parametrize("name", BAD_LINKS)
def test_a_link_that_is_none_says_so(context: Any, lab: Lab, name: str) -> None:
    good = packed({"kind": "cuda", "source": "__global__ void f() {}"})
    change, words = BAD_LINKS[name]
    page = Page(context, f"{lab.url}#{change(good)}")
    page.of.wait_for_selector(f"#pane-output .message.bad >> text={words}")
    assert "int t = threadIdx.x;" in page.text("#editor .cm-content"), "the page shows its start"
    assert not page.errors
    page.of.close()


def test_a_source_that_is_too_long_is_not_shared(context: Any, lab: Lab) -> None:
    page = Page(context, lab.url)
    words = " ".join(str(n * 2654435761 % 2**32) for n in range(9000))  # compresses badly
    page.line("#include")
    page.of.keyboard.press("Home")
    page.of.keyboard.insert_text(f"// {words}\n")
    page.of.click("#share")
    page.of.wait_for_selector("#pane-output .message.bad >> text=The link would have")
    assert "#z=" not in page.of.url
    page.of.close()
