"""The cost model of reductions: loads in flight, rounds of loads, and the work of the host.

All constants were fitted to times on an H200: `benchmarks/records/rows_tuning.jsonl` has the
candidates of each call.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.kernels import cdiv
from weft.ops.core.plan import COUNTERS
from weft.ops.core.target import Target

BLOCK = 256
"""Threads of a block, except for rows that a block of WIDE_BLOCK threads has to itself."""
WIDE_BLOCK = 1024
"""Threads."""
LINE = 128
"""Bytes of a cache line."""
SECTOR = 32
"""Bytes of the smallest access to memory."""

# ---- all kernels -------------------------------------------------------------------------------
LOADS_IN_FLIGHT = 4
"""Vectors that a thread loads before it adds them."""
LOAD_LATENCY = 0.8e-6
"""Seconds in which these loads arrive."""
JOIN_HOST_TIME = 2e-6
"""Seconds of the host to pass counters and memory for partial results."""
START_TIME = 2e-6
"""Seconds from the start of a kernel to its first results."""
BYTES_IN_FLIGHT = 24
"""Bytes that each thread of a full GPU must have in flight for all of the bandwidth."""
L2_IN_FLIGHT = 0.3
"""Share of BYTES_IN_FLIGHT for a tensor that the L2 cache has."""

# ---- rows --------------------------------------------------------------------------------------
ROW_INSTRUCTIONS = 500
"""Instructions of a thread beside those for its vectors."""
ELEMENT_TIME = 1.5e-11
"""Seconds of an SM for an element of two bytes or more."""
BYTE_TIME = 7e-11
"""Seconds of an SM for an element of one byte."""
STATE_TIME = 1.1e-10
"""Seconds of an SM for an element of an operation with a state above 8 bytes (argmax, var)."""
LINE_VECTORS = 8
"""Vectors of a line of neighbours from which on a warp may have it."""
WIDE_ROW = 512
"""Vectors of a row from which on a block of WIDE_BLOCK threads may have it."""

# ---- planes in shared memory -------------------------------------------------------------------
PLANE_BYTES = 2048
"""Bytes of a plane: the most that a block reads through shared memory with others."""
PLANES_BYTES = 8192
"""Bytes of shared memory for the planes of a block."""
STAGED_BYTE_TIME = 0.35e-12
"""Seconds of the GPU for an element of one byte in shared memory."""
STAGED_TIME = 0.65e-12
"""Seconds of the GPU for a longer element in shared memory."""

# ---- columns -----------------------------------------------------------------------------------
ROW_BYTES = 16
"""Bytes of a row that a thread takes together, as one vector or as several loads."""
MOST_LOADS = 8
"""Loads of a row that a thread makes at the most."""
JOIN_TIME = 0.05e-6
"""Seconds in which the threads of a column halve their states, for each block of an SM."""
LAST_BLOCK_TIME = 1.5e-6
"""Seconds until the last block knows that it is the last."""
STATE_LOAD_TIME = 0.15e-6
"""Seconds in which a thread of the last block reads a state."""
SHORT_LINE_FACTOR = 1.3
"""Factor on the time of rows that are less than a line, in DRAM."""
ADDRESS_INSTRUCTIONS = 150
"""Instructions that find a group of columns of a strided tensor, and its results."""
THREAD_ELEMENTS = 32
"""Elements of a row up to which one thread may have all of them."""
PLANE_COLUMNS = 128
"""Columns of a plane below which a block may have columns of several planes."""


def seconds(gpu: Target, busy: float, join: bool = False) -> float:
    """Seconds of a launch that keeps the GPU busy so long: the host works on the next call then.

    join  True if blocks share their states through scratch
    """
    host = gpu.launch + (JOIN_HOST_TIME if join else 0)
    return max(host, START_TIME + busy) + busy / 100  # of equals, the one that needs the GPU less


def element_time(itemsize: int, state: bool) -> float:
    """Seconds of an SM for an element; `state`: the operation has more than 8 bytes of state."""
    return STATE_TIME if state else BYTE_TIME if itemsize == 1 else ELEMENT_TIME


def moving(gpu: Target, moved: float, blocks: int, flight: float) -> float:
    """Seconds to move so many bytes, with so many in flight per thread of each block."""
    resident = min(1.0, blocks * BLOCK / gpu.threads)
    needed = BYTES_IN_FLIGHT * (L2_IN_FLIGHT if moved < gpu.l2 / 2 else 1)
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
