"""weft/tma.cuh, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import everyday
import weft
from devices import current
from everyday import random


def numbers(shape: tuple[int, ...], *key: int) -> np.ndarray:
    return random(*key).integers(-99, 99, shape).astype(np.float32)


def kernel(name: str) -> Any:
    return weft.cuda(everyday.SOURCES / "device_library" / "tma.cu").kernel(name)


@pytest.mark.parametrize(
    ("rank", "add"), [(1, False), (2, False), (2, True), (3, False), (4, False), (5, False)]
)
def test_boxes_of_every_rank(rank: int, add: bool) -> None:
    """The last box is partly outside."""
    shape, box = (2, 3, 2, 3, 40)[-rank:], (2, 3, 2, 3, 16)[-rank:]
    nbytes, before = 4 * int(np.prod(box)), numbers(shape, rank, 1)
    x, y = current.array(numbers(shape, rank)), current.array(before.copy())
    maps = (weft.tensor_map(a, box=box) for a in (x, y))
    kernel(f"boxes<{rank}, {nbytes}, {str(add).lower()}>")[3, 32, nbytes](*maps, 16)
    weft.synchronize()
    np.testing.assert_array_equal(current.read(y), current.read(x) + before * add)


def test_a_copy_for_two_blocks() -> None:
    x, y = current.array(numbers((64,), 7)), current.array(np.zeros((2, 64), np.float32))
    kernel("halves")[2, 64, 0, None, 2](weft.tensor_map(x, box=(32,)), y)
    weft.synchronize()
    np.testing.assert_array_equal(current.read(y), [current.read(x)] * 2)


def test_pixels_of_a_window() -> None:
    """The pixels that a window of 3 x 3 sees at its right, lower element; 0 beyond the border."""
    images = numbers((2, 4, 5, 4), 8)
    x, y = current.array(images), current.array(np.zeros((2, 4, 5, 4), np.float32))
    seen = weft.im2col_map(x, lower=(-1, -1), upper=(-1, -1), channels=4, pixels=40)
    kernel("pixels")[1, 32, seen.nbytes](seen, y, 160, 2, 2)
    weft.synchronize()
    want = np.pad(images, ((0, 0), (0, 1), (0, 1), (0, 0)))[:, 1:, 1:]
    np.testing.assert_array_equal(current.read(y), want)


def test_bytes_without_a_map() -> None:
    x, y = current.array(np.arange(320, dtype=np.uint8)), current.array(np.zeros(320, np.uint8))
    kernel("plain_bytes")[1, 64, 320](x, y, 304)
    weft.synchronize()
    want = np.where(np.arange(320) < 304, current.read(x), 0)
    np.testing.assert_array_equal(current.read(y), want)
