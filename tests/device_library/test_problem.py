"""weft/problem.cuh, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from device_library import run


@pytest.mark.parametrize("size", [2, 3, 7, 64, 1000003])
@pytest.mark.parametrize(("ctype", "bits"), [("int", 32), ("long long", 64)])
def test_quotients(size: int, ctype: str, bits: int) -> None:
    dtype = {32: np.int32, 64: np.int64}[bits]
    log = (size - 1).bit_length()
    magic = np.array(-(-(1 << (bits - 1 + log)) // size), f"u{bits // 8}").view(dtype)[()]
    most = np.iinfo(dtype).max
    x = np.array([0, 1, size - 1, size, size + 1, most // size * size - 1, most - 1, most], dtype)
    y = np.zeros_like(x)
    run("problem", f"quotients<{ctype}>", (1, 32), x, y, magic, dtype(log - 1), len(x))
    np.testing.assert_array_equal(y, x // size)


@pytest.mark.parametrize(("rows", "columns"), [(3, 5), (8, 2), (19, 4)])
def test_tiles(rows: int, columns: int) -> None:
    y = np.zeros((rows * columns, 2), np.int32)
    run("problem", "tiles", (1, 32), y, rows, columns)
    bands = [range(k, min(k + 8, rows)) for k in range(0, rows, 8)]
    np.testing.assert_array_equal(y, [(r, c) for b in bands for c in range(columns) for r in b])


def test_places_of_blocks() -> None:
    y = np.zeros((4, 3, 2), np.int64)
    run("problem", "blocks", ((2, 3, 4), 1), y)
    z, along, x = np.indices(y.shape)
    np.testing.assert_array_equal(y, x + 10 * along + 100 * z + 1000 * (along + 3 * z))
