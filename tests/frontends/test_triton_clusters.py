"""Triton programs that are clusters of blocks: `num_ctas`."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import weft


@triton.jit
def centre(x, sums, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + i, mask=i < n, other=0.0)
    tl.store(sums + row, tl.sum(values))
    tl.store(x + row * n + i, values - tl.max(values), mask=i < n)


@pytest.mark.parametrize("ctas", [2, 4])
def test_a_program_is_a_cluster(ctas: int) -> None:
    rows = np.random.default_rng(ctas).integers(-9, 9, (3, 1000)).astype(np.float32)
    x, sums = torch.from_numpy(rows.copy()), torch.zeros(3)
    weft.kernel(centre, device="sim:h200")[3,](x, sums, 1000, BLOCK=1024, num_ctas=ctas)
    np.testing.assert_array_equal(sums.numpy(), rows.sum(1))
    np.testing.assert_array_equal(x.numpy(), rows - rows.max(1, keepdims=True))
