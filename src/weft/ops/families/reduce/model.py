"""Models the time of reductions: loads in flight, rounds of loads, and the work of the host."""

from __future__ import annotations

from collections.abc import Sequence

from weft.kernels import cdiv
from weft.ops.core.plan import COUNTERS
from weft.ops.core.target import Target

BLOCK = 256
"""Threads of a block, except for rows that a block of WIDE threads has to itself."""
WIDE = 1024
TURNS, ROUND = 4, 0.8e-6
"""Loads in flight per thread, and their latency in seconds."""
JOIN = 2e-6
"""Seconds of the host to pass counters and memory for partial results."""
START = 2e-6
"""Seconds from the start of a kernel to its first results."""
IN_FLIGHT, NEAR = 24, 0.3
"""Bytes that each thread of a full GPU must have in flight for all of the bandwidth, and the share
of them for a tensor that the L2 cache has."""


def seconds(gpu: Target, busy: float, join: bool = False) -> float:
    """Seconds of a launch that keeps the GPU busy so long: the host works on the next call then.

    join  True if blocks share their states through scratch
    """
    host = gpu.launch + (JOIN if join else 0)
    return max(host, START + busy) + busy / 100  # of equals, the one that needs the GPU less


def moving(gpu: Target, moved: float, blocks: int, flight: float) -> float:
    """Seconds to move so many bytes, with so many in flight per thread of each block."""
    resident = min(1.0, blocks * BLOCK / gpu.threads)
    needed = IN_FLIGHT * (NEAR if moved < gpu.l2 / 2 else 1)
    return moved / gpu.bandwidth / min(1.0, resident * flight / needed)


def parts_of(
    rows: int, chunks: int, gpu: Target, least: int = 4 * BLOCK, wanted: Sequence[int] = (4,)
) -> list[int]:
    """Options for blocks per row: so many for each SM, with some vectors per thread."""
    if rows > COUNTERS:
        return [1]
    options = {min(cdiv(blocks * gpu.sms, rows), chunks // least) for blocks in wanted}
    return [1, *sorted(parts for parts in options if parts > 1)]


def power(number: int) -> int:
    """The least power of two that is at least this number."""
    return 1 << max(0, number - 1).bit_length()
