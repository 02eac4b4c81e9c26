"""Run the command line in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import weft
from limits import PROCESS_SECONDS

SOURCE = str(Path(weft.__file__).parents[1])


def run_weft(
    *words: str, folder: Path | None = None, path: str = SOURCE
) -> subprocess.CompletedProcess[str]:
    """Run `weft` with some words in a folder; Python's path begins with `path`."""
    return subprocess.run(
        [sys.executable, "-m", "weft", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        encoding="utf-8",
        timeout=PROCESS_SECONDS,
    )
