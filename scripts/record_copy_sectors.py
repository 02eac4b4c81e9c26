"""Asks ncu for the sectors of bulk and tensor copies, and writes them to tests/golden/hardware.

    python scripts/record_copy_sectors.py [FOLDER]

Needs an NVIDIA GPU of sm_90, PyTorch and ncu. `copy_sectors.json` has the counters of each case of
tests/support/copy_sectors.py, in their order.
"""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "src")]

import copy_sectors  # noqa: E402


def launch_all() -> None:
    """Make every copy once, on the GPU."""
    import torch

    import weft

    module = weft.cuda(copy_sectors.SOURCE, arch="sm_90a")
    for case in copy_sectors.cases():
        made = copy_sectors.launch(module, case, lambda array: torch.from_numpy(array).cuda())
        made[0](*made[1])
        weft.synchronize()


def main() -> None:
    """Count them under ncu."""
    folder = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "tests" / "golden" / "hardware"
    command = ["ncu", "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base",
               "-k", "regex:boxes|ranges", "--metrics", ",".join(copy_sectors.METRICS),
               sys.executable, __file__, "--launch"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        raise SystemExit(done.stdout[-3000:] + done.stderr[-3000:])
    rows = list(csv.DictReader(io.StringIO(done.stdout[done.stdout.index('"ID"') :])))[1:]
    counted = [[int(float(r[m].replace(",", ""))) for m in copy_sectors.METRICS] for r in rows]
    assert len(counted) == len(copy_sectors.cases()), "ncu has seen other launches"
    text = json.dumps({"metrics": copy_sectors.METRICS, "cases": counted})
    (folder / "copy_sectors.json").write_text(text + "\n", encoding="utf-8")
    print(f"{len(counted)} copies")


if __name__ == "__main__":
    launch_all() if sys.argv[1:] == ["--launch"] else main()
