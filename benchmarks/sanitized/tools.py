"""Runs each tool on a planted bug: whether it finds it, and with which lines."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import planted
from planted import Case
from weft.frontends.compute_sanitizer import TOOLS, find
from weft.frontends.compute_sanitizer_text import findings

HERE = Path(__file__).parent
TESTS = HERE.parents[1] / "tests"
SECONDS = 10


def weft_row(case: Case) -> dict[str, Any]:
    """The bug and its twin under weft's sanitizer."""
    with tempfile.TemporaryDirectory() as folder:
        bug = planted.sanitized(case, True, Path(folder))
        twin = planted.sanitized(case, False, Path(folder))
    return {
        "found": bool(bug.findings),
        "line": planted.named(case, bug.findings),
        "alarm": bool(twin.findings),
    }


def python_row(case: Case) -> dict[str, Any]:
    """Run the bug under the simulator of Triton or Numba; return whether it reports anything."""
    switch = {"Triton": "TRITON_INTERPRET", "Numba": "NUMBA_ENABLE_CUDASIM"}[case.language]
    done = _run([sys.executable, HERE / "alone.py", case.id], {switch: "1"})
    lines = {int(n) for n in re.findall(r'bug\.py", line (\d+)', done[1])}
    raised = done[0] == 1
    return {"found": raised, "line": raised and bool(lines & case.lines()), "how": _how(done[0])}


def gpu_row(case: Case) -> dict[str, Any]:
    """The bug on a GPU under every tool of compute-sanitizer."""
    with ThreadPoolExecutor(len(TOOLS)) as pool:
        said = dict(zip(TOOLS, pool.map(lambda tool: _sanitizer(case, tool), TOOLS), strict=True))
    found = {tool: [f for f in findings(text) if f.kernel] for tool, (_, text) in said.items()}
    lines = {a.number for fs in found.values() for f in fs for a in f.accesses}
    return {
        "found": any(found.values()),
        "line": bool(lines & case.lines()),
        "by": [tool for tool in TOOLS if found[tool]],
        "how": _how(said[TOOLS[0]][0]),
    }


def _sanitizer(case: Case, tool: str) -> tuple[int, str]:
    command: list[Any] = [find(), "--tool", tool, "--show-backtrace", "no"]
    return _run([*command, sys.executable, HERE / "alone.py", case.id])


def _how(code: int) -> str:
    if code < 0:
        return "crash"
    return {0: "nothing", 1: "error", 124: "hangs"}.get(code, "error")


def _run(command: list[Any], more: dict[str, str] | None = None) -> tuple[int, str]:
    path = os.pathsep.join([str(TESTS / "support"), str(TESTS.parent / "src")])
    environment = {**os.environ, "PYTHONPATH": path, **(more or {})}
    process = subprocess.Popen(
        [str(c) for c in command], env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, encoding="utf-8", errors="replace",
        start_new_session=True)  # fmt: skip
    try:
        said, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # what it has started holds on to its output
        said, _ = process.communicate()
        return 124, said
    return process.returncode, said
