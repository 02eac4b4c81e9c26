"""`pytest --weft-debug`: the debugger opens where the kernel of a failed test went wrong."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft

TESTS = '''
import numpy as np
import pytest
import weft

SOURCE = """\\
__global__ void fill(int* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] += 2 * n;
}
__global__ void add(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    if (i == 40) v += 1;
    if (i < n) y[i] = v;
}
"""
module = weft.cuda(SOURCE)


def test_expected_fault():
    with pytest.raises(weft.IllegalAddress):
        module.fill[1, 32](np.zeros(8, np.int32), 3)


def test_fault():
    x = np.zeros(40, np.int32)
    module.fill[1, 32](x, 3)
    module.fill[2, 32](x, 4)


def test_wrong(weft_check):
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    weft_check(module.add[2, 32], x, y, 64, out=y, reference=lambda x: x)


def test_plain():
    assert 1 == 2
'''


def run(folder: Path, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(TESTS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    command += ["-c", "/dev/null", "--rootdir", str(folder)]
    if "weft.pytest_plugin" not in words and not _installed():
        command += ["-p", "weft.pytest_plugin"]
    return subprocess.run(
        [*command, str(folder / "test_it.py")],
        input=given, capture_output=True, text=True, timeout=300, cwd=folder,
    )  # fmt: skip


def _installed() -> bool:
    from importlib.metadata import entry_points

    return any(e.name == "weft.pytest_plugin" for e in entry_points(group="pytest11"))


def test_faults_and_wrong_elements(tmp_path: Path) -> None:
    given = "print i\nprint n\nprint x[0]\ncontinue\nprint i\nprint v\nback v\nprint x[i]\nquit\n"
    done = run(tmp_path, "--weft-debug", given=given)
    said = done.stdout
    assert "1 passed" in said and "3 failed" in said, said + done.stderr
    assert said.count("fill stopped: IllegalAddress") == 1
    assert "block (1, 0, 0), thread (8, 0, 0), kernel.cu:3 in fill" in said
    assert "i = 40" in said and "n = 4" in said
    assert "x[0] = 14" in said  # 6 of the launch before, and 8: the memory was restored
    assert "add stopped: the last write of y[40], which is wrong" in said
    assert "kernel.cu:9 in add" in said
    assert "(weft) v = " in said and "kernel.cu:8 in add" in said
    assert "no launch of the simulated GPU has caused it" in said


def test_the_end_of_input_ends_the_debugger(tmp_path: Path) -> None:
    done = run(tmp_path, "--weft-debug", "-k", "fault or wrong")
    assert "1 passed" in done.stdout and "2 failed" in done.stdout, done.stdout + done.stderr


def test_without_the_option_nothing_stops(tmp_path: Path) -> None:
    done = run(tmp_path, "-k", "fault")
    assert "stopped" not in done.stdout and "1 failed" in done.stdout


def test_a_failure_can_be_repeated_here_and_pickled() -> None:
    kernel = weft.cuda("__global__ void off(float* x, float* y) { y[threadIdx.x] = 3; }").off
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    with pytest.raises(weft.CheckFailed) as raised:
        weft.check(kernel[1, 8], x, y, out=y, reference=lambda x: x)
    assert raised.value.repeat is not None and raised.value.element.startswith("y[")
    raised.value.repeat()
    copied = pickle.loads(pickle.dumps(raised.value))
    assert copied.repeat is None
    assert (str(copied), copied.index, copied.element) == (
        str(raised.value),
        raised.value.index,
        raised.value.element,
    )


def test_it_needs_the_terminal(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    done = run(tmp_path, "--weft-debug", "-n", "1")
    assert "--weft-debug needs the terminal" in done.stderr
