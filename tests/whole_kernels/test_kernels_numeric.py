"""Elementary functions, narrow formats and training steps, against NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from everyday import bfloat16, close, from_bfloat16, load, normal, random
from weft import cdiv

Function = Callable[[np.ndarray], np.ndarray]
erf = np.vectorize(math.erf, otypes=[float])
sine = np.vectorize(math.sin, otypes=[float])
cosine = np.vectorize(math.cos, otypes=[float])


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


UNITS = 4
"""Units in the last place that a function may be off; CUDA's own bound is at most that."""

F32: dict[str, tuple[Function, float, float]] = {
    "f32_exp": (np.exp, -87, 88),
    "f32_log": (np.log, 1e-30, 1e30),
    "f32_log1p": (np.log1p, -0.99, 1e5),
    "f32_sin": (sine, -1e6, 1e6),
    "f32_tan": (np.tan, -1e5, 1e5),
    "f32_tanh": (np.tanh, -12, 12),
    "f32_erf": (erf, -4, 4),
    "f32_cbrt": (np.cbrt, -1e20, 1e20),
    "f32_power": (lambda x: x**2.5, 1e-10, 1e10),
}
F64: dict[str, tuple[Function, float, float]] = {
    "f64_exp": (np.exp, -700, 700),
    "f64_expm1": (np.expm1, -1, 1),
    "f64_log": (np.log, 1e-300, 1e300),
    "f64_power": (lambda x: x**3.7, 1e-50, 1e50),
    "f64_sin": (sine, -1e22, 1e22),
    "f64_cos": (cosine, -1e300, 1e300),
    "f64_atan": (np.arctan, -100, 100),
    "f64_tanh": (np.tanh, -5, 5),
    "f64_sqrt": (np.sqrt, 0, 1e300),
    "f64_erf": (erf, -5, 5),
    "f64_divide": (lambda x: 1 / x, -1e300, 1e300),
}


def _inputs(kind: type, low: float, high: float) -> np.ndarray:
    """Uniform over the range, plus its ends and small numbers inside it."""
    some = random(1).random(600)
    x = np.concatenate([low * (1 - some) + high * some, [low, high]])
    small = np.geomspace(1e-6, 1.0, 70)
    small = np.concatenate([small, -small])
    return np.concatenate([x, small[(small > low) & (small < high)]]).astype(kind)


@pytest.mark.parametrize("name", F32 | F64)
def test_function(name: str) -> None:
    function, low, high = (F32 | F64)[name]
    x = _inputs(np.float32 if name in F32 else np.float64, low, high)
    y = np.full_like(x, np.nan)
    load("numeric").kernel(name)[cdiv(x.size, 128), 128](x, y, x.size)
    want = function(x.astype(np.float64))
    unit = np.spacing(np.abs(want).astype(x.dtype)).astype(np.float64)
    assert np.max(np.abs(y.astype(np.float64) - want) / unit) <= UNITS


@pytest.mark.parametrize("fast", [False, True], ids=["exact", "fast"])
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("f32_gelu", lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2)))),
        ("f32_gelu_tanh", _gelu_tanh),
        ("f32_silu", lambda x: x / (1 + np.exp(-x))),
        ("f32_exp", np.exp),
        ("f32_sin", np.sin),
        ("f32_tanh", np.tanh),
    ],
)
def test_activation(name: str, function: Function, fast: bool) -> None:
    x = normal(1000, 1) * 3
    y = np.full_like(x, np.nan)
    load("numeric", fast_math=fast).kernel(name)[10, 100](x, y, x.size)
    loose = 1e-3 if fast else 2e-6
    close(y, function(x.astype(np.float64)), rtol=loose, atol=loose / 2)


EDGES = np.array(
    [0x80000000, 0, 1, 0x80000001, 0x7FFFFF, 0x800000, 0x7F800000, 0xFF800000, 0x3F800000],
    np.uint32,
)


@pytest.mark.parametrize(
    ("name", "fast", "want"),
    [
        ("copy", False, EDGES),
        ("copy", True, EDGES),  # moving bits flushes nothing
        ("negate", False, EDGES ^ 0x80000000),
        ("add_zero", False, np.where(EDGES == 0x80000000, 0, EDGES)),
    ],
)
def test_bits_pass_through(name: str, fast: bool, want: np.ndarray) -> None:
    x, y = EDGES.view(np.float32), np.empty(len(EDGES), np.float32)
    load("numeric", fast_math=fast).kernel(name)[1, 32](x, y, x.size)
    np.testing.assert_array_equal(y.view(np.uint32), want)


