"""Loads whose lanes are not neighbours: each lane gets its element, and nothing behind is read."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import weft

STRIDED = """
extern "C" __global__ void pick(const float* x, float* y, int first) {
    y[blockIdx.x * 32 + threadIdx.x] = x[APART * (blockIdx.x * 32 + threadIdx.x) + first] + 1;
}
"""
AT_THE_END = """
import ctypes, mmap, numpy as np, weft
page = mmap.PAGESIZE
memory = mmap.mmap(-1, 2 * page)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + page), ctypes.c_size_t(page), 0) == 0
x = np.frombuffer(memory, np.float32, page // 4)
x[:] = np.arange(len(x))
y = np.zeros(len(x) // 4, np.float32)
pick = weft.cuda({source!r}).pick
for _ in range(2):  # the place is known from the first launch on
    pick[len(y) // 32, 32](x, y, 3)
assert (y == x[3::4] + 1).all()
"""


@pytest.mark.parametrize("apart", [2, 3, 4, 5, 8])
def test_every_lane_has_its_element(apart: int) -> None:
    x, y = np.arange(64 * apart, dtype=np.float32), np.zeros(64, np.float32)
    pick = weft.cuda(STRIDED.replace("APART", str(apart))).pick
    for first in range(apart):
        pick[2, 32](x, y, first)
        np.testing.assert_array_equal(y, x[first::apart] + 1)


@pytest.mark.skipif(sys.platform == "win32", reason="protects a page by mprotect")
def test_nothing_behind_the_last_element_is_read() -> None:
    """The array ends where a page begins that cannot be read."""
    text = AT_THE_END.format(source=STRIDED.replace("APART", "4"))
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr or f"killed by signal {-done.returncode}"
