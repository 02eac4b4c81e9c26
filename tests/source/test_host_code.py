"""Files that also have host code: nvcc compiles what NVRTC cannot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import weft
from weft.source import from_nvcc, toolkit

pytestmark = pytest.mark.skipif(
    toolkit.locate("nvcc", toolkit.VARIABLE) is None, reason="nvcc was not found"
)

WHOLE = """\
#include <iostream>
#include <vector>
#include "factor.h"

template <class T>
__global__ void scale(T *x, uint n) {
    uint i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= FACTOR;
}
__global__ void fill(float *x) { x[threadIdx.x] = OFFSET; }

int main() {
    std::vector<float> x(4);
    float *device;
    cudaMalloc(&device, 16);
    fill<<<1, 4>>>(device);
    std::cout << cudaMemcpy(x.data(), device, 16, cudaMemcpyDeviceToHost) << std::endl;
}
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> weft.Module:
    folder = tmp_path_factory.mktemp("whole")
    (folder / "factor.h").write_text("#define FACTOR 3\n")
    (folder / "whole.cu").write_text(WHOLE)
    return weft.cuda(folder / "whole.cu", defines={"OFFSET": 7})


def test_kernels_of_an_ordinary_file(module: weft.Module) -> None:
    x = np.zeros(4, np.float32)
    module.fill[1, 4](x)
    assert x.tolist() == [7] * 4
    assert repr(module.fill) == "<weft.Kernel fill(float* x)>"


def test_a_template_of_an_ordinary_file(module: weft.Module) -> None:
    x = np.arange(4.0)
    module.kernel("scale<double>")[1, 32](x, 4)
    assert x.tolist() == [0, 3, 6, 9]


def test_an_error_in_host_code_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "wrong.cu"
    path.write_text("#include <vector>\n__global__ void k() {}\nint main() { return missing; }\n")
    with pytest.raises(weft.CompileError, match='"missing" is undefined') as caught:
        weft.cuda(path)
    assert caught.value.where.endswith("wrong.cu:3")


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("__global__ void k(int *x) { *x = 1; }", False),
        ("// int main()\n__global__ void k() {}", False),
        ("__global__ void k(uint *x) { *x = 1; }", True),
        ("#include <algorithm>\n__global__ void k() {}", True),
        ("void f() { k<<<1, 1>>>(); }", True),
    ],
)
def test_host_code_is_recognised(text: str, host: bool) -> None:
    assert from_nvcc.has_host_code(text) is host
