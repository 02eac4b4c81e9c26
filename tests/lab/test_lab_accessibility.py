"""The lab by keyboard and for screen readers: axe finds no violation in any view, dark or light."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the lab is not installed: pip install 'weft-gpu[lab]'")

from lab_client import JOB, Lab, running
from weft.lab.exporting import export
from weft.lab.process import LabWorker

playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python"
)

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
pytestmark = [
    pytest.mark.sim,
    pytest.mark.skipif(BROWSER is None, reason="no chromium here: apt-get install chromium"),
]
LONG = 60_000  # milliseconds; no assertion on time


@pytest.fixture(scope="module")
def worker() -> Iterator[LabWorker]:
    one = LabWorker(limit=60, memory=4 << 30)
    yield one
    one.close()


@pytest.fixture(scope="module")
def lab(worker: LabWorker) -> Iterator[Lab]:
    with running(worker, start={**JOB, "title": "turn"}) as one:
        yield one


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        one = driver.chromium.launch(executable_path=BROWSER, args=options)
        yield one
        one.close()


def opened(browser: Any, url: str, scheme: str, width: int = 1280) -> Any:
    # The lab's policy would refuse axe's script.
    context = browser.new_context(
        viewport={"width": width, "height": 850}, color_scheme=scheme, bypass_csp=True
    )
    page = context.new_page()
    page.set_default_timeout(LONG)
    page.goto(url)
    return page


def violations(page: Any) -> list[str]:
    """A line for each violation: the rule, and the elements."""
    found = axe.Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {node['html'][:200]} {node['any'][0]['message'] if node['any'] else ''}"
        for one in found
        for node in one["nodes"][:5]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_any_view(browser: Any, lab: Lab, scheme: str) -> None:
    page = opened(browser, lab.url, scheme)
    page.wait_for_selector("html[data-ready=yes]")
    page.wait_for_selector("#pane-ptx tr.ins")
    found: dict[str, str] = {}
    """Violation -> the view that has it first."""

    def look(view: str) -> None:
        for one in violations(page):
            found.setdefault(one, view)

    look("start")
    page.click("#run")
    page.wait_for_selector(".said")
    look("run")
    page.click("#profile")
    page.wait_for_selector("#pane-facts tr.ins")
    look("facts")
    for tab, shows in {
        "warp": ".strip", "time": ".stalls", "roofline": "#pane-roofline svg",
        "occupancy": "#pane-occupancy svg", "compare": "#pane-compare button",
    }.items():  # fmt: skip
        page.click(f"#results [data-tab={tab}]")
        page.wait_for_selector(shows)
        look(tab)
    page.click("text=Keep this version as A")
    look("compare with A")
    page.click("#all")
    look("side by side")
    page.click("#all")
    page.click("#code [data-tab=sass]")
    look("sass")
    page.click("#results [data-tab=timeline]")
    page.click("text=Record a timeline")
    page.wait_for_selector("iframe.timeline")
    page.frame_locator("iframe.timeline").locator("#view").wait_for()
    look("timeline")
    page.keyboard.press("F9")
    page.click("#debug")
    page.wait_for_selector(".lanes td.chosen")
    page.click("text=PTX around the stop")
    look("debug")
    page.click("[data-move=end]")
    page.click("#sanitize")
    page.wait_for_selector("#pane-output .message")
    look("sanitize")
    page.click("#check")
    page.wait_for_selector("#pane-output .message.good >> text=right")
    look("check")
    page.click("#open")
    page.wait_for_selector("#choices .chip")
    look("menu")
    page.fill("#filter", "what a gpu is")
    page.locator("#choices .chip", has_text="places").click()
    page.wait_for_selector("#pane-chapter .task")
    look("task")
    page.select_option("#kind", "numba")
    page.click("#run")
    page.wait_for_selector("#consent[open]")
    look("consent")
    page.context.close()
    assert not found, "\n".join(f"{view}: {one}" for one, view in found.items())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_exported_pages(
    browser: Any, worker: LabWorker, scheme: str, tmp_path: Path
) -> None:
    wanted = list(export.jobs(["example:transpose", "example:ring", "example:out_of_bounds"]))
    pages = export.export(tmp_path / "site", wanted, worker, device="sim:h200", gpus=["h200"])
    for path in pages:
        page = opened(browser, path.as_uri(), scheme)
        page.wait_for_selector("h2")
        assert not (found := violations(page)), f"{path.name}\n" + "\n".join(found)
        page.context.close()


def test_a_phone_scrolls_one_way_only(browser: Any, lab: Lab) -> None:
    page = opened(browser, lab.url, "light", width=390)
    page.wait_for_selector("html[data-ready=yes]")
    for tab in ("debug", "time", "timeline", "compare"):
        page.click(f"#results [data-tab={tab}]")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), tab
    assert violations(page) == []
    page.context.close()


def test_everything_is_reached_by_the_keyboard(browser: Any, lab: Lab) -> None:
    page = opened(browser, lab.url, "light")
    page.wait_for_selector("html[data-ready=yes]")
    page.wait_for_selector("#pane-ptx tr.ins")
    page.evaluate("document.querySelector('#open').focus()")
    order = []
    for _ in range(60):
        order.append(page.evaluate(
            "(document.activeElement.id || document.activeElement.dataset.tab"
            " || document.activeElement.getAttribute('aria-label')"
            " || document.activeElement.className)"))  # fmt: skip
        if page.evaluate("document.activeElement.classList.contains('cm-content')"):
            page.keyboard.press("Escape")  # Tab indents in the editor; after Escape it leaves it
        page.keyboard.press("Tab")
    for name in ("save", "run", "profile", "debug", "share", "theme", "Source of the kernel",
                 "Launches", "ptx", "output"):  # fmt: skip
        assert name in order, name
    assert order.index("open") < order.index("run") < order.index("Source of the kernel")
    assert order.index("Source of the kernel") < order.index("Launches") < order.index("ptx")
    # A tab list is one stop; its arrow keys, Home and End move inside.
    page.focus("#results [data-tab=output]")
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.dataset.tab") == "languages"
    page.keyboard.press("Home")
    assert page.evaluate("document.activeElement.dataset.tab") == "output"
    # A line of a listing leads to its source by Enter.
    page.focus("#pane-ptx tr.ins[data-line] >> nth=5")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.classList.contains('cm-content')")
    page.context.close()


def test_actions_are_announced(browser: Any, lab: Lab) -> None:
    page = opened(browser, lab.url, "light")
    page.wait_for_selector("html[data-ready=yes]")
    assert page.get_attribute("#status", "aria-live") == "polite"
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#status >> text=run: done")
    page.context.close()
