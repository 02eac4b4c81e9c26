"""The least time of launches that leave most of the GPU idle: latency, and SMs without work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft

pytestmark = pytest.mark.sim
SOURCE = r"""
__global__ void one(const float* x, float* y, int n) {
    for (int i = 0; i < n; i++) y[i] = x[i] * x[i];
}
__global__ void chase(const int* x, int* y, int n) {
    int p = 0;
    for (int i = 0; i < n; i++) p = x[p];
    *y = p;
}
__global__ void sum(const float* __restrict__ x, float* y, int n) {
    float s = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) s += x[i];
    y[threadIdx.x] = s;
}
__global__ void ints(int* y, int n) {
    int a = threadIdx.x;
    for (int i = 0; i < n; i++) a = a * 3 + (a >> 3) ^ i;
    y[threadIdx.x] = a;
}
__global__ void exps(float* y, int n) {
    float a = threadIdx.x;
    for (int i = 0; i < n; i++) a = __expf(-a) + 0.5f;
    y[threadIdx.x] = a;
}
__global__ void divs(float* y, int n) {
    float a = threadIdx.x;
    for (int i = 0; i < n; i++) a = a / 1.7f + 1;
    y[threadIdx.x] = a;
}
__global__ void dbl(double* y, int n) {
    double a = threadIdx.x;
    for (int i = 0; i < n; i++) a = a * 0.5 + 1;
    y[threadIdx.x] = a;
}
__global__ void many(float* y, int n) {
    float a = threadIdx.x, b = 1, c = 2, d = 3;
    for (int i = 0; i < n; i++) { a = a * a + b; b = b * b + c; c = c * c + d; d = d * d + a; }
    y[blockIdx.x * blockDim.x + threadIdx.x] = a + b + c + d;
}
"""


def ring(n: int) -> Any:
    return ((np.arange(n) + 33) % n).astype(np.int32)


def f32(n: int) -> Any:
    return np.ones(n, np.float32)


MEASURED = [
    ("one", (1, 1), (f32(4096), f32(4096), 4096), 166.9),
    ("chase", (1, 1), (ring(4096), np.zeros(1, np.int32), 8192), 233.2),
    ("chase", (1, 1), (ring(1 << 20), np.zeros(1, np.int32), 8192), 1191.9),
    ("sum", (1, 32), (f32(65536), f32(32), 65536), 336.9),
    ("sum", (1, 1024), (f32(1 << 20), f32(1024), 1 << 20), 173.7),
    ("ints", (1, 32), (np.zeros(32, np.int32), 20000), 155.5),
    ("exps", (1, 32), (f32(32), 20000), 512.5),
    ("divs", (1, 32), (f32(32), 20000), 573.3),
    ("dbl", (1, 32), (np.ones(32), 20000), 97.6),
]
"""Kernel, launch, arguments, and microseconds that an H200 took, with 14 for an empty kernel."""


@pytest.fixture(scope="module")
def module() -> weft.CudaModule:
    return weft.cuda(SOURCE)


@pytest.mark.parametrize(("kernel", "shape", "args", "took"), MEASURED)
def test_latency_is_below_what_a_gpu_took(
    module: weft.Module, kernel: str, shape: tuple[int, int], args: tuple[Any, ...], took: float
) -> None:
    roof = weft.profile(module.kernel(kernel)[shape], *args, device="sim:h200").roofline
    assert roof.bound == "latency"
    assert 0.25 * took < 1e6 * roof.bound_seconds <= took


def metrics(p: weft.Profile) -> dict[str, Any]:
    return {m.label: m.value for m in p.sections[0].metrics}


def test_one_thread_is_far_from_the_speed_of_light(module: weft.Module, tmp_path: Path) -> None:
    p = weft.profile(module.one[1, 1], f32(4096), f32(4096), 4096, device="sim:h200")
    of = metrics(p)
    assert of["Memory Throughput"] < 0.1 and of["Compute (SM) Throughput"] < 0.1
    assert of["SMs with work"] == pytest.approx(100 / 132)
    assert of["Warps that the GPU holds, of its most"] == pytest.approx(100 / (132 * 64))
    p.save(tmp_path / "p.json")
    assert metrics(weft.Profile.load(tmp_path / "p.json")[0]) == of
    p.save(tmp_path / "p.html")
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    for shown in (page, str(p)):
        assert "139 µs" in shown and "1 of 132 SMs has work" in " ".join(shown.split())
    (only,) = p.advice
    assert only.rule == "tail effect" and "blocks of 128 threads or more" in only.change


def test_ten_blocks_reach_their_part_of_the_peak(module: weft.Module) -> None:
    args = (f32(132 * 8 * 256), 200)
    of = {n: metrics(weft.profile(module.many[n, 256], *args)) for n in (10, 132 * 8)}
    assert of[10]["Compute (SM) Throughput"] == pytest.approx(1000 / 132)
    assert of[10]["SMs with work"] == pytest.approx(1000 / 132)
    assert of[132 * 8]["Compute (SM) Throughput"] == 100


def test_gains_that_need_a_larger_grid_say_so(module: weft.Module) -> None:
    """One warp is bound by latency: fewer sectors do not make it faster."""
    strided = weft.cuda("__global__ void strided(float* x) { x[32 * threadIdx.x] += 1; }").strided
    advice = weft.profile(strided[1, 32], f32(1024)).advice
    (found,) = (a for a in advice if a.rule == "coalescing")
    assert found.filled
    assert "x in a grid that fills the GPU)" in str(found)
