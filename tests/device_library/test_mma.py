"""weft/mma.cuh, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from device_library import run
from everyday import bfloat16, close, from_bfloat16, normal, random


def as_type(ctype: str, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest 16-bit numbers: as kernels take them, and as float64."""
    if ctype == "__half":
        return x.astype(np.float16), x.astype(np.float16).astype(np.float64)
    return bfloat16(x), from_bfloat16(bfloat16(x)).astype(np.float64)


@pytest.mark.parametrize("ctype", ["__half", "__nv_bfloat16"])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_product(ctype: str, transposed: bool) -> None:
    (a, wide_a), (b, wide_b) = (as_type(ctype, normal((16, 16), k)) for k in (1, 2))
    c = np.zeros((16, 16), np.float32)
    run("mma", f"product<{ctype}, {str(transposed).lower()}>", (1, 32), a, b, c)
    close(c, wide_a @ (wide_b if transposed else wide_b.T), atol=1e-5)


@pytest.mark.parametrize("ctype", ["__half", "__nv_bfloat16"])
def test_an_accumulator_becomes_an_operand(ctype: str) -> None:
    """Small integers, of which every product and sum is exact."""
    x = random(3).integers(-2, 3, (16, 16)).astype(np.float32)
    c = np.zeros((16, 8), np.float32)
    run("mma", f"chain<{ctype}>", (1, 32), as_type(ctype, x)[0], c)
    np.testing.assert_array_equal(c, x @ x.T @ x[:8].T)


def test_a_product_of_integers() -> None:
    a, b = (random(k).integers(-128, 128, (rows, 32)) for k, rows in ((6, 16), (7, 8)))
    a[0], b[0] = -128, -128
    c = np.zeros((16, 8), np.int32)
    run("mma", "integers", (1, 32), a.astype(np.int8), b.astype(np.int8), c)
    np.testing.assert_array_equal(c, a @ b.T)


def test_three_products_of_tf32_have_single_precision() -> None:
    a, b = normal((16, 8), 4), normal((8, 8), 5)
    c, rounded = np.zeros((16, 8), np.float32), np.zeros(32, np.uint32)
    run("mma", "exact", (1, 32), a, b, c, rounded)
    close(c, a.astype(np.float64) @ b, atol=3e-6)
    np.testing.assert_array_equal(
        rounded, (a.view(np.uint32).reshape(-1)[:32] + 0x1000) & 0xFFFFE000
    )


def test_eight_rows_lie_in_different_banks() -> None:
    y = np.zeros((4, 64, 16), np.uint32)
    run("mma", "places", (1, 32), y)
    for k, bytes_ in enumerate((32, 64, 128, 256)):
        places = y[k, :, : bytes_ // 16]
        assert sorted(places.reshape(-1)) == list(range(0, 64 * bytes_, 16)), "each place once"
        rows = places.reshape(8, 8, -1) // 16 % 8
        assert (np.sort(rows, 1) == np.arange(8)[:, None]).all()


@pytest.mark.parametrize("transposed", [False, True])
def test_matrices_are_stored_as_they_are_loaded(transposed: bool) -> None:
    x, y = random(9).normal(size=(16, 16)).astype(np.float16), np.zeros((16, 16), np.float16)
    run("mma", f"stored<{str(transposed).lower()}>", (1, 32), x, y)
    np.testing.assert_array_equal(y, x.T if transposed else x)
