"""Times the first and the second run of a kernel, of programs and of extensions, by two clocks.

    python benchmarks/first_run.py [--record] [--only NAME] [--rounds 3]

A first run begins with an empty cache. Processor time is that of all processes of a command;
figures are the least of the rounds. Plain Python, NumPy and `import torch` are measured beside
them: what weft adds is the difference.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from simspeed.machine import describe

RECORDS = Path(__file__).with_name("records") / "first_run.jsonl"
HERE = Path(__file__).parent / "first_run"
WEFT = [sys.executable, "-m", "weft"]


class Case(NamedTuple):
    """A command, and one that has to run before it."""

    command: list[str]
    before: tuple[str, ...] = ()


CASES = {
    "python": Case([sys.executable, "-c", "pass"]),
    "numpy": Case([sys.executable, "-c", "import numpy"]),
    "kernel": Case([sys.executable, str(HERE / "kernel.py")]),
    "torch": Case([sys.executable, "-c", "import torch, torch.utils.cpp_extension"]),
    "hello.cu": Case([*WEFT, "run", str(HERE / "hello.cu")]),
    "vector_add.cu": Case([*WEFT, "run", str(HERE / "vector_add.cu")]),
    "stl.cu": Case([*WEFT, "run", str(HERE / "stl.cu")]),
    "ctypes": Case(
        [sys.executable, str(HERE / "by_ctypes.py")],
        (*WEFT, "nvcc", "-shared", "-Xcompiler", "-fPIC", str(HERE / "scale.cu"), "-o", "scale.so"),
    ),
    "extension": Case([*WEFT, "run", str(HERE / "extension.py")]),
}


def timed(command: Sequence[str], folder: str) -> tuple[float, float]:
    """Processor time and time of a command and its processes, in seconds."""
    before, begin = os.times(), time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, encoding="utf-8")
    wall, after = time.perf_counter() - begin, os.times()
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    spent = after.children_user + after.children_system
    return spent - before.children_user - before.children_system, wall


def measure(case: Case, rounds: int) -> dict[str, float]:
    """The least processor time, and the least time, of a first and of a second run."""
    row: dict[str, float] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["WEFT_CACHE_DIR"] = os.path.join(folder, "cache")
            os.environ["TORCH_EXTENSIONS_DIR"] = os.path.join(folder, "extensions")
            built = timed(case.before, folder) if case.before else (0.0, 0.0)
            for name in ("first", "second"):
                cpu, wall = timed(case.command, folder)
                if name == "first":
                    cpu, wall = cpu + built[0], wall + built[1]
                for key, value in ((f"{name}_cpu", cpu), (f"{name}_wall", wall)):
                    row[key] = round(min(row.get(key, value), value), 3)
    return row


def main() -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--only", action="append", help="part of a name; may be given twice")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # users keep bytecode
    rows: dict[str, Any] = {}
    for name, case in CASES.items():
        if not options.only or any(part in name for part in options.only):
            rows[name] = measure(case, options.rounds)
            print(f"{name:15}", rows[name], flush=True)
    if options.record:
        when = datetime.now(UTC).isoformat(timespec="seconds")
        with RECORDS.open("a") as file:
            file.write(json.dumps({"when": when, "machine": describe(), "rows": rows}) + "\n")


if __name__ == "__main__":
    main()
