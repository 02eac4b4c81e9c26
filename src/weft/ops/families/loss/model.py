"""The cost model of losses: seconds of a launch, and the limits that its kernels were tuned to.

The constants were fitted by hand to times on an H200. Of cross_entropy,
`benchmarks/records/rows_tuning.jsonl` has calls with the times of each candidate.
"""

from __future__ import annotations

from weft.kernels import cdiv
from weft.ops.core.target import Target

# ---- rows of classes ---------------------------------------------------------------------------
REGISTER_VECTORS = 8
"""Vectors of 16 bytes: the most that a thread has in registers."""
SHARED_VECTORS = 12
"""Vectors of 16 bytes: the most that a thread has in shared memory."""
SM_BANDWIDTH = 50e9
"""Bytes per second that one SM reads and writes when others do little."""
WIDE_BLOCK = 512
"""Threads of a row from which on at most two blocks share an SM."""
WIDE_BLOCK_FACTOR = 1.45
"""Factor on the time of a loss alone in such blocks, relative to a stream: they wait for rows."""
BLOCKS_PER_SM = 32
"""Blocks per SM, above which blocks of short rows take several groups of rows each."""
BLOCK_LABELS = 2048
"""Labels: the most whose weights every block sums by itself; more are summed by a launch before."""
LONE_BANDWIDTH = 20e9
"""The same of a block whose SM has no other: it waits for its row, then for sums of its threads."""
JOIN_TIME = 1.5e-6
"""Seconds of a second launch that adds losses, which starts early."""
FEW_ROWS_WARPS = (16, 8)
"""Warps of a block that has all rows alone, and of those of a cluster unless that has too few."""
FEW_ROWS_SAVED = 1.8e-6
"""Seconds that a cluster saves beside blocks that wait for labels, then for each other's sums."""

# ---- columns of classes ------------------------------------------------------------------------
THREAD_CLASSES = 4
"""Classes: the most of the kernel with one thread for a label."""
TRANSPOSED_CLASSES = 256
"""Classes from which on those that are not contiguous may be transposed into rows."""
LOADS_IN_FLIGHT = 4
"""Loads of a thread in flight."""
LOAD_LATENCY = 1e-6
"""Seconds in which these loads arrive."""
RESIDENT_BLOCKS = 8
"""Blocks of an SM at a time."""
SECTOR = 32
"""Bytes of a memory access."""


def stream_time(gpu: Target, moved: float, launches: int = 1) -> float:
    """Seconds of launches that move so many bytes at full bandwidth."""
    return launches * gpu.launch + moved / gpu.bandwidth


def row_time(gpu: Target, moved: float, rows: int, threads: int, gradient: bool) -> float:
    """Seconds of one launch with rows on chip: the slower of the GPU and its busiest SM."""
    # A row on one SM: few rows leave most SMs idle.
    rate = LONE_BANDWIDTH if threads >= WIDE_BLOCK and rows <= gpu.sms else SM_BANDWIDTH
    busy = moved / max(rows, 1) / rate * cdiv(rows, gpu.sms * max(1, 1024 // threads))
    # A block that has an SM to itself waits for its row; a loss alone need not keep the row.
    factor = WIDE_BLOCK_FACTOR if threads >= WIDE_BLOCK and not gradient else 1.0
    return gpu.launch + max(factor * moved / gpu.bandwidth, busy)


def few_rows_time(gpu: Target, moved: float, blocks: int) -> float:
    """Seconds of one launch whose blocks have all rows at once."""
    return gpu.launch - FEW_ROWS_SAVED + moved / blocks / SM_BANDWIDTH


def column_time(
    gpu: Target, moved: float, classes: int, threads: int, blocks: int, gradient: bool
) -> float:
    """Seconds of one launch in which `threads` threads share the classes of a label."""
    rounds = cdiv(classes, threads * LOADS_IN_FLIGHT) * LOAD_LATENCY * (1 + gradient)
    waves = cdiv(blocks, RESIDENT_BLOCKS * gpu.sms)
    return gpu.launch + max(moved * (1 + 2 * gradient) / gpu.bandwidth, waves * rounds)
