"""CuPy's kernel classes without CuPy, against NumPy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
import weft.cupy as cp

SAXPY = r"""
__constant__ float offset;
template <class T> __global__ void saxpy(T a, const T *x, T *y, int n) {
    extern __shared__ T tile[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? x[i] : T(0);
    __syncthreads();
    if (i < n) y[i] = a * tile[threadIdx.x] + SCALE * y[i] + T(offset);
}
"""


def test_a_module_with_a_template_a_variable_and_shared_memory() -> None:
    module = cp.RawModule(
        code=SAXPY, options=("-DSCALE=2", "--std=c++14"), name_expressions=["saxpy<double>"]
    )
    module.get_global("offset").copy_from_host(np.float32(0.5))
    x, y = cp.arange(100, dtype=cp.float64), cp.ones(100)
    module.get_function("saxpy<double>")((4,), (32,), (3.0, x, y, 100), shared_mem=32 * 8)
    np.testing.assert_array_equal(y.get(), 3 * np.arange(100.0) + 2.5)


def test_an_elementwise_kernel_broadcasts_and_takes_its_types_from_the_arrays() -> None:
    kernel = cp.ElementwiseKernel("T x, T y, float32 f", "T z, int32 above", """
        z = (x - y) * f;
        above = z > 0
    """, "difference")  # fmt: skip
    for dtype in (cp.float32, cp.float64, cp.int32):
        x, y = cp.arange(12, dtype=dtype).reshape(3, 4), cp.array([1, 2, 3, 4], dtype)
        z, above = kernel(x, y, 2)
        np.testing.assert_array_equal(z, 2 * (np.arange(12).reshape(3, 4) - [1, 2, 3, 4]))
        assert z.dtype == dtype and above.sum() == (z > 0).sum()
    out = np.zeros((8, 3), np.float32).T[:, ::2]  # strided
    kernel(cp.ones((3, 4), cp.float32), 0.5, 4.0, out, np.zeros((3, 4), np.int32))
    np.testing.assert_array_equal(out, np.full((3, 4), 2.0))


def test_raw_parameters_are_indexed_by_the_operation() -> None:
    mirror = cp.ElementwiseKernel("raw T x", "T y", "y = x[_ind.size() - 1 - i]", "mirror")
    np.testing.assert_array_equal(mirror(cp.arange(5.0), size=5), [4, 3, 2, 1, 0])
    with pytest.raises(weft.ArgumentError, match="how many elements"):
        mirror(cp.arange(5.0))


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2), -1])
def test_a_reduction_along_axes(axis: object) -> None:
    norm = cp.ReductionKernel("T x, T w", "T y", "x * x * w", "a + b", "y = sqrt(a)", "0", "norm")
    x = np.random.default_rng(0).standard_normal((3, 5, 200))
    expected = np.sqrt((x * x * 2).sum(axis))  # type: ignore[call-overload]
    np.testing.assert_allclose(norm(x, 2.0, axis=axis), expected, rtol=1e-12)


def test_a_declaration_that_cannot_be_read_is_reported() -> None:
    with pytest.raises(weft.ArgumentError, match="cannot be read"):
        cp.ElementwiseKernel("float32", "T y", "y = 1")


SCRIPT = """
import cupy as cp
kernel = cp.RawKernel('extern "C" __global__ void k(int *x) { x[threadIdx.x] = threadIdx.x; }', "k")
x = cp.zeros(4, dtype=cp.int32)
with cp.cuda.Stream() as stream:
    kernel((1,), (4,), (x,))
stream.synchronize()
print(cp.asnumpy(x), x.sum().item(), type(x.get()).__name__)
"""


def test_a_script_imports_cupy(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "weft", "run", "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("[0 1 2 3] 6 ndarray\n", 0), done.stderr
    assert "weft.cupy stands in" in done.stderr
