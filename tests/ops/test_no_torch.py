"""The core without torch, torch tensors without importing torch, and many processes at once."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from limits import PROCESS_SECONDS

BLOCK_TORCH = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Block())
"""
LAUNCH = """
import numpy as np, weft
k = weft.cuda("__global__ void f(int* x, int n) { "
              "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = 3 * i; }").f
x = np.zeros(100, np.int32)
k[weft.cdiv(100, 32), 32](x, 100)
assert (x == 3 * np.arange(100)).all()
"""


def start(script: str, cache: Path) -> subprocess.Popen[str]:
    source = str(Path(weft.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": source, "WEFT_CACHE_DIR": str(cache)}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", script],
        env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def run(script: str, cache: Path) -> None:
    process = start(script, cache)
    out, _ = process.communicate(timeout=PROCESS_SECONDS)
    assert process.returncode == 0, out


def test_core_works_without_torch(tmp_path: Path) -> None:
    run(BLOCK_TORCH + LAUNCH + "assert 'torch' not in sys.modules\n", tmp_path)


def test_core_does_not_import_torch(tmp_path: Path) -> None:
    run("import sys\n" + LAUNCH + "assert 'torch' not in sys.modules\n", tmp_path)


def test_op_without_torch_says_what_to_install(tmp_path: Path) -> None:
    run(
        BLOCK_TORCH
        + LAUNCH
        + """
try:
    k.as_op("mine::f")
except weft.MissingDependency as e:
    from weft import installation
    assert installation.pip_install("torch") in str(e), e
else:
    raise SystemExit("not refused")
""",
        tmp_path,
    )


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_torch_tensors(tmp_path: Path) -> None:
    run(
        LAUNCH
        + """
import sys
assert 'torch' not in sys.modules
import torch
t = torch.zeros(100, dtype=torch.int32)
k[4, 32](t, 100)
assert torch.equal(t, 3 * torch.arange(100, dtype=torch.int32))
for bad, words in ((t.double(), "dtype float64"), (torch.zeros(10, 10, dtype=torch.int32).t(),
                   "not contiguous")):
    try:
        k[4, 32](bad, 100)
    except weft.ArgumentError as e:
        assert words in str(e), e
    else:
        raise SystemExit("not refused")
mine = k.as_op("mine::f", "(Tensor(a!) x, int n) -> ()", grid=4, block=32)
mine(t.zero_(), 100)
assert torch.equal(t, 3 * torch.arange(100, dtype=torch.int32))
assert torch.equal(weft.ops.exp(torch.zeros(3)), torch.ones(3))
assert 'torch._dynamo' not in sys.modules  # torch imports it at an op's first call
torch.compile(mine, backend="eager")(t.zero_(), 100)
assert torch.equal(t, 3 * torch.arange(100, dtype=torch.int32))
""",
        tmp_path,
    )


def test_many_processes_share_one_cache(tmp_path: Path) -> None:
    """All compile and launch the same kernels at the same time, into one empty cache."""
    processes = [start(LAUNCH * 2, tmp_path) for _ in range(6)]
    results = [(p.communicate(timeout=PROCESS_SECONDS)[0], p.returncode) for p in processes]
    assert [code for _, code in results] == [0] * 6, results
    run(LAUNCH, tmp_path)
