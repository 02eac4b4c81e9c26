"""weft/pipeline.cuh, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import everyday
import weft
from devices import current
from everyday import random


@pytest.mark.parametrize("steps", [1, 3, 8])
def test_a_ring_of_stages(steps: int) -> None:
    x = random(steps).integers(-9, 9, (steps, 64)).astype(np.float32)
    given, y = current.array(x.ravel()), current.array(np.full(64, np.nan, np.float32))
    kernel = weft.cuda(everyday.SOURCES / "device_library" / "pipeline.cu").kernel("products")
    with weft.sanitize():
        kernel[1, 96](weft.tensor_map(given, box=(64,)), y, steps)
    weft.synchronize()
    np.testing.assert_array_equal(current.read(y), (x[1:] * x[:-1]).sum(0))


def test_a_turn_skips_stages() -> None:
    y = current.array(np.zeros(64, np.int32))
    kernel = weft.cuda(everyday.SOURCES / "device_library" / "pipeline.cu").kernel("skipped")
    for before in (0, 2):
        kernel[1, 32](y, before)
        weft.synchronize()
        got = current.read(y).reshape(32, 2)[before:]
        steps = np.arange(before, 32)
        np.testing.assert_array_equal(got, np.stack([steps % 3, steps // 3 % 2], 1))
