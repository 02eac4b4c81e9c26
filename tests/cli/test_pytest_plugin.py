"""The pytest plugin, in processes of its own: what passes, fails and is skipped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from limits import PROCESS_SECONDS
from weft.pytest_plugin import no_gpu

TESTS = r'''
import numpy as np, pytest, weft

module = weft.cuda("""
__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 3 * x[i];
}
__global__ void race(float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = threadIdx.x;
    y[threadIdx.x] = s[63 - threadIdx.x];
}
""")

def test_right(weft_array, weft_check):
    x, y = weft_array(np.ones(100, np.float32)), weft_array(np.zeros(100, np.float32))
    weft_check(module.scale[1, 128], x, y, 100, out=y, reference=lambda x: 3 * x)

def test_wrong(weft_array, weft_check):
    x, y = weft_array(np.ones(100, np.float32)), weft_array(np.zeros(100, np.float32))
    weft_check(module.scale[1, 64], x, y, 100, out=y, reference=lambda x: 3 * x)

@pytest.mark.weft(device="sim", sanitize=True)
def test_race():
    module.race[1, 64](np.zeros(64, np.float32))

@pytest.mark.weft(device="sim")
def test_race_goes_unseen_without():
    module.race[1, 64](np.zeros(64, np.float32))

def test_findings(weft_sanitize):
    with weft_sanitize(raises=False) as report:
        module.race[1, 64](np.zeros(64, np.float32))
    assert report.findings
'''


def _pytest(folder: Path, *options: str) -> str:
    (folder / "test_kernels.py").write_text(TESTS)
    (folder / "own.ini").write_text("[pytest]\n")  # no settings of a folder above; names start here
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "weft.pytest_plugin", *options]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "-p", "no:xdist", "-c", "own.ini", "test_kernels.py"],
        cwd=folder, capture_output=True, text=True, timeout=PROCESS_SECONDS, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def test_on_the_simulator(tmp_path: Path) -> None:
    said = _pytest(tmp_path)
    assert "PASSED test_kernels.py::test_right[sim]" in said, said
    assert "FAILED test_kernels.py::test_wrong[sim]" in said
    assert "FAILED test_kernels.py::test_race[sim]" in said
    assert "PASSED test_kernels.py::test_race_goes_unseen_without[sim]" in said
    assert "PASSED test_kernels.py::test_findings" in said
    assert "tail block" in said


def test_on_a_named_model(tmp_path: Path) -> None:
    said = _pytest(tmp_path, "--weft-device=sim:rtx3070", "-k", "right")
    assert "PASSED test_kernels.py::test_right[sim:rtx3070]" in said, said


@pytest.mark.skipif(not no_gpu(), reason="there is a GPU")
def test_without_a_gpu_the_reason_is_given(tmp_path: Path) -> None:
    said = _pytest(tmp_path, "--weft-device=sim,gpu", "-k", "right")
    assert "1 passed, 1 skipped" in said and "no NVIDIA GPU can be used here" in said


def test_a_device_with_a_typo(tmp_path: Path) -> None:
    refused = _pytest(tmp_path, "--weft-device=gup")
    assert "--weft-device=gup: no such device" in refused and "did you mean 'gpu'?" in refused
