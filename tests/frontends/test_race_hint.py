"""The line that names a data race after a plain run of a program or a script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from folders import TESTS
from limits import PROCESS_SECONDS
from weft.errors import MissingDependency
from weft.frontends import program, race_hint
from weft.source import toolkit

RACES = TESTS / "programs" / "races.cu"
HINT = "weft: shift has a data race (races.cu:7 and races.cu:6): weft check --sanitize races.cu\n"


def test_a_race_is_named_in_every_run(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    try:
        toolkit.find()
    except MissingDependency as error:
        pytest.skip(error.what)
    monkeypatch.setenv(race_hint.VARIABLE, "60")
    for _ in range(2):
        assert program.run(str(RACES), []) == 0
        assert HINT in capfd.readouterr().err
    monkeypatch.setenv(race_hint.VARIABLE, "0")
    assert program.run(str(RACES), []) == 0
    assert "race" not in capfd.readouterr().err


SCRIPT = """\
import numpy as np
import torch
import triton
import triton.language as tl
from numba import cuda

@cuda.jit
def rotate(x, y):
    s = cuda.shared.array(64, np.int32)
    i = cuda.threadIdx.x
    s[i] = x[i]
    y[i] = s[(i + 33) % 64]

@triton.jit
def halve(x, y, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(y + i // 2, tl.load(x + i))

@triton.jit
def copy(x, y, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(y + i, tl.load(x + i))

rotate[1, 64](np.arange(64, dtype=np.int32), np.zeros(64, np.int32))
x = torch.arange(64.0, device="cuda")
for kernel in (copy, halve):
    kernel[(1,)](x, torch.zeros(64, device="cuda"), 64)
print("done")
"""


def test_scripts_have_the_line_too(tmp_path: Path) -> None:
    for name in ("numba.cuda", "triton"):
        pytest.importorskip(name)
    path = tmp_path / "races.py"
    path.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "weft", "run", str(path)], capture_output=True, text=True,
        env={**os.environ, race_hint.VARIABLE: "60"}, timeout=PROCESS_SECONDS,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert done.stderr.splitlines() == [
        "weft: rotate has a data race (races.py:12 and races.py:11): weft run --sanitize races.py",
        "weft: halve has a data race (races.py:17): weft run --sanitize races.py",
    ]


INTERRUPTED = """\
import os, signal, numpy, weft
os.register_at_fork(before=lambda: signal.raise_signal(signal.SIGINT))
k = weft.cuda("__global__ void k(int* x) { x[0] += 1; }").k
x = numpy.zeros(1, numpy.int32)
try:
    k[1, 1](x)
except KeyboardInterrupt:
    print("interrupted")
k[1, 1](x)
print(x)
"""


def test_a_signal_during_the_fork_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(INTERRUPTED)
    done = subprocess.run(
        [sys.executable, "-m", "weft", "run", "script.py"], capture_output=True, text=True,
        env={**os.environ, race_hint.VARIABLE: "60", "WEFT_CACHE_DIR": str(tmp_path)},
        cwd=tmp_path, timeout=PROCESS_SECONDS,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n[1]\n", "")
