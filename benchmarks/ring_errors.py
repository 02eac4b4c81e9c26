"""Record the errors of attention on several ranks against float64, on the simulated GPU.

    PYTHONPATH=src python benchmarks/ring_errors.py

Processes of 1, 2, 3, 4 and 8 ranks compute results and gradients in float32, as
tests/distributed/test_ring.py has it. A line goes to benchmarks/records/ring_errors.jsonl, from
which the table of docs/distributed.md is made.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
SUPPORT = ROOT / "tests" / "support"
RECORD = Path(__file__).parent / "records" / "ring_errors.jsonl"
WORLDS = (1, 2, 3, 4, 8)


def errors(folder: Path) -> dict[str, dict[str, float]]:
    """The largest relative error of each case, by the number of ranks."""
    paths = os.pathsep.join((str(ROOT / "src"), str(SUPPORT)))
    env = {**os.environ, "PYTHONPATH": paths, "WEFT_THREADS": "1"}
    command = [sys.executable, str(SUPPORT / "ring_ranks.py"), str(folder), *map(str, WORLDS)]
    subprocess.run(command, check=True, env=env)
    return {str(n): json.loads((folder / f"{n}.json").read_text()) for n in WORLDS}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = errors(Path(folder))
    row = {
        "date": time.strftime("%Y-%m-%d"),
        "torch": torch.__version__,
        "device": "sim",
        "errors": found,
    }
    with RECORD.open("a") as file:
        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
