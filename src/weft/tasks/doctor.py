"""Checks the installation, and says how to fix what is missing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from weft import cache
from weft.device import driver
from weft.device.gpu import system
from weft.device.gpu.facts import facts
from weft.device.sim.run import host
from weft.errors import Error
from weft.installation import pip_install
from weft.report.words import rounded_size
from weft.source import headers, nvrtc, toolkit

_SELF_TEST_SECONDS = 60
_HEADERS = (
    "cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "mma.h", "cooperative_groups.h",
    "crt/host_defines.h", "cuda/std/type_traits", "cub/block/block_reduce.cuh", "curand_kernel.h",
)  # fmt: skip
_PROGRAM = r"""
#include <cstdio>
__global__ void twice(int* x) { *x *= 2; }
int main() {
    int *x, y = 21;
    cudaMalloc(&x, sizeof y);
    cudaMemcpy(x, &y, sizeof y, cudaMemcpyHostToDevice);
    twice<<<1, 1>>>(x);
    cudaMemcpy(&y, x, sizeof y, cudaMemcpyDeviceToHost);
    printf("twice 21 is %d\n", y);
}
"""
_PRINTED = "twice 21 is 42"
_SIMULATED = "nothing to fix: kernels run on the simulated GPU"
_OPTIONAL_HEADERS = ("curand_kernel.h",)
_OPTIONAL_PACKAGES = {
    "torch": ("its tensors can be passed to kernels", pip_install("torch")),
    "triton": ("its kernels run on CPU tensors", pip_install("triton")),
    "numba-cuda": ("its kernels run on NumPy arrays", pip_install("numba")),
    "uvicorn": ("it serves the page of `weft lab`", pip_install("lab")),
    "ray": ("its clusters share the work of `--ray`", pip_install("ray")),
}


@dataclass(frozen=True)
class Checkup:
    """The result of one check. Kernels cannot run if a needed one is not ok."""

    name: str
    ok: bool
    found: str
    fix: str = ""
    needed: bool = True


# ---- the checks ------------------------------------------------------------------------------
def _python() -> Iterator[Checkup]:
    yield Checkup("Python", sys.version_info >= (3, 11), platform.python_version())
    yield Checkup("NumPy", True, importlib.metadata.version("numpy"))


def _llvm() -> Iterator[Checkup]:
    machine = host.describe()
    yield Checkup("LLVM", True, f"{machine.llvm} (llvmlite {machine.llvmlite})")
    vectors = " ".join(machine.vectors) or "LLVM does not know its vector units"
    yield Checkup("CPU", True, f"{machine.cpu}: {vectors}")
    yield Checkup("threads", True, f"{machine.threads} (WEFT_THREADS sets another number)")


def _nvrtc() -> Iterator[Checkup]:
    try:
        wheel = headers.wheels().get(headers.NVRTC, "not from a wheel")
        yield Checkup("NVRTC", True, f"{nvrtc.version()} ({headers.NVRTC} {wheel})")
    except Error as error:
        yield Checkup("NVRTC", False, f"{error.what}: {error.got}", error.next)


def _headers() -> Iterator[Checkup]:
    for header in _HEADERS:
        folder = next((f for f in headers.folders() if os.path.isfile(f"{f}/{header}")), None)
        wheel = headers.wheel(header)
        found = f"{wheel} {headers.wheels().get(wheel, 'not installed by pip')}"
        what, fix = headers.advice(header) if folder is None else (found, "")
        needed = header not in _OPTIONAL_HEADERS
        yield Checkup(f"<{header}>", folder is not None, what, fix, needed)


def _said(error: Error) -> str:
    return f"{error.what}: {error.got}" if error.got else error.what


def _nvcc() -> Iterator[Checkup]:
    try:
        nvcc = toolkit.find().nvcc
    except Error as error:
        yield Checkup("nvcc and g++", False, f"{_said(error)} (optional)", error.next, needed=False)
        return
    # Only a program that ran shows that it works: an nvcc in a wrapper may lack its parts.
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program.cu"
        program.write_text(_PROGRAM, encoding="utf-8")
        start = time.perf_counter()
        ok, said = _process("-m", "weft", "run", str(program))
        seconds = time.perf_counter() - start
    ok = ok and said == _PRINTED
    found = f"compiled and ran a program in {seconds:.1f} s" if ok else f"a program failed: {said}"
    fix = f"set {toolkit.VARIABLE} to another nvcc, or {pip_install('nvcc')}"
    yield Checkup("nvcc and g++", ok, f"{nvcc}: {found}", fix, needed=False)


def _cache() -> Iterator[Checkup]:
    state = cache.status()
    usage = f"{state.path}: {state.entries} entries, {rounded_size(state.bytes)}"
    fix = "set WEFT_CACHE_DIR to a folder that you, and only you, can write"
    yield Checkup("cache", not state.trouble, state.trouble or usage, fix, needed=False)


def _friends() -> Iterator[Checkup]:
    for name, (use, fix) in _OPTIONAL_PACKAGES.items():
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield Checkup(name, False, "not installed (optional)", fix, needed=False)
            continue
        # Installed files are not enough: a library that they load may be missing.
        ok, said = _process("-c", f"import {name.replace('-', '.')}")
        found = use if ok else f"cannot be imported: {said}"
        yield Checkup(name, ok, f"{version}: {found}", fix, needed=False)


def _gpu() -> Iterator[Checkup]:
    if not driver.count():
        yield Checkup("GPU", False, f"none: {driver.absence()}", _SIMULATED, needed=False)
        return
    for number in range(driver.count()):
        yield from _one_gpu(number)
    major, minor = driver.ptx_limit()
    cuda = f"CUDA {driver.version() // 1000}.{driver.version() % 1000 // 10}"
    name = system.driver_version() or "of unknown version"
    yield Checkup("driver", True, f"{name}: {cuda}, takes PTX up to {major}.{minor}")
    allowed, why, fix = system.counters()
    yield Checkup("hardware counters", allowed, why, fix, needed=False)


def _one_gpu(number: int) -> Iterator[Checkup]:
    name = f"gpu:{number}"
    try:
        g = facts(number)
    except Error as error:
        yield Checkup(name, False, f"{error.what}: {error.got}", error.next, needed=False)
        return
    yield Checkup(
        name,
        True,
        f"{g.name}, {g.machine}, {g.sms} SMs at {g.clock_mhz} MHz, {rounded_size(g.memory)}, "
        f"L2 {rounded_size(g.l2)}, {rounded_size(g.shared_per_block)} shared memory per block",
    )


def _process(*arguments: str, **environment: str) -> tuple[bool, str]:
    """Run Python with these arguments; whether it ended well, and the last line that it printed.

    The last line has the verdict, or the exception at the end of a traceback.
    """
    try:
        done = subprocess.run(
            [sys.executable, *arguments], env={**os.environ, **environment},
            capture_output=True, encoding="utf-8", errors="replace", timeout=_SELF_TEST_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False, f"not finished after {_SELF_TEST_SECONDS} s"
    lines = (done.stdout or done.stderr).strip().splitlines() or [f"exit code {done.returncode}"]
    return done.returncode == 0, lines[-1]


def _self_test() -> Iterator[Checkup]:
    module = "weft.tasks.selftest"
    with tempfile.TemporaryDirectory() as folder:
        # An empty cache, so that both compilers have to run.
        ok, said = _process("-m", module, WEFT_CACHE_DIR=folder)
    fix = f"run it alone to see its whole output: {sys.executable} -m {module}"
    yield Checkup("self-test", ok, said, fix)


# Each finding is printed as it comes, so the self-test, the slowest, is last.
_CHECKS: tuple[Callable[[], Iterator[Checkup]], ...] = (
    _python, _llvm, _nvrtc, _headers, _nvcc, _gpu, _cache, _friends, _self_test,
)  # fmt: skip


def checkups() -> Iterator[Checkup]:
    """Check every part that weft needs or can use."""
    for check in _CHECKS:
        yield from check()
