"""Cost model of softmax: limits of the kernels, and constants of their modelled seconds.

The constants were fitted on an NVIDIA H200 to benchmarks/records/rows_tuning.jsonl.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core.model import SM_COPY_BANDWIDTH
from weft.ops.core.rows import BLOCK, View
from weft.ops.core.target import Target

FORWARD_VECTORS, BACKWARD_VECTORS = 8, 4
"""The most vectors of 16 bytes of each tensor that a thread keeps in registers."""
SHORT_COLUMN = 8
"""The most elements of a column that a thread keeps in registers."""
REREAD_VECTORS = 512
"""Vectors of a row above which it may be read twice."""


class Staged(NamedTuple):
    """Rows in shared memory.

    elements   the most of a row
    bytes      of a block's rows that are wanted
    most_bytes of a block's rows
    threads    of a block that has one long row
    column     seconds in which a group of threads finds the maximum and the sum of a row
    conflict   seconds for each element of a thread and each lane that meets it in a bank
    long_rows  relative time of rows of more than `long_bytes` bytes, which are faster in registers
    """

    elements: int
    bytes: int
    most_bytes: int
    threads: int
    column: float
    conflict: float
    long_rows: float
    long_bytes: int


STAGED = Staged(
    elements=32768, bytes=8192, most_bytes=96 * 1024, threads=1024, column=0.3e-6, conflict=4e-9,
    long_rows=1.4, long_bytes=1024,
)  # fmt: skip


class Loads(NamedTuple):
    """Loads of a column that a thread has in flight, and their latency in seconds."""

    in_flight: int
    latency: float


LOADS = Loads(in_flight=4, latency=0.5e-6)
RAGGED_ROWS = 1.3
"""Relative time of rows that are no whole vectors."""


class Rereading(NamedTuple):
    """Time relative to reading once and writing: from the L2, and from memory."""

    l2: float
    memory: float

    def time(self, moved: int, resident: float, gpu: Target) -> float:
        """Seconds for `moved` bytes, if the L2 must hold `resident` of them."""
        return (self.l2 if resident < gpu.l2 else self.memory) * moved / gpu.bandwidth


FORWARD_ROWS = Rereading(l2=1.1, memory=1.5)
FORWARD_COLUMNS = Rereading(l2=1.2, memory=1.5)
BACKWARD_ROWS = Rereading(l2=1.1, memory=5 / 3)
BACKWARD_COLUMNS = Rereading(l2=1.2, memory=5 / 3)
BACKWARD_BUSY = 1.5
"""Time of a block of columns relative to the forward pass: it reads two tensors."""


class Columns(NamedTuple):
    """Columns of a block, blocks, blocks that may share a column, seconds of the busiest SM."""

    width: int
    tiles: int
    parts: int
    busy: float


def columns_of(view: View, size: int, gpu: Target) -> Columns:
    """The division of columns of elements of `size` bytes among blocks."""
    width = min(view.inner, BLOCK)
    while width > 32 and view.outer * cdiv(view.inner, width) < 4 * gpu.sms:
        width //= 2
    tiles = view.outer * cdiv(view.inner, width)
    rows = BLOCK // width
    moving = 2 * view.n * width * size / SM_COPY_BANDWIDTH
    waiting = 2 * cdiv(view.n, LOADS.in_flight * rows) * LOADS.latency
    busy = max(moving, waiting) * cdiv(tiles, 8 * gpu.sms)
    return Columns(width, tiles, min(cdiv(8 * gpu.sms, tiles), cdiv(view.n, 4 * rows)), busy)
