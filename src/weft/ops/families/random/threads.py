"""The geometry of torch's random kernels on a GPU, which decides the number of each element.

torch launches a grid of `256 * blocks` threads. Each has its own subsequence of Philox numbers, and
takes elements again and again until all have been served. The kernels of weft use the same numbers
with grids of their own.
"""

from __future__ import annotations

from weft.kernels import cdiv
from weft.ops.core.target import Target

BLOCK = 256


def blocks(n: int, target: Target) -> int:
    """The blocks of torch's grid for n elements."""
    return min(cdiv(n, BLOCK), target.sms * (target.threads_per_sm // BLOCK))


def advance(n: int, target: Target) -> int:
    """The distance by which a call for n elements moves the generator's offset."""
    return 4 * cdiv(n, 4 * BLOCK * blocks(n, target)) if n else 0
