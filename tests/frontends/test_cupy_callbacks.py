"""Callbacks of `cupy.fft`: functions of CUDA C++ for the elements of a transform."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft.cupy as cp
from weft.errors import Error

SHAPE = (3, 8)
LOAD = """
__device__ {type} scaled(void *in, size_t i, void *info, void *shared) {{
    {type} x = (({type} *)in)[i];
    float by = ((const float *)info)[i % {period}];
    {scale}
    return x;
}}
__device__ cufftCallbackLoad{letter} d_loadCallbackPtr = scaled;
"""
STORE = """#include <cufftXt.h>
__device__ void reversed(void *out, unsigned long long i, cufftDoubleComplex x, void *info,
                         void *shared) {
    x.x += 1;
    ((cufftDoubleComplex *)out)[*(const int *)info - 1 - i] = x;
}
"""
COMPLEX, REAL = "x.x *= by, x.y *= by;", "x *= by;"


def values(dtype: Any) -> np.ndarray[Any, Any]:
    i = np.arange(24).reshape(SHAPE)
    x = i**2 % 11 + 1j * (i % 7)
    return (x if np.dtype(dtype).kind == "c" else x.real).astype(dtype)


@pytest.mark.parametrize(
    ("name", "dtype", "letter", "type_"),
    [
        ("fft", "complex64", "C", "cufftComplex"),
        ("fftn", "complex128", "Z", "cufftDoubleComplex"),
        ("rfft2", "float32", "R", "cufftReal"),
        ("irfft", "complex64", "C", "cufftComplex"),
    ],
)
def test_a_load_callback_is_called_for_each_element(
    name: str, dtype: str, letter: str, type_: str
) -> None:
    scale = REAL if letter == "R" else COMPLEX
    code = LOAD.format(type=type_, letter=letter, scale=scale, period=8)
    factors, x = np.arange(8, dtype=np.float32) / 2, values(dtype)
    with cp.fft.config.set_cufft_callbacks(cb_load=code, cb_load_aux_arr=cp.asarray(factors)):
        got = getattr(cp.fft, name)(cp.asarray(x))
    after = getattr(cp.fft, name)(cp.asarray(x))
    expected = getattr(np.fft, name)(x * factors)
    np.testing.assert_allclose(got.get(), expected, rtol=1e-5, atol=1e-5)
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(after.get(), getattr(np.fft, name)(x), rtol=1e-6)


@pytest.mark.parametrize(
    ("norm", "scale"), [(None, 24), ("ortho", np.sqrt(24)), ("forward", 1)], ids=str
)
def test_results_are_scaled_after_the_store_callback(norm: str | None, scale: float) -> None:
    count = cp.cuda.alloc(4)
    size = np.array([24], np.int32)
    count.copy_from_host(size.ctypes.data, 4)
    x = values("complex128")
    with cp.fft.config.set_cufft_callbacks(
        cb_store=STORE, cb_store_name="reversed", cb_store_data=count, cb_ver="jit"
    ):
        got = cp.fft.ifft2(cp.asarray(x), norm=norm).get()
    expected = (np.fft.ifft2(x, norm="forward") + 1).ravel()[::-1].reshape(SHAPE) / scale
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


def test_what_callbacks_cannot_do_is_said() -> None:
    code = LOAD.format(type="cufftComplex", letter="C", scale=COMPLEX, period=8)
    x = cp.asarray(values("complex64"))
    with (
        cp.fft.config.set_cufft_callbacks(cb_load=code, cb_load_aux_arr=x),
        pytest.raises(Error, match="not cut or padded"),
    ):
        cp.fft.fft(x, 16)
    with pytest.raises(ValueError, match="cb_load or cb_store"):
        cp.fft.config.set_cufft_callbacks()
    with pytest.raises(Error, match="does not infer the name"):
        cp.fft.config.set_cufft_callbacks(cb_load=code, cb_ver="jit")
