"""Calls of cuBLAS and cuDNN as the runtime library passes them on, against sums in float64."""

import ctypes
import itertools
from typing import Any

import numpy as np
import pytest

from weft.frontends.program import libraries
from weft.frontends.program.libraries import dnn, products
from weft.frontends.program.libraries.arrays import INT_8, INT_32, REAL_16BF, REAL_32F, REAL_64F

_DNN_TYPES = {np.dtype(np.float32): 0, np.dtype(np.float64): 1, np.dtype(np.float16): 2}


def _address(array: Any) -> int:
    return int(array.ctypes.data)


def _gemm(m: int, n: int, k: int, x: Any, y: Any, out: Any, kinds: Any, **more: Any) -> Any:
    alpha, beta = (np.array([more.get(name, d)]) for name, d in (("alpha", 1), ("beta", 0)))
    scale = np.int32 if kinds[3] == INT_32 else np.float64 if kinds[3] == REAL_64F else np.float32
    alpha, beta = alpha.astype(scale), beta.astype(scale)
    turns = more.get("transposed", (0, 0))
    lds = (k if turns[0] else m, n if turns[1] else k, m)
    numbers = (
        *kinds, *turns, 0, m, n, k, _address(alpha), _address(beta), _address(x),
        _address(y), _address(out), *lds, m * k, more.get("step_b", k * n), m * n, len(out),
    )  # fmt: skip
    assert libraries.compute("blas_gemm", numbers) == 0
    return out


def _column_major(x: Any) -> Any:
    """Matrices of a stack as column-major memory has them."""
    return np.ascontiguousarray(x.swapaxes(-1, -2))