@pytest.mark.parametrize("n", [1, 2, 33, 1000])
def test_half2(n: int) -> None:
    x, y, a = normal(n, 1).astype(np.float16), normal(n, 2).astype(np.float16), np.float16(1.7)
    want = (float(a) * x.astype(np.float64) + y).astype(np.float16)  # exact, then rounded once
    load("numeric").axpy_half2[cdiv(n, 64), 32](a, x, y, n)
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("n", [1, 1000])
def test_bf16(n: int) -> None:
    x, y, out = bfloat16(normal(n, 1)), bfloat16(normal(n, 2)), np.empty(n, np.uint16)
    load("numeric").bf16_operators[cdiv(n, 128), 128](x, y, out, n)
    fx, fy = from_bfloat16(x), from_bfloat16(y)
    np.testing.assert_array_equal(out, bfloat16(np.where(fx > fy, fx * fy, fx - fy)))
    want = bfloat16(np.float32(0.3) * fx.astype(np.float64) + fy)
    load("numeric").axpy_bf16[cdiv(n, 128), 128](0.3, x, y, n)
    np.testing.assert_array_equal(y, want)


def _fp8_values(exponent_bits: int, mantissa_bits: int, largest: int) -> np.ndarray:
    """The number that each of the codes 0 to `largest` represents."""
    code = np.arange(largest + 1)
    e, m = code >> mantissa_bits, code & ((1 << mantissa_bits) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    normal_value = (1 + m / 2.0**mantissa_bits) * 2.0 ** (e - bias)
    return np.where(e == 0, m / 2.0**mantissa_bits * 2.0 ** (1 - bias), normal_value)


@pytest.mark.parametrize(("column", "shape"), [(0, (4, 3, 0x7E)), (1, (5, 2, 0x7B))])
def test_fp8(column: int, shape: tuple[int, int, int]) -> None:
    values = _fp8_values(*shape)
    codes = np.arange(256, dtype=np.uint8)
    decoded = [np.empty(256, np.float32) for _ in range(2)]
    load("numeric").from_fp8[1, 256](codes, *decoded, 256)
    np.testing.assert_array_equal(decoded[column][: len(values)], values)
    np.testing.assert_array_equal(decoded[column][128 : 128 + len(values)], -values)
    x = normal(2000, column) * np.float32(2.0) ** random(1).integers(-18, 17, 2000)
    x = x.astype(np.float32)
    encoded = [np.empty(2000, np.uint8) for _ in range(2)]
    load("numeric").to_fp8[16, 128](x, *encoded, 2000)
    distance = np.abs(np.abs(x.astype(np.float64))[:, None] - values)
    near = distance + 1e-30 * (np.arange(len(values)) & 1)  # ties go to the even code
    want = near.argmin(1) | np.where(np.signbit(x), 0x80, 0)
    np.testing.assert_array_equal(encoded[column], want)


ADAM = np.dtype(
    [(k, "f4") for k in ("lr", "beta1", "beta2", "eps", "decay")] + [("step", "i4")], align=True
)


@pytest.mark.parametrize("n", [1, 1000])
def test_adam(n: int) -> None:
    p, g, m, v = (normal(n, i) for i in range(4))
    v = np.abs(v)
    options = np.array((0.1, 0.9, 0.99, 1e-8, 0.01, 3), ADAM)[()]
    lr, beta1, beta2, eps, decay = (float(options[k]) for k in ADAM.names[:5])
    mean = beta1 * m.astype(np.float64) + (1 - beta1) * g
    var = beta2 * v.astype(np.float64) + (1 - beta2) * g.astype(np.float64) ** 2
    root = np.sqrt(var / (1 - beta2**3))
    want = p - lr * (mean / (1 - beta1**3) / (root + eps) + decay * p.astype(np.float64))
    load("numeric").adam[cdiv(n, 256), 256](p, g, m, v, n, options)
    close(m, mean, atol=1e-6)
    close(v, var, atol=1e-6)
    close(p, want, rtol=1e-4, atol=1e-5)


def test_embedding() -> None:
    table, ids = normal((50, 70), 1), random(2).integers(0, 50, 40)
    out, gradient = np.empty((40, 70), np.float32), np.zeros_like(table)
    load("numeric").embedding[40, 64](table, ids, out, 70)
    np.testing.assert_array_equal(out, table[ids])
    load("numeric").embedding_gradient[40, 64](gradient, ids, out, 70)
    want = np.zeros((50, 70))
    np.add.at(want, ids, out)
    close(gradient, want)
