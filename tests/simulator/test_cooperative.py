"""Barriers of the whole grid: in every front end, and grids that are too large for one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from numba import cuda

import weft
from everyday import load

ROUNDS = 3
TOO_MANY = 300
"""The number of blocks of 1,024 threads that an H200 holds at once."""


@cuda.jit
def numba_rounds(sums, rounds):  # type: ignore[no-untyped-def]
    grid = cuda.cg.this_grid()
    for k in range(rounds):
        if cuda.threadIdx.x == 0:
            cuda.atomic.add(sums, k, 1)
        grid.sync()
        if sums[k] != cuda.gridDim.x:
            sums[rounds] = -1


@triton.jit
def triton_rounds(sums, rounds):  # type: ignore[no-untyped-def]
    for k in range(rounds):
        tl.atomic_add(sums + k, 1)
        while tl.atomic_add(sums + k, 0) < tl.num_programs(0):
            pass


def _cuda(blocks: int, threads: int) -> np.ndarray[Any, Any]:
    sums = np.zeros(ROUNDS + 1, np.int32)
    load("deadlocks").grid_sync[blocks, threads](sums, ROUNDS)
    return sums


def _numba(blocks: int, threads: int) -> np.ndarray[Any, Any]:
    sums = np.zeros(ROUNDS + 1, np.int32)
    weft.kernel(numba_rounds)[blocks, threads](sums, ROUNDS)
    return sums


def _triton(blocks: int, threads: int) -> np.ndarray[Any, Any]:
    sums = torch.zeros(ROUNDS + 1, dtype=torch.int32)
    kernel = weft.kernel(triton_rounds)
    kernel[blocks](sums, ROUNDS, num_warps=threads // 32, launch_cooperative_grid=True)
    return sums.numpy()


FRONT_ENDS = {"cuda": _cuda, "numba": _numba, "triton": _triton}


@pytest.mark.parametrize("shape", [(1, 32), (20, 64), (264, 1024)], ids=str)
@pytest.mark.parametrize("end", FRONT_ENDS)
def test_every_block_waits_for_all(end: str, shape: tuple[int, int]) -> None:
    assert FRONT_ENDS[end](*shape).tolist() == [shape[0]] * ROUNDS + [0]


@pytest.mark.parametrize("end", FRONT_ENDS)
def test_a_grid_that_is_too_large(end: str) -> None:
    with pytest.raises(weft.LaunchError, match="too many blocks for a cooperative launch") as error:
        FRONT_ENDS[end](TOO_MANY, 1024)
    assert "300 blocks of 1024 threads" in str(error.value) and "264, which" in str(error.value)
