"""Numba kernels on weft's simulated GPU against Numba's own simulator, on the same inputs.

    python benchmarks/frontends/numba_speed.py [--record]

Both run the same script, `numba_cases.py`, on one core each. `--record` appends the run to
benchmarks/records/numba_speed.jsonl, from which docs/numba.md has its table.
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from simspeed import machine

HERE = Path(__file__).resolve().parent
RECORDS = HERE.parent / "records" / "numba_speed.jsonl"
SCRIPT = str(HERE / "numba_cases.py")
SIDES: dict[str, tuple[list[str], dict[str, str]]] = {
    "numba": ([SCRIPT], {"NUMBA_ENABLE_CUDASIM": "1"}),
    "weft": (["-m", "weft", "run", SCRIPT], {"WEFT_THREADS": "1"}),
}
TARGET = {"matmul with tiles, 64 x 64": 5000.0}
"""How many times faster it has to be."""


def run(side: str) -> dict[str, Any]:
    """Case -> seconds and error."""
    arguments, setting = SIDES[side]
    done = subprocess.run(
        [sys.executable, *arguments], env={**os.environ, **setting}, stdout=subprocess.PIPE,
        text=True, check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def record() -> dict[str, Any]:
    sides = {side: run(side) for side in SIDES}
    cases = [
        {
            "name": name,
            **{side: sides[side][name] for side in SIDES},
            "ratio": sides["numba"][name]["seconds"] / sides["weft"][name]["seconds"],
            "target": TARGET.get(name),
        }
        for name in sides["weft"]
    ]
    about = {**machine.describe(), "numba-cuda": version("numba-cuda")}
    when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"when": when, "machine": about, "cases": cases}


def main() -> int:
    made = record()
    for case in made["cases"]:
        shown = [
            f"{s} {case[s]['seconds'] * 1e3:.3f} ms, off {case[s]['error']:.0e}" for s in SIDES
        ]
        print(f"{case['name']:30s} {shown[0]:35s} {shown[1]:35s} {case['ratio']:8.0f} x")
    if "--record" in sys.argv[1:]:
        with RECORDS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(made) + "\n")
    return int(any(c["target"] and c["ratio"] < c["target"] for c in made["cases"]))


if __name__ == "__main__":
    sys.exit(main())
