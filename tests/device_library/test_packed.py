"""weft/packed.cuh, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from device_library import run
from everyday import bfloat16, from_bfloat16, normal


def half(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return x.astype(np.float16).view(np.uint16)


def from_half(bits: np.ndarray) -> np.ndarray:
    return bits.view(np.float16).astype(np.float32)


TYPES = {"__half": (half, from_half), "__nv_bfloat16": (bfloat16, from_bfloat16)}


@pytest.mark.parametrize("ctype", TYPES)
def test_words(ctype: str) -> None:
    to, back = TYPES[ctype]
    x = normal((20, 2), 1)
    words, floats = np.zeros(20, np.uint32), np.zeros_like(x)
    run("packed", f"words<{ctype}>", (1, 20), x, words, floats)
    np.testing.assert_array_equal(words.view(np.uint16), to(x).reshape(-1))
    np.testing.assert_array_equal(floats, back(to(x)))


def test_a_float_is_its_own_word() -> None:
    x = normal((20, 2), 2)
    words, floats = np.zeros(20, np.uint32), np.zeros_like(x)
    run("packed", "words<float>", (1, 20), x, words, floats)
    np.testing.assert_array_equal(words, np.ascontiguousarray(x[:, 0]).view(np.uint32))
    np.testing.assert_array_equal(floats, x[:, [0, 0]])


def test_saturation() -> None:
    x = np.array([[1e6, -1e6], [np.inf, 65519], [0.1, -2]], np.float32)
    y = np.zeros(3, np.uint32)
    run("packed", "saturated", (1, 3), x, y)
    np.testing.assert_array_equal(y.view(np.uint16), half(np.clip(x, -65504, 65504)).reshape(-1))


@pytest.mark.parametrize("ctype", TYPES)
@pytest.mark.parametrize("n", [8, 3])
def test_vectors_are_mapped(ctype: str, n: int) -> None:
    """The last word of an odd vector has one element; the other half becomes 0."""
    to, back = TYPES[ctype]
    width = n + n % 2
    x = to(normal((4, width), n))
    y, first = np.ones_like(x), np.zeros(4, np.float32)
    run("packed", f"mapped<{ctype}, {n}>", (1, 4), x.view(np.uint32), y.view(np.uint32), first)
    want = to(back(x) * np.arange(1, width + 1, dtype=np.float32))
    want[:, n:] = 0
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(first, back(x)[:, 0])
