"""The cost model of the loss of a linear layer: its chunks, and seconds of its own kernels.

Products are modelled by the family `matmul`. Constants were fitted by hand to times on an H200,
benchmarks/records/fused_ops.jsonl.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core.target import Target

LEAST_ROWS = 1024
"""Rows of a chunk that is chosen, at the least: each one reads and writes the sums of the weight's
gradient."""
MOST_CHUNKS = 32
"""Chunks of a call: each has launches of its own."""
ROW_TILE = 128
"""Rows of a tile of a product: chunks are multiples of it."""
SLOWER = 1.12
"""The time that may be given for less memory, relative to the least."""
SUMS = 0.8
"""Share of the time of sums in memory that their products do not cover (fused_ops.jsonl)."""
REGISTER_VECTORS = 8
"""Vectors of 16 bytes: the most that a thread of a row has in registers."""
ROW_THREADS = (64, 128, 256, 512)
"""Threads of a row, of which the first are taken whose registers have all of it."""
ROWS_TIME = 1.6
"""Time of the losses of rows relative to their bytes at full bandwidth (fused_ops.jsonl)."""
LONG_ROW = 3
"""Rows so many times as long as the registers of the most threads get twice as many threads: what
all rows on the GPU read again stays in the L2 cache."""


def chunk_sizes(rows: int) -> list[int]:
    """Rows of a chunk to choose from, the last one all."""
    least = cdiv(max(LEAST_ROWS, cdiv(rows, MOST_CHUNKS)), ROW_TILE) * ROW_TILE
    found = [least]
    while found[-1] < rows:
        found.append(2 * found[-1])
    return [*found[:-1], max(rows, 1)]


class Choice(NamedTuple):
    """Rows of a chunk, with the modelled seconds and the bytes of scratch of a call."""

    rows: int
    time: float
    memory: float


def least_memory(choices: Sequence[Choice]) -> Choice:
    """The least memory that costs little time; the faster one of equals."""
    limit = SLOWER * min(choice.time for choice in choices)
    fast = [choice for choice in choices if choice.time <= limit]
    return min(fast, key=lambda choice: (choice.memory, choice.time))


def row_threads(vectors: int) -> int:
    """Threads for a row of so many vectors."""
    most = ROW_THREADS[-1]
    if vectors > LONG_ROW * most * REGISTER_VECTORS:
        return 2 * most
    return next((t for t in ROW_THREADS if vectors <= t * REGISTER_VECTORS), most)


def stream_time(gpu: Target, moved: float) -> float:
    """Seconds of a launch that moves so many bytes at full bandwidth."""
    return gpu.launch + moved / gpu.bandwidth
