"""The judge on kernels, on either device: a launch with its arguments, and callables."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from devices import Gpu, Sim
from weft.measure.check.workers import check_file

Put = Callable[[np.ndarray], Any]

SOURCE = r"""
__global__ void axpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
__global__ void no_tail(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 128 * 128) y[i] = 2 * x[i];
}
__global__ void all_but_one(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n - 1) y[i] = 2 * x[i];
}
__global__ void unguarded(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = 2 * x[i];
}
__global__ void rowsum(const float* x, float* y, int n) {
    __shared__ float part[128];
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += 128) sum += x[blockIdx.x * n + i];
    part[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = 0;
        for (int i = 0; i < 128; ++i) sum += part[i];
        y[blockIdx.x] = sum;
    }
}
"""


@pytest.fixture
def put(device: Sim | Gpu) -> Callable[[np.ndarray], Any]:
    """Puts an array where the tests run; the judge makes its copies in the same library."""
    if device.name == "sim":
        return lambda a: a
    torch = pytest.importorskip("torch")
    return lambda a: torch.from_numpy(a).cuda()


@pytest.fixture(scope="module")
def module() -> weft.Module:
    return weft.cuda(SOURCE)


def test_a_launch_is_right(module: weft.Module, put: Put) -> None:
    x = put(np.random.default_rng(1).standard_normal((5, 1000)).astype(np.float32))
    y = put(np.zeros(5, np.float32))
    report = weft.check(module.rowsum[5, 128], x, y, 1000, out=y, reference=lambda x: x.sum(axis=1))
    assert report.worst < 0.5 and report.deterministic and len(report.trials) == 9
    assert not y.any(), "the caller's own arrays are left alone"


def test_an_output_that_is_read_starts_with_its_data(module: weft.Module, put: Put) -> None:
    x, y = put(np.ones(300, np.float32)), put(np.ones(300, np.float32))
    launch = module.axpy[3, 128]
    weft.check(launch, 2.0, x, y, 300, out="y", reference=lambda a, x, y: a * x + y)
    with pytest.raises(weft.CheckFailed):
        weft.check(launch, 2.0, x, y, 300, out="y", reference=lambda a, x, y: a * x - y)


def test_the_tail_is_named(module: weft.Module, put: Put) -> None:
    x, y = put(np.ones(1000, np.float32)), put(np.zeros(1000, np.float32))
    with pytest.raises(weft.CheckFailed) as raised:
        weft.check(module.no_tail[8, 128], x, y, 1000, out=y, reference=lambda x: 2 * x)
    assert raised.value.cause == "tail block"
    assert "elements 896 to 999 are unwritten" in raised.value.evidence
    assert raised.value.writer == "no thread"


@pytest.mark.parametrize(
    ("kernel", "grid", "n", "cause", "evidence"),
    [
        ("no_tail", 8, 1000, "tail block", "the grid of 1024 threads reaches them"),
        ("unguarded", 7, 1000, "tail block", "round the grid up with weft.cdiv"),
        ("unguarded", 7, 897, "tail block", "round the grid up with weft.cdiv"),
        ("all_but_one", 8, 1000, "bound off by one", "only the last of 1000 elements"),
        ("all_but_one", 8, 897, "bound off by one", "only the last of 897 elements"),
    ],
)
def test_a_tail_is_told_from_a_bound(
    module: weft.Module, put: Put, kernel: str, grid: int, n: int, cause: str, evidence: str
) -> None:
    x, y = put(np.ones(n, np.float32)), put(np.zeros(n, np.float32))
    with pytest.raises(weft.CheckFailed) as raised:
        weft.check(module.kernel(kernel)[grid, 128], x, y, n, out=y, reference=lambda x: 2 * x)
    assert raised.value.cause == cause
    assert evidence in raised.value.evidence


def test_who_wrote_it_is_named(module: weft.Module, put: Put) -> None:
    x, y = put(np.ones((4, 100), np.float32)), put(np.zeros(4, np.float32))
    with pytest.raises(weft.CheckFailed) as raised:
        weft.check(
            module.rowsum[4, 128], x, y, 100, out=y,
            reference=lambda x: np.asarray(x).sum(axis=1) * [1, 1, 2, 1],
        )  # fmt: skip
    assert raised.value.index == (2,)
    assert raised.value.writer.startswith("kernel.cu:27  `y[blockIdx.x] = sum;`")
    assert raised.value.writer.endswith("block (2, 0, 0), thread (0, 0, 0)")


def test_overlapping_writes_are_named(put: Put) -> None:
    one = weft.cuda("__global__ void one(float* y) { y[0] = threadIdx.x; }").one
    y = put(np.zeros(1, np.float32))
    with pytest.raises(weft.CheckFailed) as raised:
        weft.check(one[1, 40], y, out=y, reference=lambda: np.full(1, 7.0))
    assert raised.value.cause == "overlapping writes"
    assert "40 threads wrote element (0,)" in raised.value.evidence


RACES = r"""
__global__ void reversed(const float* x, float* y) {
    __shared__ float s[128];
    s[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = s[127 - threadIdx.x];
}
__global__ void total(const float* x, float* y) {
    if (threadIdx.x == 0) y[0] = 0;
    __syncthreads();
    y[0] = y[0] + x[threadIdx.x];
}
__global__ void by_warps(const float* x, float* y) {
    __shared__ float s[128];
    s[threadIdx.x] = x[threadIdx.x];
    for (int half = 64; half; half /= 2) {
        __syncwarp();
        if (threadIdx.x < half) s[threadIdx.x] += s[threadIdx.x + half];
    }
    if (threadIdx.x == 0) y[0] = s[0];
}
__global__ void never_set(const float* x, float* y) {
    __shared__ float sum;
    atomicAdd(&sum, x[threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) y[0] = sum;
}
__global__ void count(const unsigned char* b, int* c, int n) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i < n) atomicAdd(&c[b[i]], 1);
}
__global__ void add(const float* x, float* y) { y[threadIdx.x] += 2 * x[threadIdx.x]; }
__global__ void larger(const float* x, float* y) {
    y[threadIdx.x] = fmaxf(y[threadIdx.x], 2 * x[threadIdx.x]);
}
"""


@pytest.mark.sim
@pytest.mark.parametrize(
    ("name", "size", "reference", "lines", "advice"),
    [
        ("reversed", 128, lambda x: x[::-1], (4, 5), "__syncthreads() between the two"),
        ("total", 1, lambda x: x.sum(keepdims=True), (10, 10), "between the two"),
        ("by_warps", 1, lambda x: x.sum(keepdims=True), (14, 17), "__syncthreads()"),
    ],
)
def test_a_race_is_named_with_both_lines(
    name: str, size: int, reference: Callable[[Any], Any], lines: tuple[int, int], advice: str
) -> None:
    x, y = np.arange(128, dtype=np.float32), np.zeros(size, np.float32)
    with pytest.raises(weft.CheckFailed) as raised:
        weft.check(weft.cuda(RACES).kernel(name)[1, 128], x, y, out=y, reference=reference)
    assert raised.value.cause == "missing synchronisation"
    both = raised.value.evidence.split(" and ", 1)  # in the order that the lanes ran in
    named = sorted(int(re.search(r"kernel\.cu:(\d+)", text)[1]) for text in both)
    assert tuple(named) == lines
    assert advice in raised.value.evidence


@pytest.mark.sim
def test_uninitialised_shared_memory_is_no_race() -> None:
    x, y = np.arange(128, dtype=np.float32), np.zeros(1, np.float32)
    launch = weft.cuda(RACES).never_set[1, 128]
    with pytest.raises(weft.CheckFailed) as raised:
        # Off by one: shared memory may happen to hold a zero.
        weft.check(launch, x, y, out=y, reference=lambda x: x.sum(keepdims=True) + 1)
    assert raised.value.cause == "uninitialised"
    assert raised.value.evidence.startswith("a read of memory that was never written: read: kern")
    assert "kernel.cu:23" in raised.value.evidence


def _counts(b: np.ndarray) -> np.ndarray:
    return np.bincount(b.astype(int), minlength=256)


@pytest.mark.sim
@pytest.mark.parametrize(
    ("name", "x", "reference", "cause"),
    [
        # 200 values: some elements of the output get no addition and keep what they held.
        ("count", np.arange(200, dtype=np.uint8), _counts, "adds to its output"),
        ("add", np.ones(128, np.float32), lambda x: 2 * x, "adds to its output"),
        ("larger", np.zeros(128, np.float32), lambda x: 2 * x, "reads its output"),
    ],
    ids=["integers", "floats", "no sum"],
)
def test_old_contents_of_the_output_are_no_race(
    name: str, x: np.ndarray, reference: Callable[[Any], Any], cause: str
) -> None:
    y, more = (np.zeros(256, np.int32), [x.size]) if name == "count" else (x.copy(), [])
    with pytest.raises(weft.CheckFailed) as raised:
        launch = weft.cuda(RACES).kernel(name)[2 if more else 1, 128]
        weft.check(launch, x, y, *more, out=y, reference=reference)
    assert raised.value.cause == cause
    assert "before the call" in raised.value.evidence


@pytest.mark.sim
def test_a_solution_that_launches_is_sanitized() -> None:
    kernel = weft.cuda(RACES).reversed
    op = weft.Op("rev", "x:f32[n] -> y:f32[n]", lambda x: x[::-1], [weft.Case(n=128)])
    with pytest.raises(weft.CheckFailed) as raised:
        weft.check(op, lambda x, y: kernel[1, 128](x, y))
    assert raised.value.cause == "missing synchronisation"
    assert "kernel.cu:4" in raised.value.evidence and "kernel.cu:5" in raised.value.evidence


def test_a_callable_that_returns(put: Put) -> None:
    x = put(np.ones(100, np.float32))
    weft.check(lambda x: x * 2, x, reference=lambda x: x * 2)
    with pytest.raises(weft.CheckFailed, match="result"):
        weft.check(lambda x: x * 3, x, reference=lambda x: x * 2)


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    x = torch.linspace(-3, 3, 800).view(8, 100)
    weft.check(lambda x: torch.softmax(x, -1), x, reference=lambda x: torch.softmax(x, -1))
    half = x.bfloat16()
    weft.check(lambda x: x * 2, half, reference=lambda x: x * 2)


@pytest.mark.parametrize(
    ("out", "says"),
    [(None, "say which argument it fills"), ("z", "names no array"), ([1], "names no array")],
)
def test_bad_outputs(module: weft.Module, put: Put, out: object, says: str) -> None:
    x, y = put(np.ones(128, np.float32)), put(np.zeros(128, np.float32))
    with pytest.raises(weft.ArgumentError, match=says):
        weft.check(module.no_tail[1, 128], x, y, 128, out=out, reference=lambda x: x)


def test_the_output_is_suggested_by_its_name(put: Put) -> None:
    x, z = put(np.ones(8, np.float32)), put(np.zeros(8, np.float32))
    source = "__global__ void twice(const float* x, float* z) { *z = 2 * *x; }"
    with pytest.raises(weft.ArgumentError) as raised:
        weft.check(weft.cuda(source).twice[1, 1], x, z, reference=lambda x: 2 * x)
    assert raised.value.next == "out=z"
    with pytest.raises(weft.CheckFailed) as failed:
        weft.check(lambda x, z: None, x, z, reference=lambda x: 2 * x)
    assert failed.value.next == "say which argument is the output: out=z"


@pytest.mark.gpu
def test_a_result_on_another_stream_is_refused() -> None:
    torch = pytest.importorskip("torch")
    side = torch.cuda.Stream()
    x = torch.ones(1 << 20, device="cuda")

    def sneaky(x: Any, y: Any) -> None:
        with torch.cuda.stream(side):
            torch.cuda._sleep(50_000_000)
            y.copy_(3 * x)

    def honest(x: Any, y: Any) -> None:
        sneaky(x, y)
        torch.cuda.current_stream().wait_stream(side)

    y = torch.zeros_like(x)
    weft.check(honest, x, y, out=y, reference=lambda x: 3 * x, specials=())
    with pytest.raises(weft.CheckFailed, match="another stream"):
        weft.check(sneaky, x, y, out=y, reference=lambda x: 3 * x, specials=())


ON_GPU = """
import torch, weft

op = weft.Op(
    "triple", "x:f32[n] k:i32[n] -> y:f32[n]", lambda x, k: 3 * x + k, [weft.Case(n=1 << 16)]
)
kernel = weft.cuda('''
__global__ void triple(const float* x, const int* k, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 3 * x[i] + k[i];
}
''').triple
side = torch.cuda.Stream()

@op.solution
def fails_on_the_device(x, k, y, n):  # what is left of the context is of no use to anything
    y.copy_(x[torch.full_like(k, 10**9)])

@op.solution
def right(x, k, y, n):
    assert y.is_cuda
    kernel[weft.cdiv(n, 256), 256](x, k, y, n)

@op.solution
def on_another_stream(x, k, y, n):
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        right(x, k, y, n)
"""


@pytest.mark.gpu
def test_solutions_in_workers_on_a_gpu(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "on_gpu.py"
    path.write_text(ON_GPU)
    lost, right, late = check_file(path, device="gpu")
    assert isinstance(lost.error, weft.CheckFailed) and "raises" in str(lost.error)
    assert right.error is None and right.report is not None, right
    assert right.report.device == "PyTorch on cuda:0"
    assert isinstance(late.error, weft.CheckFailed) and "another stream" in str(late.error)
