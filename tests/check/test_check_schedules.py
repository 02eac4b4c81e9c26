"""`weft.check(schedules=)` and its commands: the schedule that shows a mistake is named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import weft
from weft.cli import app

pytestmark = pytest.mark.sim

KERNEL = r"""
__global__ void turned(const float* x, float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    %s
    if (threadIdx.x >= 32) y[threadIdx.x - 32] = s[threadIdx.x - 32] + s[threadIdx.x];
}
"""
FILE = f'''
import weft
op = weft.Op("turned", "x:f32[64] -> y:f32[32]", reference=lambda x: x[:32] + x[32:],
             cases=[weft.Case()])
kernel = weft.cuda(r"""{KERNEL % ""}""").turned

@op.solution
def late(x, y):
    kernel[1, 64](x, y)
'''


def check(barrier: str, **options: object) -> weft.Report:
    x, y = np.ones(64, np.float32), np.zeros(32, np.float32)
    kernel = weft.cuda(KERNEL % barrier).turned
    return weft.check(
        kernel[1, 64], x, y, out=y, reference=lambda x: x[:32] + x[32:], seed=1, **options
    )


def test_mistake_is_named_with_its_schedule() -> None:
    assert check("").schedules == ()  # the warps run in order
    with pytest.raises(weft.CheckFailed) as caught:
        check("", schedules=3)
    error = caught.value
    assert error.schedule == "last"
    assert "are wrong under schedule last" in str(error)
    assert error.cause == "missing synchronisation" and "kernel.cu:4" in error.evidence
    assert any("WEFT_SCHEDULE=last" in note for note in error.__notes__)


def test_right_kernel_is_right_under_all() -> None:
    report = check("__syncthreads();", schedules=4)
    assert report.schedules == ("first", "last", "random:1", "random:2")
    assert "right under 4 schedules" in str(report)
    assert check("__syncthreads();", schedules=["random:9"]).schedules == ("random:9",)


@pytest.mark.parametrize("wanted", ["last", -1, ["middle"], 1.5])
def test_wrong_schedules_are_refused(wanted: object) -> None:
    with pytest.raises(weft.Error, match="allowed"):
        check("__syncthreads();", schedules=wanted)


def test_file_is_checked_under_schedules(tmp_path: Path) -> None:
    file = tmp_path / "late.py"
    file.write_text(FILE)
    done = CliRunner().invoke(app, ["check", str(file), "--schedules", "2", "--json", "--seed=1"])
    (row,) = json.loads(done.stdout)
    assert done.exit_code == 1 and row["schedule"] == "last", row


def test_script_runs_under_a_schedule(tmp_path: Path) -> None:
    """In a process of its own: `weft run` changes the one that it runs in."""
    file = tmp_path / "script.py"
    file.write_text("from weft.device.sim import schedules; print(schedules.active())\n")

    def under(schedule: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "weft", "run", "--schedule", schedule, str(file)]
        return subprocess.run(command, capture_output=True, text=True)

    assert under("random:7").stdout == "random:7\n"
    refused = under("middle")
    assert refused.returncode and "first, last or random:N" in refused.stderr
