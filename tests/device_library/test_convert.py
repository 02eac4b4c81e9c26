"""weft/convert.cuh, against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from device_library import run
from everyday import bfloat16, from_bfloat16, normal


def half(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float16)


def widened(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32)


TYPES: dict[str, tuple[Callable[..., np.ndarray], Callable[..., np.ndarray]]] = {
    "__half": (half, widened),
    "__nv_bfloat16": (bfloat16, from_bfloat16),
    "float": (widened, widened),
}
"""C++ type -> (the nearest numbers, as an array that kernels take; the floats again)."""


def numbers(n: int) -> np.ndarray:
    """Random ones, ties of both 16-bit types, and both zeros."""
    return np.concatenate(
        [[0, -0.0, 1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-8, 3e-6], normal(n - 6, n)]
    )


@pytest.mark.parametrize("ctype", TYPES)
def test_single_elements(ctype: str) -> None:
    x = numbers(40).astype(np.float32)
    to, back_to = TYPES[ctype]
    want = to(x)
    y, back, bits = np.zeros_like(want), np.zeros(40, np.float32), np.zeros(40, np.uint32)
    run("convert", f"one<{ctype}>", (1, 64), x, y, back, bits, 40)
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(bits, want.view(f"u{want.itemsize}"))
    np.testing.assert_array_equal(back, back_to(want))


@pytest.mark.parametrize(("ctype", "n"), [("__half", 8), ("__half", 1), ("__nv_bfloat16", 2)])
def test_vectors(ctype: str, n: int) -> None:
    x = numbers(40).astype(np.float32)
    to, back_to = TYPES[ctype]
    want = to(x)
    y, back = np.zeros_like(want), np.zeros(40, np.float32)
    run("convert", f"many<{ctype}, {n}>", (1, 40 // n), x, y, back)
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(back, back_to(want))


@pytest.mark.parametrize("ctype", ["__half", "__nv_bfloat16"])
def test_larger_and_smaller_elements(ctype: str) -> None:
    x = np.concatenate([[np.inf, 0.0], normal(30, 5)]).astype(np.float32)
    to, back_to = TYPES[ctype]
    a, b = to(x), to(np.append(x[1:], -0.0).astype(np.float32))
    a[-1] = np.float16(np.nan) if ctype == "__half" else 0x7FFF
    larger, smaller = np.zeros_like(a), np.zeros_like(a)
    run("convert", f"extremes<{ctype}>", (1, 32), a, b, larger, smaller)
    np.testing.assert_array_equal(back_to(larger), np.maximum(back_to(a), back_to(b)))
    np.testing.assert_array_equal(back_to(smaller), np.minimum(back_to(a), back_to(b)))


def test_other_types_are_cast() -> None:
    y = np.zeros(3, np.int32)
    run("convert", "integers", (1, 3), np.array([1.9, -1.9, 7]), y)
    np.testing.assert_array_equal(y, [1, -1, 7])
