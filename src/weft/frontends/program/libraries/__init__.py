"""Calls of NVIDIA's libraries, computed with NumPy on the program's memory.

    blas.py      cuBLAS
    matmul.py    cuBLASLt
    factors.py   batched LU factors of cuBLAS
    fft.py       cuFFT
    solver.py    cuSOLVER
    sparse.py    cuSPARSE
    dnn.py       cuDNN; dnn_layers.py, dnn_tensors.py

A module has `OPERATIONS`: name -> function of the numbers that the runtime library passes. Names of
cuDNN begin with `dnn.`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.frontends.program.libraries import dnn, factors, fft, matmul, solver, sparse

_OPERATIONS: dict[str, Callable[[Sequence[int]], int]] = {
    **matmul.OPERATIONS,
    **factors.OPERATIONS,
    **fft.OPERATIONS,
    **solver.OPERATIONS,
    **sparse.OPERATIONS,
}


def compute(name: str, numbers: Sequence[int]) -> int:
    """Executes one call; returns the status of its library."""
    library, _, operation = name.rpartition(".")
    return dnn.compute(operation, numbers) if library else _OPERATIONS[name](numbers)
