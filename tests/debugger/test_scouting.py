"""Launches with conditions run in optimised code first: results, copies and output stay right."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.debug import scouting

SOURCE = """\
__device__ int count;
__global__ void two(const float* a, float* first, float* second, int n, int which) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float product = a[i] * a[i];
    if (which & 1) first[i] += product + 0.1f;
    if (which & 2) second[i] += product;
    if (i == 0) atomicAdd(&count, 1);
}
__global__ void around_const(const float* a, int n) {
    int i = threadIdx.x;
    const_cast<float*>(a)[i] += n;
}
__global__ void says(int n) {
    int i = threadIdx.x;
    if (i == n) printf("here is %d\\n", i);
}
__global__ void joined(const float* a, float* out) {
    float p = a[threadIdx.x] * a[threadIdx.x];
    out[threadIdx.x] = p + 0.1f;
}
"""
MODULE = weft.cuda(SOURCE)
N = 64


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    a = (np.arange(N) % 7 + 0.3).astype(np.float32)
    return a, np.zeros(N, np.float32), np.ones(N, np.float32)


@pytest.mark.parametrize("line", [5, 6])
def test_which_arrays_are_written_is_learnt(line: int) -> None:
    expected, got = data(), data()
    stops: list[int] = []
    for which in (1, 1, 2, 3, 0, 3):  # a later launch may write another array
        MODULE.two[2, 32](*expected, N, which)
        with weft.breakpoint(
            MODULE.two, line, "i == n", on_stop=lambda d: stops.append(d.thread[0])
        ):
            MODULE.two[2, 32](*got, N, which)
    assert stops == []
    for x, y in zip(expected, got, strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_hit_after_launches_without_one() -> None:
    expected, got = data(), data()
    seen = []
    with weft.breakpoint(
        MODULE.two, 6, "i == n", on_stop=lambda d: seen.append(d.value("second[i]").number)
    ):
        for n in (N, N, 40, N):
            MODULE.two[2, 32](*got, n, 3)
    for n in (N, N, 40, N):
        MODULE.two[2, 32](*expected, n, 3)
    for x, y in zip(expected, got, strict=True):
        np.testing.assert_array_equal(x, y)
    a = data()[0][40]
    assert seen == [float(np.float32(1) + a * a + a * a)]


def test_a_write_through_a_pointer_to_const() -> None:
    x = np.zeros(32, np.float32)
    with weft.breakpoint(MODULE.around_const, 11, "i == n", on_stop=lambda d: None):
        for _ in range(3):
            MODULE.around_const[1, 32](x, 100)
    assert x.tolist() == [300.0] * 32


def test_what_a_kernel_prints_is_printed_once(capfd: pytest.CaptureFixture[str]) -> None:
    with weft.breakpoint(MODULE.says, 15, "i == 99", on_stop=lambda d: None):
        MODULE.says[1, 32](7)
    assert capfd.readouterr().out == "here is 7\n"


def test_code_that_rounds_in_another_way_runs_again() -> None:
    """A test between a product and a sum keeps the compiler from joining them."""
    a, out, _ = data()
    expected = out.copy()
    MODULE.joined[1, N](a, expected)
    with weft.breakpoint(MODULE.joined, 19, "p < 0", on_stop=lambda d: None):
        MODULE.joined[1, N](a, out)
    np.testing.assert_array_equal(out, expected)
    fused = "\tfma.rn.f32 %f1, %f2, %f3, %f4;\n"
    apart = "\tmul.rn.f32 %f1, %f2, %f3;\n\t@%p1 bra $L;\n\tadd.rn.f32 %f1, %f1, %f4;\n"
    assert scouting.rounds_alike(fused, fused + "\tld.global.f32 %f1, [%rd1];\n")
    assert not scouting.rounds_alike(fused, apart)
    assert not scouting.rounds_alike(fused, "@!%p3 " + fused + "call vprintf;\n")
