"""Measures the host time of a launch, and the time from a source string to its first result.

    python benchmarks/launch_overhead.py            # a table
    python benchmarks/launch_overhead.py --record   # also appended to records/launch_overhead.jsonl
    python benchmarks/launch_overhead.py --no-first # launches only; load_inline takes a minute

Needs an NVIDIA GPU and torch; CuPy, Triton, Numba and cuda.core take part where they are
installed. One kernel of three arguments, two arrays and an int, runs one block of 32 threads: it is
done before the next launch arrives, so no queue fills up. The contenders take turns; each turn
times LAUNCHES launches between two synchronisations that are not timed. Shown is the median over
ROUNDS turns. Every contender writes its loop itself, with the arguments that its users have.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import weft
from weft.device.gpu import system
from weft.device.gpu.facts import facts

LAUNCHES, ROUNDS = 200, 101
RECORDS = Path(__file__).parent / "records" / "launch_overhead.jsonl"
SOURCE = r"""
__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
"""
Loop = Callable[[int], None]


def weft_subscript(x: Any, y: Any) -> Loop:
    kernel = weft.cuda(SOURCE).scale

    def loop(times: int) -> None:
        for _ in range(times):
            kernel[1, 32](x, y, 32)

    return loop


def weft_bound(x: Any, y: Any) -> Loop:
    launch = weft.cuda(SOURCE).scale.bind(1, 32, x, y, 32)

    def loop(times: int) -> None:
        for _ in range(times):
            launch()

    return loop


def cupy_raw_kernel(x: Any, y: Any) -> Loop:
    import cupy

    kernel = cupy.RawKernel(f'extern "C" {SOURCE.strip()}', "scale")
    a, b, n = cupy.asarray(x), cupy.asarray(y), np.int32(32)

    def loop(times: int) -> None:
        for _ in range(times):
            kernel((1,), (32,), (a, b, n))

    return loop


def triton_jit(x: Any, y: Any) -> Loop:
    from launch_triton import scale

    def loop(times: int) -> None:
        for _ in range(times):
            scale[(1,)](x, y, 32, BLOCK=32, num_warps=1)

    return loop


def numba_jit(x: Any, y: Any) -> Loop:
    from numba import cuda

    @cuda.jit
    def scale(x, y, n):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < n:
            y[i] = 2 * x[i]

    a, b = cuda.as_cuda_array(x), cuda.as_cuda_array(y)

    def loop(times: int) -> None:
        for _ in range(times):
            scale[1, 32](a, b, 32)

    return loop


def torch_compile_kernel(x: Any, y: Any) -> Loop:
    kernel = torch.cuda._compile_kernel(f'extern "C" {SOURCE.strip()}', "scale")

    def loop(times: int) -> None:
        for _ in range(times):
            kernel(grid=(1, 1, 1), block=(32, 1, 1), args=(x, y, 32))

    return loop


def cuda_core_launch(x: Any, y: Any) -> Loop:
    from cuda.core import Device, LaunchConfig, ObjectCode, launch

    machine = weft.cuda(SOURCE, device="gpu")
    code = ObjectCode.from_cubin(machine._assemble([], facts(0).machine).cubin)
    device = Device(0)
    device.set_current()
    kernel, config = code.get_kernel(machine.scale.entry), LaunchConfig(grid=1, block=32)
    stream, n = device.default_stream, np.int32(32)

    def loop(times: int) -> None:
        for _ in range(times):
            launch(stream, config, kernel, x.data_ptr(), y.data_ptr(), n)

    return loop


CONTENDERS: dict[str, Callable[[Any, Any], Loop]] = {
    "weft, k[grid, block](x, y, n)": weft_subscript,
    "weft, k.bind(...)": weft_bound,
    "CuPy RawKernel": cupy_raw_kernel,
    "cuda.core launch": cuda_core_launch,
    "torch.cuda._compile_kernel": torch_compile_kernel,
    "Triton": triton_jit,
    "Numba": numba_jit,
}


def prepared() -> tuple[dict[str, Loop], dict[str, str]]:
    """Every contender that is installed, compiled and its answer checked; and why not."""
    ready: dict[str, Loop] = {}
    absent: dict[str, str] = {}
    for name, make in CONTENDERS.items():
        x = torch.arange(32, dtype=torch.float32, device="cuda")
        y = torch.zeros_like(x)
        try:
            loop = make(x, y)
            loop(3)
        except (ImportError, AttributeError) as error:
            absent[name] = f"{type(error).__name__}: {error}"
            continue
        torch.cuda.synchronize()
        assert torch.equal(y, 2 * x), name
        ready[name] = loop
    return ready, absent


def measure(ready: dict[str, Loop]) -> dict[str, dict[str, float]]:
    """Seconds a launch: median, lowest and highest of the turns."""
    times: dict[str, list[float]] = {name: [] for name in ready}
    for turn in range(ROUNDS + 3):
        for name, loop in ready.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            loop(LAUNCHES)
            taken = (time.perf_counter() - start) / LAUNCHES
            if turn >= 3:  # the first turns warm up
                times[name].append(taken)
    torch.cuda.synchronize()
    return {
        name: {"median": statistics.median(t), "lowest": min(t), "highest": max(t)}
        for name, t in times.items()
    }


# ---- the first result ------------------------------------------------------------------------
FIRST = {
    "weft": """
