"""The planted bugs of the chapter on the debugger: its commands lead to each, as the text says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from limits import PROCESS_SECONDS
from weft.learn import chapter

pytestmark = pytest.mark.sim

EXERCISES = {e.name: e for e in chapter.find(22).exercises}
SESSIONS = {
    # Half of 3 values is 1: the third one is left out.
    "odd": (
        "sums_of[1, 96](np.ones(96, np.float32), np.zeros(1, np.float32))",
        ["trace-values", "--kernel", "sums_of", "--var", "s"],
        ["48 -> 24", "6 -> 3", "3 -> 1"],
    ),
    "spread": (
        "spread[1, 32](np.float32(1000) + np.arange(1280, dtype=np.float32) % 97 / 9700,"
        " np.zeros(32, np.float32), 32, 40)",
        ["debug", "--on-nan", "-c", "print variance"],
        ["the first NaN", "y[r] = sqrtf(variance);", "variance = -"],
    ),
    "reuse": (
        "reverse[1, 64](np.ones(256, np.float32), np.zeros(256, np.float32))",
        ["debug", "--race", "-c", "print k"],
        ["the second access of a data race", "group[63 - t]", "group[t] = x[first + t]"],
    ),
}
"""Name of the exercise -> (a launch, a command of weft, parts of what it prints)."""


@pytest.mark.parametrize("name", SESSIONS)
def test_the_debugger_finds(name: str, tmp_path: Path) -> None:
    launch, command, shown = SESSIONS[name]
    given = EXERCISES[name]
    (tmp_path / given.file).write_text(given.text, encoding="utf-8")
    script = tmp_path / "launch.py"
    script.write_text(
        f"import numpy as np\nimport weft\n\nweft.cuda({given.file!r}).{launch}\n", encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, "-m", "weft", *command, script.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PROCESS_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert [words for words in shown if words not in done.stdout] == [], done.stdout
