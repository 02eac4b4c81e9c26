"""Indices `row * width + column` where several rows of a block are in one warp."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.device.sim.analyse.form import SPARSE, STRIPED
from weft.device.sim.analyse.prepare import prepare
from weft.kernels import Kernel
from weft.ptx.parse import parse

SOURCE = r"""
extern "C" __global__ void values(int* out, int width, int shift, int turns) {
    int c = threadIdx.x, r = threadIdx.y, n = blockDim.x * blockDim.y;
    int i = r * width + c + shift;
    int* at = out + r * (int)blockDim.x + c;
    at[0] = i;
    at[n] = (r * width - c) << 3;
    at[2 * n] = c - r * width;
    at[3 * n] = i * 5 - 7;
    for (int k = 0; k < turns; ++k) i += k & 1 ? width : shift;
    at[4 * n] = i;
    at[5 * n] = (int)((long long)i * 3 >> 16);
    at[6 * n] = i > 100 ? i : r * width;
}

extern "C" __global__ void copy(int* to, const int* from, int into, int out_of, int least) {
    int c = threadIdx.x, r = threadIdx.y;
    int i = r * out_of + c;
    if (i >= least) to[r * into + c] = from[i] + 1;
}
"""
BLOCKS = [(16, 16), (8, 8), (16, 3), (4, 16), (32, 4)]


@pytest.fixture(scope="module")
def kernels() -> dict[str, Kernel]:
    module = weft.cuda(SOURCE)
    return {name: module.kernel(name) for name in ("values", "copy")}


@pytest.mark.parametrize("block", BLOCKS)
def test_values_wrap_as_integers_of_32_bits(
    kernels: dict[str, Kernel], block: tuple[int, int]
) -> None:
    columns, rows = block
    r, c = np.divmod(np.arange(columns * rows, dtype=np.int64), columns)
    for width, shift, turns in [
        (40, 3, 0),
        (0, -1, 2),
        (-17, 5, 3),
        (1 << 30, 9, 5),
        (1, 2**31 - 1, 1),
    ]:
        out = np.zeros((7, columns * rows), np.int32)
        kernels["values"][1, block](out, width, shift, turns)
        i = r * width + c + shift
        later = i + sum(width if k & 1 else shift for k in range(turns))
        short = later.astype(np.int32).astype(np.int64)
        expected = [
            i, (r * width - c) << 3, c - r * width, i * 5 - 7, later, (short * 3) >> 16,
            np.where(short > 100, short, r * width),
        ]  # fmt: skip
        np.testing.assert_array_equal(out, np.array([x.astype(np.int32) for x in expected]))


@pytest.mark.parametrize("block", [(16, 16), (8, 8)])
def test_such_an_index_is_kept_as_two_scalars(block: tuple[int, int]) -> None:
    module = parse(weft.cuda(SOURCE).ptx.text)
    program = prepare(module, module.functions["copy"], (*block, 1))
    assert any(form.kind == STRIPED for form in program.forms.values())
    assert all(form.kind != SPARSE for form in program.forms.values())


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("into", [50, 8, 0, 1])
def test_rows_are_stored_in_the_order_of_lanes(
    kernels: dict[str, Kernel], block: tuple[int, int], into: int
) -> None:
    columns, rows = block
    source = np.arange(rows * 60, dtype=np.int32)
    for least in (0, 70):  # all lanes, or a part of the warp
        out = np.zeros(rows * 50 + columns, np.int32)
        kernels["copy"][1, block](out, source, into, 60, least)
        expected = np.zeros_like(out)
        for r in range(rows):
            for c in range(columns):
                if r * 60 + c >= least:
                    expected[r * into + c] = source[r * 60 + c] + 1
        np.testing.assert_array_equal(out, expected)


def test_an_index_that_wraps_reaches_a_row_in_range(kernels: dict[str, Kernel]) -> None:
    out, source = np.zeros(16 * 50, np.int32), np.arange(16, dtype=np.int32)
    kernels["copy"][1, (16, 16)](out, source, 50, -(1 << 31), 0)  # every second row is row 0
    rows = out.reshape(16, 50)[:, :16]
    np.testing.assert_array_equal(rows[::2], np.broadcast_to(source + 1, (8, 16)))
    assert not rows[1::2].any()


@pytest.mark.parametrize(("missing", "thread"), [(1, (15, 15)), (16, (0, 15)), (61, (15, 14))])
def test_the_first_lane_outside_is_named(
    kernels: dict[str, Kernel], missing: int, thread: tuple[int, int]
) -> None:
    source = np.arange(15 * 60 + 16 - missing, dtype=np.int32)
    with pytest.raises(weft.IllegalAddress, match=rf"thread \({thread[0]}, {thread[1]}, 0\)"):
        kernels["copy"][1, (16, 16)](np.zeros(16 * 50, np.int32), source, 50, 60, 0)
