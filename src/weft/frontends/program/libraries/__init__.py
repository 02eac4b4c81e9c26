"""Calls of NVIDIA's libraries, computed with NumPy on the program's memory.

    blas.py      cuBLAS
    matmul.py    cuBLASLt
    factors.py   batched LU factors of cuBLAS
    fft.py       cuFFT

A module has `OPERATIONS`: name -> function of the numbers that the runtime library passes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.frontends.program.libraries import factors, fft, matmul

_OPERATIONS: dict[str, Callable[[Sequence[int]], int]] = {
    **matmul.OPERATIONS,
    **factors.OPERATIONS,
    **fft.OPERATIONS,
}


def compute(name: str, numbers: Sequence[int]) -> int:
    """Executes one call; returns the status of its library."""
    return _OPERATIONS[name](numbers)
