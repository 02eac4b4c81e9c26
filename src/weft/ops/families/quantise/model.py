"""The cost model of quantise: the bytes that its launches move, and the SMs that move them.

No constant has been fitted: the bandwidths are those of the target and of `core/model.py`.
"""

from __future__ import annotations

from weft.ops.core.model import SM_COPY_BANDWIDTH
from weft.ops.core.target import Target

WARP = 32
MOST_LANES = 1024
"""Threads of a segment: as many as a block may have."""
MOST_EACH = 8
"""Vectors of a thread that stay in registers."""
FEW_EACH = 4
"""Vectors of a thread, as long as more threads can share a segment."""
BLOCK = 256
"""Threads of a block with several segments, or with a part of one; see quantise.cu."""
PART_VECTORS = 8
"""Vectors of a thread of such a part at least."""


def lanes_of(vectors: int) -> tuple[int, int] | None:
    """(threads of a segment, vectors of each) of so many vectors; None if they are too many."""
    lanes = 1
    while lanes < WARP and lanes < vectors:
        lanes *= 2
    while lanes < MOST_LANES and lanes * FEW_EACH < vectors:
        lanes *= 2
    each = -(-vectors // lanes)
    return (lanes, each) if each <= MOST_EACH else None


def moving_time(gpu: Target, moved: float, blocks: int) -> float:
    """Seconds of a launch that moves so many bytes by so many blocks."""
    rate = min(gpu.bandwidth, SM_COPY_BANDWIDTH * min(blocks, gpu.sms))
    return gpu.launch + moved / rate
