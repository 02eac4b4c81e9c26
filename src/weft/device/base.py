"""What the simulated GPU and the real one have in common: the values that a launch passes."""

from __future__ import annotations

from typing import Any, NamedTuple

Dim3 = tuple[int, int, int]
"""Sizes along x, y and z, as CUDA's dim3."""


class LaunchConfig(NamedTuple):
    """The execution configuration of a launch; `shared_bytes` is dynamic shared memory."""

    grid: Dim3
    block: Dim3
    shared_bytes: int = 0


class Allocation(NamedTuple):
    """Memory that a launch may access.

    dtype  of its elements, as the array's library reports it; None where only the bytes are known
    shape  of a contiguous array, for messages; () where there is none
    """

    address: int
    nbytes: int
    writable: bool
    name: str
    dtype: Any = None
    shape: tuple[int, ...] = ()


class Place(NamedTuple):
    """The real GPU that the arrays of a launch are on, and which stream the launch uses.

    device   the number of the GPU
    library  the array library whose current stream is used; "" for none
    stream   the stream that the first array asks for, where its library reports one
    """

    device: int
    library: str
    stream: int | None
