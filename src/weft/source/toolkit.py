"""Finds and runs the compilers: nvcc, from NVIDIA's wheel or the system, and g++."""

from __future__ import annotations

import functools
import glob
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from weft.errors import CompileError, MissingDependency, pip_install
from weft.records import dataclass

VARIABLE = "WEFT_NVCC"
LIBRARIES = Path(__file__).parent / "libraries"
HEADERS = ["-Xcompiler", f"-idirafter,{LIBRARIES}"]
"""Headers of libraries that a toolkit may lack; its own come first."""


@dataclass(frozen=True)
class Toolkit:
    """The compilers, and an identity that changes with their versions."""

    nvcc: str
    host: str
    identity: str

    @property
    def include(self) -> str:
        """The folder of its headers."""
        return os.path.join(
            os.path.dirname(os.path.dirname(os.path.realpath(self.nvcc))), "include"
        )

    def run(self, arguments: Sequence[str], *, what: str) -> str:
        """Runs nvcc; returns its output, or raises `CompileError` with it."""
        return self.call([self.nvcc, *arguments], what=what)

    def call(self, command: Sequence[str], *, what: str) -> str:
        """Runs a compiler in the same way."""
        done = _run(command)
        output = (done.stderr + done.stdout).strip()
        if done.returncode == 0:
            return output
        error = CompileError(f"{os.path.basename(command[0])} could not {what}\n{output}")
        error.log = output
        raise error


@functools.cache
def find() -> Toolkit:
    """Finds nvcc: WEFT_NVCC, this environment, PATH, the default folder."""
    nvcc = locate("nvcc", VARIABLE)
    if nvcc is None:
        raise MissingDependency(
            "nvcc was not found; it compiles whole CUDA programs",
            allowed=f"NVIDIA's wheel, nvcc on PATH, or its path in {VARIABLE}",
            next=pip_install("nvcc"),
        )
    host = shutil.which("g++")
    if host is None:
        raise MissingDependency(
            "g++ was not found; it compiles the host code of CUDA programs",
            next="install it with the system's packages, e.g. apt install g++",
        )
    # Part of cache keys: another compiler must rebuild programs.
    versions = [_run([nvcc, "--version"]).stdout, _run([host, "-dumpfullversion"]).stdout]
    return Toolkit(nvcc, host, "\n".join([nvcc, host, *versions]))


def locate(name: str, variable: str) -> str | None:
    """The first executable of this name: an environment variable, NVIDIA's wheel, PATH, CUDA's
    default folder."""
    return next((path for path in _candidates(name, variable) if os.access(path, os.X_OK)), None)


def shared_library(name: str) -> str | None:
    """A library of NVIDIA's wheels or of an installed toolkit, e.g. "libnvrtc.so"."""
    roots = [os.path.join(folder, "nvidia", "cu13", "lib") for folder in dict.fromkeys(sys.path)]
    found = (
        glob.glob(os.path.join(root, f"{name}*")) for root in [*roots, "/usr/local/cuda/lib64"]
    )
    return next((min(paths, key=len) for paths in found if paths), None)


def _candidates(name: str, variable: str) -> Iterator[str]:
    if chosen := os.environ.get(variable):
        yield chosen
        return  # an explicit choice that does not exist is an error, not a reason to search on
    for folder in dict.fromkeys(sys.path):
        yield os.path.join(folder, "nvidia", "cu13", "bin", name)
    if on_path := shutil.which(name):
        yield on_path
    yield f"/usr/local/cuda/bin/{name}"


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, errors="replace", encoding="utf-8"
    )
