"""weft/block.cuh, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from device_library import run
from everyday import close, normal, random


@pytest.mark.parametrize("threads", [16, 32, 96, 256])
def test_reductions(threads: int) -> None:
    x, y = normal(threads, threads), np.zeros((4, threads), np.float32)
    run("block", f"reductions<{threads}>", (1, threads), x, y)
    total = x.astype(np.float64).sum()
    close(y[0], np.full(threads, total))
    np.testing.assert_array_equal(y[1], np.full(threads, x.max()))
    np.testing.assert_array_equal(y[2], np.full(threads, -x.min()))
    close(y[3], np.full(threads, total * threads), rtol=1e-5)


def test_the_last_block_sees_what_all_have_written() -> None:
    x, counter, y = (
        random(1).integers(0, 99, 7 * 64).astype(np.int32),
        np.zeros(1, np.int32),
        np.zeros(1, np.int32),
    )
    for _ in range(2):  # the counter is 0 again after a launch
        run("block", "total", (7, 64), x, np.zeros(7, np.int32), counter, y)
        assert (y[0], counter[0]) == (x.sum(), 0)


def test_named_barriers() -> None:
    x, y = random(2).integers(0, 99, 32).astype(np.int32), np.zeros((2, 32), np.int32)
    run("block", "hand_over", (1, 128), x, y)
    np.testing.assert_array_equal(y, [2 * x[::-1]] * 2)


@pytest.mark.parametrize("ctype", ["unsigned", "unsigned long long"])
def test_words_between_blocks(ctype: str) -> None:
    told = np.zeros(9, np.uint32 if ctype == "unsigned" else np.uint64)
    run("block", f"chain<{ctype}>", (9, 1), told)
    np.testing.assert_array_equal(told, 1 + np.arange(9).cumsum())
