"""weft/vector.cuh, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from device_library import run
from everyday import random

TYPES = {"float": np.float32, "unsigned char": np.uint8, "short": np.int16, "double": np.float64}


@pytest.mark.parametrize(
    ("ctype", "n"), [("float", 4), ("float", 1), ("short", 4), ("unsigned char", 2), ("double", 4)]
)
def test_load_and_store(ctype: str, n: int) -> None:
    x = random(n).integers(0, 100, 8 * n).astype(TYPES[ctype])
    y = np.zeros_like(x)
    run("vector", f"copy<{ctype}, {n}>", (1, 8), x, y, len(x))
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize(("ctype", "n"), [("float", 1), ("short", 4), ("unsigned char", 16)])
def test_loads_past_the_l1_cache(ctype: str, n: int) -> None:
    x = random(n).integers(0, 100, 8 * n).astype(TYPES[ctype])
    y = np.zeros_like(x)
    run("vector", f"copy_once<{ctype}, {n}>", (1, 8), x, y)
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize(
    ("ctype", "n"), [("short", 8), ("float", 2), ("short", 2), ("unsigned char", 1)]
)
def test_loads_of_some_lanes(ctype: str, n: int) -> None:
    x = random(n).integers(0, 100, 5 * n).astype(TYPES[ctype])
    y = np.zeros(8 * n, x.dtype)
    run("vector", f"copy_if<{ctype}, {n}>", (1, 8), x, y, x.dtype.type(7), len(x))
    np.testing.assert_array_equal(y, [*x, *[7] * (3 * n)])


@pytest.mark.parametrize(("ctype", "n"), [("short", 4), ("short", 1), ("double", 2)])
def test_fill(ctype: str, n: int) -> None:
    x = np.arange(1, 4).astype(TYPES[ctype])
    y = np.zeros(3 * n, x.dtype)
    run("vector", f"filled<{ctype}, {n}>", (1, 3), x, y)
    np.testing.assert_array_equal(y, np.repeat(x, n))


def test_loads_between_vectors() -> None:
    x, y = np.arange(8, dtype=np.float32), np.zeros((3, 4), np.float32)
    run("vector", "shifted", (1, 1), x, y)
    np.testing.assert_array_equal(y, [x[k : k + 4] for k in (1, 2, 3)])


def test_funnel_shift() -> None:
    x, y = np.arange(32, dtype=np.uint8), np.zeros((16, 16), np.uint8)
    run("vector", "funnel", (1, 16), x.view(np.uint32), y.view(np.uint32))
    np.testing.assert_array_equal(y, [x[k : k + 16] for k in range(16)])


def test_opaque_changes_no_value() -> None:
    y, z, f = (np.zeros(1, dtype) for dtype in (np.int32, np.int64, np.float32))
    run("vector", "hidden", (1, 1), y, z, f)
    assert (y[0], z[0], f[0]) == (12, 5 << 40, 1.5)
