"""weft/math.cuh, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from device_library import run
from everyday import bfloat16, close, from_bfloat16, normal, random


def some() -> tuple[np.ndarray, np.ndarray]:
    a, b = normal(32, 1), normal(32, 2)
    a[:3], b[:3] = [np.nan, 1, np.inf], [2, np.nan, -np.inf]
    return a, b


def test_pairs() -> None:
    a, b = some()
    larger, smaller, total, quotient = (np.zeros_like(a) for _ in range(4))
    run("math", "pairs", (1, 32), a, b, larger, smaller, total, quotient)
    np.testing.assert_array_equal(larger, np.maximum(a, b))
    np.testing.assert_array_equal(smaller, np.minimum(a, b))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(total, a + b)
        close(quotient, a.astype(np.float64) / b, rtol=3e-7)


@pytest.mark.parametrize("ctype", ["int", "double"])
def test_operations_of_other_types(ctype: str) -> None:
    dtype = {"int": np.int32, "double": np.float64}[ctype]
    a, b = random(3).integers(-9, 9, (2, 32)).astype(dtype)
    larger, smaller = np.zeros_like(a), np.zeros_like(a)
    run("math", f"functors<{ctype}>", (1, 32), a, b, larger, smaller)
    np.testing.assert_array_equal(larger, np.maximum(a, b))
    np.testing.assert_array_equal(smaller, np.minimum(a, b))


def test_of_equal_numbers_the_first() -> None:
    a, b = np.array([0.0, -0.0]), np.array([-0.0, 0.0])
    larger, smaller = np.ones(2), np.ones(2)
    run("math", "functors<double>", (1, 2), a, b, larger, smaller)
    np.testing.assert_array_equal(np.signbit([larger, smaller]), [[False, True]] * 2)


def test_packed_pairs() -> None:
    a, b = some()
    for to, back, which in (
        (lambda x: x.astype(np.float16).view(np.uint16), lambda x: x.view(np.float16), 0),
        (lambda x: np.where(np.isnan(x), 0x7FFF, bfloat16(x)).astype(np.uint16), from_bfloat16, 1),
    ):
        found = np.zeros((2, 16), np.uint32)
        run("math", "packed", (1, 16), to(a).view(np.uint32), to(b).view(np.uint32), *found)
        got = back(found[which].view(np.uint16)).astype(np.float32)
        np.testing.assert_array_equal(got, np.maximum(back(to(a)), back(to(b))).astype(np.float32))


def test_functions() -> None:
    x = np.linspace(0.01, 20, 32, dtype=np.float32)
    y, wide = np.zeros((5, 32), np.float32), x.astype(np.float64)
    run("math", "functions", (1, 32), x, y)
    close(y[0], np.exp2(wide), rtol=3e-7)
    close(y[1], np.log2(wide), rtol=3e-7, atol=3e-7)
    close(y[2], 1 / wide, rtol=2e-7)
    close(y[3], np.sqrt(wide), rtol=2e-7)
    assert (y[4] == -np.inf).all()
