"""Kernels of Triton and Numba in the debugger: lines, and variables by their names."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TRITON = """\
import torch
import triton
import triton.language as tl

@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    w = v * 2.0
    tl.store(y + i, w, mask=i < n)

x, y = torch.arange(200, dtype=torch.float32).cuda(), torch.zeros(200).cuda()
scale[(2,)](x, y, 200, BLOCK=128)
print(y.sum().item())
"""
NUMBA = """\
import numpy as np
from numba import cuda

@cuda.jit(OPTIONS)
def scale(x, n):
    i = cuda.grid(1)
    if i < n:
        v = x[i] * 2.0
        x[i] = v + 1.0

x = np.arange(40, dtype=np.float32)
scale[2, 32](x, 40)
print(x.sum())
"""


def debug(folder: Path, text: str, *words: str) -> tuple[list[dict[str, Any]], str]:
    """The answers of the commands as data, and what the script prints."""
    file = folder / "kernel_file.py"
    file.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "weft", "debug", "--json", *words, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    return [json.loads(x) for x in lines if x.startswith("{")], lines[-1]


def test_triton(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    words = ["-b", "10", "-c", "lanes i", "-c", "print w", "-c", "back w", "-c", "print v"]
    (stop, lanes, w, back, v), last = debug(tmp_path, TRITON, *words)
    assert stop["stop"]["line"] == 10 and stop["stop"]["function"] == "scale"
    assert lanes["lanes"] == list(range(32))
    assert (w["value"], back["stop"]["line"], v["value"]) == (0.0, 9, 0.0)
    assert float(last) == 39800.0


def test_a_condition_in_triton(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    words = ["-b", "10 if i == 133", "-c", "print v"]
    (stop, v), _ = debug(tmp_path, TRITON, *words)
    assert (stop["stop"]["block"], stop["stop"]["thread"]) == ([1, 0, 0], [5, 0, 0])
    assert v["value"] == 133.0


def test_numba_with_debug_information(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    text = NUMBA.replace("OPTIONS", "debug=True, opt=False")
    words = ["-b", "9 if i == 37", "-c", "print v", "-c", "print x.nitems", "-c", "print x.data[3]"]
    (stop, v, n, element), last = debug(tmp_path, text, *words)
    assert (stop["stop"]["line"], stop["stop"]["thread"]) == (9, [5, 0, 0])
    assert (v["value"], n["value"], element["value"]) == (74.0, 40, 7.0)
    assert float(last) == 1600.0


def test_numba_without_it_has_lines_at_most(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    text = NUMBA.replace("OPTIONS", "lineinfo=True")
    (stop, registers, missing), _ = debug(
        tmp_path, text, "-b", "8", "-c", "registers", "-c", "print v"
    )
    assert stop["stop"]["line"] == 8 and registers["registers"]
    assert "no variable v" in missing["error"]["what"]
