"""The pytest plugin, in runs of its own: what passes, fails and is skipped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

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

@pytest.mark.weft(device="sim", sanitize=True)
def test_fault():
    module.scale[1, 128](np.zeros(4, np.float32), np.zeros(3, np.float32), 4)

@pytest.mark.weft(device="gpu")
def test_marked():
    pass

@pytest.mark.weft("gpu")
class TestMarked:
    def test_method(self):
        pass
'''


@pytest.fixture
def run_pytest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Runs the tests with options, in this process, and returns what pytest prints."""
    (tmp_path / "test_kernels.py").write_text(TESTS)
    (tmp_path / "own.ini").write_text("[pytest]\n")  # no settings of a folder above
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI", raising=False)  # pytest prints longer summaries there
    plugins = ["-p", "weft.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:xdist"]

    def run(*options: str) -> str:
        own = ["-c", "own.ini", "--import-mode=importlib", *options, "test_kernels.py"]
        pytest.main(["-q", "-rA", *plugins, *own])
        said = capsys.readouterr()
        return said.out + said.err

    return run


def test_on_the_simulator(run_pytest: Callable[..., str]) -> None:
    said = run_pytest()
    assert "PASSED test_kernels.py::test_right[sim]" in said, said
    assert "FAILED test_kernels.py::test_wrong[sim]" in said
    assert "FAILED test_kernels.py::test_race[sim]" in said
    assert "PASSED test_kernels.py::test_race_goes_unseen_without[sim]" in said
    assert "PASSED test_kernels.py::test_findings" in said
    assert "tail block" in said
    assert "FAILED test_kernels.py::test_fault[sim]" in said


def test_failures_end_at_the_frame_of_the_test(run_pytest: Callable[..., str]) -> None:
    said = run_pytest("-k", "wrong or race or fault")
    assert "test_kernels.py:22: CheckFailed" in said, said
    assert ">       weft_check(module.scale[1, 64]" in said and "judge.py" not in said
    assert ">       module.scale[1, 128](np.zeros(4" in said and "launch.py" not in said
    assert said.count("next: __syncthreads() between the two") == 1 and "session.py" not in said
    full = run_pytest("-k", "wrong", "--full-trace")
    assert "judge.py" in full


def test_on_a_named_model(run_pytest: Callable[..., str]) -> None:
    said = run_pytest("--weft-device=sim:rtx3070", "-k", "right")
    assert "PASSED test_kernels.py::test_right[sim:rtx3070]" in said, said


@pytest.mark.skipif(not no_gpu(), reason="there is a GPU")
def test_without_a_gpu_the_reason_is_given(run_pytest: Callable[..., str]) -> None:
    said = run_pytest("--weft-device=sim,gpu", "-k", "right")
    assert "1 passed, 1 skipped" in said and "no NVIDIA GPU can be used here" in said
    marked = run_pytest("-k", "marked or Marked")
    assert "2 skipped" in marked and "no NVIDIA GPU can be used here" in marked, marked
    assert "pytest_plugin.py" not in marked


def test_a_device_with_a_typo(run_pytest: Callable[..., str]) -> None:
    refused = run_pytest("--weft-device=gup")
    assert "--weft-device=gup: no such device" in refused and "did you mean 'gpu'?" in refused
