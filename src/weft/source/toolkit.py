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
HEADER = "driver_types.h"
"""A header that every toolkit has, and weft reads."""
_HERE = re.compile(r"^#\$ _HERE_=(.+)$", re.MULTILINE)
_INCLUDES = re.compile(r'^#\$ INCLUDES="-I([^"]+)"', re.MULTILINE)
"""The folders of nvcc and of its headers, in the steps that it prints."""
_NO_HEADER = re.compile(r"fatal error: (\S+): No such file")


@dataclass(frozen=True)
class Toolkit:
    """The compilers, the folder of CUDA's headers, and an identity that changes with versions."""

    nvcc: str
    include: str
    host: str
    identity: str

    @property
    def root(self) -> str:
        """The folder that nvcc is in the `bin` of."""
        return _root(self.nvcc)

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
    """Find the first nvcc that starts: WEFT_NVCC, this environment, PATH, the default folder."""
    compilers = list(_executables("nvcc", VARIABLE))
    nvcc, include = next(filter(None, map(_with_headers, compilers)), ("", ""))
    if not nvcc:
        raise _missing(compilers)
    host = shutil.which("g++")
    if host is None:
        raise MissingDependency(
            "g++ was not found; it compiles the host code of CUDA programs",
            next="install it with the system's packages, e.g. apt install g++",
        )
    # Part of cache keys: another compiler must rebuild programs.
    versions = [_run([nvcc, "--version"]).stdout, _run([host, "-dumpfullversion"]).stdout]
    return Toolkit(nvcc, include, host, "\n".join([nvcc, host, *versions]))


def _missing(compilers: Sequence[str]) -> MissingDependency:
    """The error where there is no nvcc, or where none of these starts."""
    if not compilers:
        chosen = os.environ.get(VARIABLE)  # then nothing else is searched
        return MissingDependency(
            "nvcc was not found; it compiles whole CUDA programs",
            got=f"{VARIABLE}={chosen}, which is no program" if chosen else "",
            allowed=f"NVIDIA's wheel, nvcc on PATH, or its path in {VARIABLE}",
            next=f"unset {VARIABLE}, and {pip_install('nvcc')}" if chosen else pip_install("nvcc"),
        )
    done = _steps(compilers[0])
    said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    folder = _INCLUDES.search(done.stderr)
    return MissingDependency(
        f"{compilers[0]} cannot compile",
        got=said[-1] if folder is None else f"no {HEADER} in {os.path.realpath(folder[1])}",
        next=f"set {VARIABLE} to another nvcc, or {pip_install('nvcc')}",
    )


def _with_headers(nvcc: str) -> tuple[str, str] | None:
    """An nvcc and the folder of its headers; for a script that starts one, that one.

    None if it does not start, or has no headers.
    """
    include = os.path.join(_root(nvcc), "include")
    if os.path.exists(os.path.join(include, HEADER)):
        return nvcc, include
    steps = _steps(nvcc).stderr
    here, folder = _HERE.search(steps), _INCLUDES.search(steps)
    if here is None or folder is None or not os.path.exists(os.path.join(folder[1], HEADER)):
        return None
    return os.path.join(here[1], "nvcc"), os.path.realpath(folder[1])


def _steps(nvcc: str) -> subprocess.CompletedProcess[str]:
    command = [nvcc, "--dryrun", "-c", "-x", "cu", os.devnull, "-o", os.devnull]
    try:
        return _run(command)
    except OSError as error:  # a file of another machine, or of no format that starts
        return subprocess.CompletedProcess(command, 126, "", str(error.strerror))


def _root(nvcc: str) -> str:
    return os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))


def locate(name: str, variable: str) -> str | None:
    """The first executable of this name: an environment variable, NVIDIA's wheel, PATH, CUDA's
    default folder."""
    return next(_executables(name, variable), None)


def _executables(name: str, variable: str) -> Iterator[str]:
    return (path for path in _candidates(name, variable) if os.access(path, os.X_OK))


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
