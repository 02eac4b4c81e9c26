"""Finds and runs the compilers: nvcc, from NVIDIA's wheel or the system, and g++."""

from __future__ import annotations

import functools
import glob
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from weft.errors import CompileError, MissingDependency
from weft.installation import pip_install
from weft.records import dataclass
from weft.source import headers, nvrtc

VARIABLE = "WEFT_NVCC"
LINKER = "weft-link"
"""Stands beside the `nvcc` of a toolkit folder that weft has made."""
LIBRARIES = Path(__file__).parent / "libraries"
DEVICE_LIBRARY_OPTIONS = ("-I", headers.DEVICE_LIBRARY)
"""For nvcc. Not `-isystem`: the compiler lists the headers, so that a change builds anew."""
SIGNED_CHARS = (nvrtc.SIGNED_CHARS, "-Xcompiler", "-fsigned-char")
"""For nvcc, before the user's options: `char` is signed in code of the device and of the host."""
CUDA_12 = Path(__file__).parent / "cuda12"
"""The folder of declarations of CUDA 12 that CUDA 13 lacks."""

_OF_CUDA_12 = re.compile(
    r'to "(cudaMemLocation|CUmemLocation)"|identifier "cudaThread\w+" is undefined|nvToolsExt\.h'
    r'|has no member "(clockRate|memoryClockRate|computeMode|deviceOverlap|maxTexture1DLinear'
    r'|kernelExecTimeoutEnabled|singleToDoublePrecisionPerfRatio|cooperativeMultiDeviceLaunch)"'
)
"""Errors of CUDA 13 in programs that CUDA 12 compiles."""
_NO_HEADER = re.compile(r"fatal error: (\S+): No such file")


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
        """Run nvcc; return its output, or raise `CompileError` with it."""
        return self.call([self.nvcc, *arguments], what=what)

    def call(self, command: Sequence[str], *, what: str) -> str:
        """Run a compiler in the same way."""
        done = _run(command)
        output = (done.stderr + done.stdout).strip()
        if done.returncode == 0:
            return output
        raise failure(os.path.basename(command[0]), what, output)


def failure(compiler: str, what: str, output: str) -> CompileError:
    """The error for a compiler that could not do something, with its output."""
    error = CompileError(f"{compiler} could not {what}\n{output}", next=_advice(output))
    error.log = output
    return error


def header_options() -> list[str]:
    """Options of nvcc for headers of libraries that a toolkit may lack; its own come first.

    The macro makes nvJitLink's headers call functions whose names do not have its version.
    """
    options = [
        *DEVICE_LIBRARY_OPTIONS,
        "-Xcompiler",
        f"-idirafter,{LIBRARIES}",
        "-DNVJITLINK_NO_INLINE",
    ]
    return [*options, *(word for folder in headers.cutlass() for word in ("-isystem", folder))]


@functools.cache
def find() -> Toolkit:
    """Find nvcc: WEFT_NVCC, this environment, PATH, the default folder."""
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
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    # The nvcc of a folder that weft has made is weft itself.
    others = [path for path in folders if not os.path.exists(os.path.join(path, LINKER))]
    if on_path := shutil.which(name, path=os.pathsep.join(others)):
        yield on_path
    yield f"/usr/local/cuda/bin/{name}"


def _advice(log: str) -> str:
    """Advice on errors of a compiler, if there is any."""
    if _OF_CUDA_12.search(log):
        return "a program for CUDA 12 is compiled with --cuda 12"
    missing = _NO_HEADER.search(log)
    return headers.package(missing[1]) if missing else ""


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, errors="replace", encoding="utf-8"
    )
