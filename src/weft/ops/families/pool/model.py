"""The cost model of pooling: bytes, instructions, and loads that wait for each other.

All constants were fitted to times on an H200: `benchmarks/records/pool_candidates.jsonl` has the
modelled and the measured time of each candidate. An instruction is one of a thread.
"""

from __future__ import annotations

from typing import NamedTuple

# ---- one place or a few per thread -------------------------------------------------------------
VECTOR_BYTES = 16
"""Bytes of the widest access."""
REGISTER_ELEMENTS = 64
"""Elements: the most that a thread has in registers."""
SCATTERED_FACTOR = 1.15
"""Factor on the time of windows that are read element by element, relative to vectors."""
WARP = 32
"""Threads that share a large window."""
LOAD_TIME = 50e-9
"""Seconds of a load of a thread."""
WARP_JOIN_TIME = 0.5e-6
"""Seconds to join what the threads of a warp have."""
CHANNELS_LAST_LOADS = 4
"""Factor on the time of a load if channels are last: threads of a place share no sectors."""
OVERLAPPED_LOAD = 0.25
"""Share of the time of a load of another plane, which does not wait for the first."""
PLANE_ELEMENTS = 8
"""Elements: the most of several planes that a thread has."""
ADAPTIVE_INSTRUCTIONS = 250
"""Instructions to find an adaptive window."""
PLACE_INSTRUCTIONS = 50
"""Instructions of a thread of `windows`."""
TAP_INSTRUCTIONS = 14
"""Instructions of a tap."""
ELEMENT_INSTRUCTIONS = 8
"""Instructions of an element of a tap."""
MAX_INSTRUCTIONS = 2
"""The same of a maximum whose place is not saved."""
STRIP_INSTRUCTIONS = 100
"""Instructions of a thread with several windows."""
STRIP_TAP_INSTRUCTIONS = {"max": 6.5, "mean": 5.0}
"""Instructions of a tap that windows of a thread share."""
DISJOINT_TAP_INSTRUCTIONS = 5.0
"""Instructions of a tap of one window."""
SHORT_ACCESS = 0.02
"""Share of the time that an access below VECTOR_BYTES adds, for each halving of its bytes."""
STRIP_WAIT = 4e-9
"""Seconds of an instruction of a thread that few others run beside; fitted to 3 x 64 planes of
112 x 112 in benchmarks/records/short_kernels.jsonl."""
STRIP_FACTOR = 1.04
"""Factor on the time of strips, relative to a stream."""

# ---- through shared memory ---------------------------------------------------------------------
CHUNK_MIN_BYTES = 4096
"""Bytes of a block's part of the input: the least that is worth a block."""
CHUNK_BYTES = 24 * 1024
"""Bytes of a block's part of the input: the most; eight such blocks share an SM."""
TASK_READS = 256
"""Elements: the most that a task reads, because its loops are unrolled."""
TASK_INSTRUCTIONS = 40
"""Instructions of a task."""
START_TIME = 0.8e-6
"""Seconds until the first block reads."""
ARRIVAL_TIME = 0.6e-6
"""Seconds until the part of a block has arrived."""
TASK_TIME = 0.3e-6
"""Seconds of a task without reads."""
READ_TIME = 5e-9
"""Seconds of a read of shared memory by a task."""
DEPENDENT_READ_TIME = 60e-9
"""Seconds of a read that waits for the one before, as in windows of any size."""
BLOCKS_PER_SM = 8
"""Blocks that share an SM."""
RUN_BYTES = 128
"""Bytes of neighbours in memory that a block should copy together."""
SECTOR = 32
"""Bytes of a memory access."""
SEGMENT_INSTRUCTIONS = 40
"""Instructions to copy a segment, by as many threads as it has vectors."""
COPY_INSTRUCTIONS = 30
"""Instructions to copy an element."""


class TaskCost(NamedTuple):
    """Instructions of a task through shared memory, for each read and for each result."""

    read: int
    result: int


TASK_COSTS = {"max": TaskCost(read=3, result=10), "mean": TaskCost(read=6, result=18)}
