"""weft/row.cuh, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from device_library import run


@pytest.mark.parametrize(
    ("ctype", "v", "first", "n"), [("float", 4, 7, 21), ("float", 4, 8, 1), ("short", 8, 13, 40)]
)
def test_rows_that_begin_anywhere(ctype: str, v: int, first: int, n: int) -> None:
    """Elements before and behind the row keep their values."""
    dtype = {"float": np.float32, "short": np.int16}[ctype]
    x, y = np.arange(64).astype(dtype), np.full(64, 99, dtype)
    want, lead = y.copy(), first % v
    ends = np.clip(np.arange(-(-(lead + n) // v) + 1) * v - lead, 0, n)
    counts = np.zeros(len(ends) - 1, np.int32)
    run("row", f"elements<{ctype}, {v}, true>", (1, 4), x, y, counts, first, n)
    want[first : first + n] = x[first : first + n] + 1
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(counts, np.diff(ends))


def test_rows_of_whole_vectors() -> None:
    x, y, counts = np.arange(16, dtype=np.float32), np.zeros(16, np.float32), np.zeros(4, np.int32)
    run("row", "elements<float, 4, false>", (1, 2), x, y, counts, 0, 16)
    np.testing.assert_array_equal(y, x + 1)
    assert (counts == 4).all()


@pytest.mark.parametrize("shared", ["true", "false"])
@pytest.mark.parametrize(("even", "first", "n"), [("false", 11, 30), ("true", 16, 32)])
def test_packed_rows(even: str, first: int, n: int, shared: str) -> None:
    x = np.arange(64, dtype=np.float16)
    y, lead = np.zeros_like(x), first % 8
    ends = np.clip(np.arange(-(-(lead + n) // 8) + 1) * 8 - lead, 0, n) + first
    sums, want = np.zeros(len(ends) - 1, np.float32), y.copy()
    run("row", f"packed<__half, 8, {even}, {shared}>", (1, 32), x, y, sums, first, n)
    want[first : first + n] = x[first : first + n] + 1
    np.testing.assert_array_equal(y, want)
    total = np.concatenate([[0], x.astype(np.float64).cumsum()])
    np.testing.assert_array_equal(sums, total[ends[1:]] - total[ends[:-1]])
