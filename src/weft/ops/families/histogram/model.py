"""The cost model of histograms: loads, atomics with conflicts, and the merge of copies.

All constants were fitted by hand to times on an H200; the sweep
(`benchmarks/records/ops_sweep.jsonl`) has the times of random calls.
"""

from __future__ import annotations

from weft.ops.core.plan import Layout
from weft.ops.core.target import Target

BLOCK = 512
"""Threads of a block that counts."""
RANGE_BLOCK = 256
"""Threads of a block that finds the range."""
IN_FLIGHT = 4
"""Vectors that a thread loads before counting."""
BLOCKS_PER_SM = 4
"""Blocks: the most per SM."""
COPIES = (32, 16, 8, 4, 2, 1)
"""Copies of the bins in shared memory; with 32, lanes of a warp never conflict."""
SHARED_ADDS = 0.8e9
"""Warp-wide shared-memory atomics per second and SM, without conflicts."""
GLOBAL_ADDS = 5e10
"""Global-memory atomics per second."""
LATENCY = 1e-6
"""Seconds that a load takes when memory is busy."""
CLEAR_TIME = 5e-6
"""Seconds to fill a small buffer with zeros before a launch."""


def shared_time(gpu: Target, x: Layout, bins: int, copies: int, blocks: int) -> float:
    """Seconds of a launch that counts in shared memory."""
    busy = min(blocks, gpu.sms)
    under_way = blocks * BLOCK * IN_FLIGHT * 16 / LATENCY  # bytes per second
    conflicts = 32 / copies  # worst case: all lanes of a warp hit one bin
    adds = x.numel / 32 * conflicts / (busy * SHARED_ADDS)
    cleared = blocks / busy * bins * copies / 16 / SHARED_ADDS  # zeroed and read once
    added = bins * blocks / GLOBAL_ADDS
    moved = x.numel * x.itemsize / min(gpu.bandwidth, under_way)
    return gpu.launch + max(moved, adds) + cleared + added


def global_time(gpu: Target, elements: int) -> float:
    """Seconds of a launch that counts in global memory."""
    return gpu.launch + elements / GLOBAL_ADDS