@pytest.mark.parametrize("transposed", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_a_batch_of_products(transposed: tuple[int, int]) -> None:
    draw = np.random.default_rng(1)
    m, n, k = 5, 7, 3
    a, b, c = (draw.standard_normal((4, *s)).astype(np.float32) for s in ((m, k), (k, n), (m, n)))
    out = _column_major(c)
    stored = [x if turn else _column_major(x) for x, turn in zip((a, b), transposed, strict=True)]
    _gemm(m, n, k, *stored, out, [REAL_32F] * 4, transposed=transposed, alpha=2, beta=-1)
    np.testing.assert_allclose(out.swapaxes(1, 2), 2 * (a @ b) - c, rtol=1e-5, atol=1e-5)


def test_all_products_of_a_batch_may_share_a_factor() -> None:
    draw = np.random.default_rng(2)
    a, b = draw.standard_normal((3, 4, 4)), draw.standard_normal((1, 4, 4))
    out = np.full((3, 4, 4), np.nan)  # beta = 0: not read
    _gemm(4, 4, 4, _column_major(a), _column_major(b), out, [REAL_64F] * 4, step_b=0)
    np.testing.assert_allclose(out.swapaxes(1, 2), a @ b, rtol=1e-12)


@pytest.mark.parametrize("kind", [INT_32, REAL_32F], ids=["int32", "float32"])
@pytest.mark.parametrize("k", [8, 1500], ids=["in float32", "in float64"])
def test_sums_of_int8_are_exact(kind: int, k: int) -> None:
    draw = np.random.default_rng(3)
    a, b = (draw.integers(-128, 128, shape, np.int8) for shape in ((1, 6, k), (1, k, 6)))
    a[0, 0], b[0, :, 0] = -128, -128
    out = np.zeros((1, 6, 6), np.int32 if kind == INT_32 else np.float32)
    _gemm(6, 6, k, _column_major(a), _column_major(b), out, [INT_8, INT_8, kind, kind])
    assert (out.swapaxes(1, 2) == a.astype(np.int64) @ b.astype(np.int64)).all()


def test_bfloat16_rounds_to_even_and_keeps_nan() -> None:
    # 1 + 2^-8 is halfway between two numbers, 1 + 3 * 2^-8 too; the sum of the third row is a NaN.
    a = np.array([[[1, 1], [1, 3], [np.inf, -np.inf]]], np.float32)
    b = np.array([[[1], [2**-8]]], np.float32)
    bits = [(_column_major(x).view(np.uint32) >> 16).astype(np.uint16) for x in (a, b)]
    out = np.zeros((1, 1, 3), np.uint16)
    _gemm(3, 1, 2, *bits, out, [REAL_16BF, REAL_16BF, REAL_16BF, REAL_32F])
    assert out.ravel().tolist() == [0x3F80, 0x3F82, 0x7FC0]


def test_products_are_written_in_place() -> None:
    x, out = np.eye(3, dtype=np.float32), np.zeros((3, 3), np.float32)
    assert products.product(x, x, out) is out


# ---- convolution --------------------------------------------------------------------------------
def _direct(x: Any, w: Any, pad: Any, stride: Any, dilation: Any, groups: int) -> Any:
    """The cross-correlation, tap by tap."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pad[0],) * 2, (pad[1],) * 2))
    spans = [(size - 1) * d + 1 for size, d in zip(w.shape[2:], dilation, strict=True)]
    height, width = ((x.shape[2 + i] - spans[i]) // stride[i] + 1 for i in range(2))
    out = np.zeros((len(x), len(w), height, width))
    each, inputs = len(w) // groups, w.shape[1]
    for k, i, j in itertools.product(range(len(w)), *map(range, w.shape[2:])):
        first = k // each * inputs
        rows = slice(i * dilation[0], i * dilation[0] + (height - 1) * stride[0] + 1, stride[0])
        line = slice(j * dilation[1], j * dilation[1] + (width - 1) * stride[1] + 1, stride[1])
        part = x[:, first : first + inputs, rows, line]
        out[:, k] += np.einsum("nchw,c->nhw", part, w[k, :, i, j].astype(np.float64))
    return out


def _numbers(*arrays: Any) -> list[int]:
    rows = ([_address(a), _DNN_TYPES[a.dtype], *a.shape] for a in arrays)
    steps = ([step // a.itemsize for step in a.strides] for a in arrays)
    return [number for row, step in zip(rows, steps, strict=True) for number in (*row, *step)]


_SHAPES = {
    "plain": ((1, 1), (1, 1), (1, 1), 1, 1),
    "strides": ((1, 0), (2, 3), (1, 1), 1, 1),
    "dilation": ((2, 1), (1, 2), (2, 1), 1, 1),
    "groups": ((1, 1), (1, 1), (1, 1), 2, 1),
    "turned filter": ((0, 1), (1, 1), (1, 1), 1, 0),
}


@pytest.mark.parametrize("most", [1 << 21, 1], ids=["whole", "row by row"])
@pytest.mark.parametrize("how", _SHAPES.values(), ids=_SHAPES)
def test_convolutions(how: Any, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pad, stride, dilation, groups, mode = how
    monkeypatch.setattr(dnn, "_MOST_COLUMN_ELEMENTS", most)
    draw = np.random.default_rng(4)
    x, w = (draw.standard_normal(s) for s in ((2, 4, 7, 9), (6, 4 // groups, 3, 2)))
    correlated = w if mode else w[:, :, ::-1, ::-1]
    expected = _direct(x, correlated, pad, stride, dilation, groups)
    one, zero = np.ones(1), np.zeros(1)
    rest = [*pad, *stride, *dilation, mode, groups, _address(one), _address(zero)]
    y, dx, dw = np.empty(expected.shape), np.empty(x.shape), np.empty(w.shape)
    dnn.compute("forward", _numbers(x, w, y) + rest)
    np.testing.assert_allclose(y, expected, rtol=1e-10, atol=1e-10)
    # The gradients of sum(dy * y) are its derivatives along any direction: y is linear in both.
    dy = draw.standard_normal(y.shape)
    dnn.compute("backward_data", _numbers(w, dy, dx) + rest)
    dnn.compute("backward_filter", _numbers(x, dy, dw) + rest)
    assert np.isclose((dx * x).sum(), (dy * y).sum()) and np.isclose((dw * w).sum(), (dy * y).sum())
    other = draw.standard_normal(x.shape)
    along = _direct(other, correlated, pad, stride, dilation, groups)
    assert np.isclose((dx * other).sum(), (dy * along).sum())


def test_pointers_of_a_batch() -> None:
    draw = np.random.default_rng(5)
    a, b = draw.standard_normal((2, 3, 3)), draw.standard_normal((2, 3, 3))
    out, one, zero = np.zeros((2, 3, 3)), np.ones(1), np.zeros(1)
    stored = [_column_major(a), _column_major(b), out]
    rows = [(ctypes.c_uint64 * 2)(*(_address(x[i]) for i in range(2))) for x in stored]
    pointers = [ctypes.addressof(row) for row in rows]
    numbers = (
        *[REAL_64F] * 4, 0, 0, 1, 3, 3, 3, _address(one), _address(zero), *pointers,
        3, 3, 3, 0, 0, 0, 2,
    )  # fmt: skip
    assert libraries.compute("blas_gemm", numbers) == 0
    np.testing.assert_allclose(out.swapaxes(1, 2), a @ b, rtol=1e-12)


def test_sums_of_integers_wrap() -> None:
    """A product of 8-bit matrices adds in 32 bits, on every CPU."""
    x = np.full((1, (1 << 17) + 3), -128, np.int8)
    assert products.product(x, x.T).item() == -(1 << 31) + (3 << 14)
