"""Finds and runs the compilers: nvcc, from NVIDIA's wheel or the system, and g++."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weft.errors import CompileError, MissingDependency, pip_install

VARIABLE = "WEFT_NVCC"
_WHEEL = os.path.join("nvidia", "cu13", "bin", "nvcc")
_USUAL = "/usr/local/cuda/bin/nvcc"


@dataclass(frozen=True)
class Toolkit:
    """The compilers, and an identity that changes with their versions."""

    nvcc: str
    identity: str

    def run(self, arguments: Sequence[str], *, what: str) -> str:
        """Runs nvcc; returns its output, or raises `CompileError` with it."""
        done = _run([self.nvcc, *arguments])
        output = (done.stderr + done.stdout).strip()
        if done.returncode == 0:
            return output
        error = CompileError(f"nvcc could not {what}\n{output}")
        error.log = output
        raise error


@functools.cache
def find() -> Toolkit:
    """Finds nvcc: WEFT_NVCC, this environment, PATH, the default folder."""
    nvcc = next((path for path in _candidates() if os.access(path, os.X_OK)), None)
    if nvcc is None:
        raise MissingDependency(
            "nvcc, which compiles whole CUDA programs, is not there",
            allowed=f"NVIDIA's wheel, nvcc on PATH, or its path in {VARIABLE}",
            next=pip_install("nvcc"),
        )
    host = shutil.which("g++")
    if host is None:
        raise MissingDependency(
            "g++, which compiles the host's part of a CUDA program, is not there",
            next="install it with the system's packages, e.g. apt install g++",
        )
    versions = [_run([nvcc, "--version"]).stdout, _run([host, "-dumpfullversion"]).stdout]
    return Toolkit(nvcc, "\n".join([nvcc, host, *versions]))


def _candidates() -> Iterator[str]:
    if chosen := os.environ.get(VARIABLE):
        yield chosen
        return
    for folder in dict.fromkeys(sys.path):
        yield os.path.join(folder, _WHEEL)
    if on_path := shutil.which("nvcc"):
        yield on_path
    yield _USUAL


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, errors="replace")
