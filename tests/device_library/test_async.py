"""weft/async.cuh, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from device_library import run
from everyday import random

SIZES = {"int": 4, "int2": 8, "int4": 16}


def pieces(ctype: str, n: int) -> np.ndarray:
    return random(n).integers(1, 2**31, (n, SIZES[ctype] // 4)).astype(np.int32)


@pytest.mark.parametrize("ctype", SIZES)
def test_groups_and_zeros(ctype: str) -> None:
    x = pieces(ctype, 128)
    y, want = np.zeros_like(x), x.reshape(2, 64, -1).copy()
    run("async", f"reversed<{ctype}>", (1, 64), x, y, 40)
    want[:, 40:] = 0
    np.testing.assert_array_equal(y.reshape(want.shape), want[:, ::-1])


@pytest.mark.parametrize("ctype", SIZES)
def test_copies_without_groups(ctype: str) -> None:
    x = pieces(ctype, 128)
    y = np.zeros_like(x)
    run("async", f"all<{ctype}>", (1, 64), x, y)
    np.testing.assert_array_equal(y.reshape(2, 64, -1), x.reshape(2, 64, -1)[:, ::-1])


@pytest.mark.parametrize("ctype", SIZES)
def test_parts(ctype: str) -> None:
    size = SIZES[ctype]
    x = pieces(ctype, size + 1)
    y = np.zeros_like(x)
    run("async", f"parts<{ctype}>", (1, size + 1), x, y)
    want = np.where(np.arange(size) < np.arange(size + 1)[:, None], x.view(np.uint8), 0)
    np.testing.assert_array_equal(y.view(np.uint8), want)
