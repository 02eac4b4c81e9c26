"""Measures every test: its CPU time with that of its processes, and the lines of weft that it runs.

    pytest --record-costs FOLDER     needs the package coverage

`scripts/choose_tests.py FOLDER` reads what this writes.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import weft

SOURCES = Path(weft.__file__).parent


class Recorder:
    """One process of a run; each has files of its own."""

    def __init__(self, folder: Path) -> None:
        from coverage import Coverage

        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        settings = folder / "coverage.ini"
        settings.write_text(
            f"[run]\nsource = {SOURCES}\ndata_file = {folder / 'lines'}\nparallel = True\n"
            "context = ${PYTEST_CURRENT_TEST-}\n"
        )
        # Processes that a test starts measure themselves, with the test's name as their context.
        os.environ["COVERAGE_PROCESS_START"] = str(settings)
        self.lines: Any = Coverage(config_file=str(settings))
        self.lines.start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self.lines.switch_context(item.nodeid)
        before = _seconds()
        result = yield
        row = json.dumps([item.nodeid, round(_seconds() - before, 4)])
        with (self.folder / f"seconds.{os.getpid()}").open("a") as file:
            file.write(row + "\n")
        return result

    def pytest_sessionfinish(self) -> None:
        self.lines.stop()
        self.lines.save()


def _seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
