"""The cost model of scans: seconds of a launch, of look-back, and of turns along a column.

All constants were fitted by hand to times on an H200; the sweep
(`benchmarks/records/ops_sweep.jsonl`) has the times of random calls.
"""

from __future__ import annotations

from weft.kernels import cdiv
from weft.ops.core.target import Target

BLOCK = 256
"""Threads of a block, except for rows that a block has to itself."""
ROW_ELEMENTS = 32
"""Elements of a row: the most that a thread has in registers."""
TILES_PER_GROUP = 64
"""Tiles of a long row whose states a tile reads one by one; see `tiles` in scan.cu."""
COLUMN_ELEMENTS = 8
"""Elements along n for each thread of the column kernel."""
SHORT_COLUMN = 8
"""Elements of a column up to which one thread scans it, without other candidates."""
MEDIUM_COLUMN = 32
"""Elements of a column up to which one thread may scan it, beside other candidates."""
COLUMN_BYTES = 128
"""Bytes of columns that a thread has in registers."""
LATENCY = 1.5e-6
"""Seconds from a block's first load to its last store when the GPU does little."""
LOOK_BACK_TIME = 0.8e-6
"""Seconds until a block sees the state that another block has published."""
CLEAR_TIME = 5e-6
"""Seconds to fill a small buffer with zeros before a launch."""
SM_BANDWIDTH = 50e9
"""Bytes per second that one SM reads and writes when others do little."""
L2_SHARE = 0.4
"""Share of the time of DRAM that a second read takes if the L2 cache has the tensor."""


def launch_time(gpu: Target, moved: int, blocks: int, threads: int, registers: int) -> float:
    """Seconds of a launch of blocks of so many threads that moves so many bytes once."""
    warps = min(gpu.threads_per_sm, 65536 // registers) // 32
    resident = max(1, warps // cdiv(threads, 32))
    waves = cdiv(blocks, gpu.sms * resident)
    side_by_side = min(resident, cdiv(blocks, gpu.sms))
    each = moved / blocks * side_by_side / SM_BANDWIDTH
    return gpu.launch + max(moved / gpu.bandwidth, waves * (LATENCY + each))