import weft
start = time.perf_counter()
kernel = weft.cuda(SOURCE).scale
kernel[1, 32](x, y, 32)
""",
    "torch load_inline": """
from torch.utils.cpp_extension import load_inline
start = time.perf_counter()
host = '''
void scale_(torch::Tensor x, torch::Tensor y, int64_t n) {
    scale<<<1, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
}'''
declared = host.partition("{")[0] + ";"
m = load_inline("first_result", cpp_sources=declared, cuda_sources=SOURCE + host,
                functions=["scale_"])
m.scale_(x, y, 32)
""",
}
COMMON = """
import sys, time, torch
SOURCE = sys.argv[1]
x = torch.arange(32, dtype=torch.float32, device="cuda")
y = torch.zeros_like(x)
torch.cuda.synchronize()
{body}
torch.cuda.synchronize()
taken = time.perf_counter() - start
assert torch.equal(y, 2 * x)
print(taken)
"""


def first_results() -> dict[str, float | str]:
    """Seconds from the source string to the result, in a new process with nothing cached."""
    found: dict[str, float | str] = {}
    for name, body in FIRST.items():
        with tempfile.TemporaryDirectory() as folder:
            fresh = {"WEFT_CACHE_DIR": folder, "TORCH_EXTENSIONS_DIR": folder}
            done = subprocess.run(
                [sys.executable, "-c", COMMON.format(body=body), SOURCE],
                env={**os.environ, **fresh, "CUDA_CACHE_DISABLE": "1"},
                capture_output=True,
                text=True,
                encoding="utf-8",
            )
        last = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()[-1:]
        found[name] = float(last[0]) if done.returncode == 0 else f"failed: {last}"
    return found


def versions() -> dict[str, str]:
    found = {"python": sys.version.split()[0], "weft": weft.__version__}
    for name in ("torch", "triton", "cupy-cuda13x", "numba-cuda", "cuda-core", "cuda-bindings"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--no-first", action="store_true")
    given = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent / "peers"))
    ready, absent = prepared()
    times = measure(ready)
    record = {
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "gpu": facts(0).name,
        "driver": system.driver_version(),
        "cpu": _cpu(),
        "versions": versions(),
        "launches": LAUNCHES,
        "rounds": ROUNDS,
        "times": times,
        "absent": absent,
        "first": {} if given.no_first else first_results(),
    }
    for name, t in sorted(times.items(), key=lambda row: row[1]["median"]):
        print(f"{name:32} {t['median'] * 1e6:7.2f} µs  ({t['lowest'] * 1e6:.2f} at best)")
    for name, why in absent.items():
        print(f"{name:32} {why}")
    for name, taken in record["first"].items():
        print(f"first result, {name:18} {taken}")
    if given.record:
        with RECORDS.open("a") as file:
            file.write(json.dumps(record) + "\n")


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((x.partition(": ")[2] for x in lines if x.startswith("model name")), "unknown")


if __name__ == "__main__":
    main()
