"""C++ extensions of PyTorch in unedited scripts: `torch.utils.cpp_extension` without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import nvcc
from folders import TESTS
from limits import PROCESS_SECONDS

EXTENSIONS = TESTS / "extensions"


pytestmark = nvcc.needed


def _run(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "weft", "run", *words], cwd=folder, capture_output=True, text=True,
        timeout=PROCESS_SECONDS, env={**os.environ, "WEFT_DRAFTS": "1"},
    )  # fmt: skip


def test_an_extension_of_two_files(tmp_path: Path) -> None:
    done = _run(str(EXTENSIONS / "plain.py"), str(tmp_path), folder=tmp_path)
    assert done.stdout.splitlines() == [
        *["0 600.0"] * 3,
        "0 1.0",
        "700",
        "CUDA error: an illegal memory access was encountered",
    ], done.stderr
    assert "plain.cu:9" in done.stderr
    assert "(a tensor)[300] of 300 elements of 4 bytes" in done.stderr
    assert done.returncode == 0


SETUP = """
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

flags = {"cxx": ["-O1"], "nvcc": ["-O2", "-gencode=arch=compute_70,code=sm_70"]}
extension = CUDAExtension("plain", ["plain.cpp", "plain.cu"], extra_compile_args=flags,
                          define_macros=[("FACTOR", "3")], libraries=["cublas"])
setup(name="plain", ext_modules=[extension], cmdclass={"build_ext": BuildExtension})
"""
USE = """
import torch
import plain
x = torch.ones(100, device="cuda")
print(plain.double_all(x.data_ptr(), 100), x.sum().item())
"""


def test_an_extension_of_setup_py(tmp_path: Path) -> None:
    for name in ("plain.cpp", "plain.cu"):
        (tmp_path / name).write_text((EXTENSIONS / name).read_text())
    (tmp_path / "setup.py").write_text(SETUP)
    (tmp_path / "use.py").write_text(USE)
    built = _run("setup.py", "build_ext", "--inplace", folder=tmp_path)
    assert built.returncode == 0, built.stderr
    done = _run("use.py", folder=tmp_path)
    assert (done.stdout, done.returncode) == ("0 300.0\n", 0), done.stderr


@pytest.mark.slow
def test_torchs_own_headers(tmp_path: Path) -> None:
    """torch's headers take a minute of CPU time to compile."""
    done = _run(str(EXTENSIONS / "inline.py"), str(tmp_path), folder=tmp_path)
    assert done.stdout == "x must be a dense CUDA tensor\n", done.stderr
    assert done.returncode == 0, done.stderr
