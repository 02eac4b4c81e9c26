"""Limits of embedding's kernels, and their modelled seconds.

The times are memory traffic and launches (`core.target.Target`). The limits were set by hand on an
NVIDIA H200.
"""

from __future__ import annotations

from weft.kernels import cdiv
from weft.ops.core.plan import Layout
from weft.ops.core.target import Target

FORWARD_BLOCK, BACKWARD_BLOCK = 256, 128
"""Threads of a block of the forward pass, and of the gradient from sorted positions."""
PIECE, PIECES = 32, 4096
"""The least positions in a piece, and the pieces from which on they grow."""
UNSORTED = 4096
"""Positions up to which they are not sorted, which takes several launches; as in table.cu."""
TABLE = 12288
"""Floats of the tables that a block has in shared memory; as in table.cu."""
TABLE_ROWS = TABLE // BACKWARD_BLOCK
"""Rows of a table up to which positions are not sorted: each block adds to tables of its own."""
RESIDENT = 4
"""Blocks of an SM that have such tables at once."""
SHARED_POSITIONS = 4
"""Positions of a row from which on several threads share them."""
VECTORS = 8
"""Vectors that a thread writes if rows have few positions."""


def gather_time(index: Layout, columns: int, itemsize: int, gpu: Target) -> float:
    """Seconds to read and write the rows of all positions."""
    return gpu.launch + 2 * index.numel * columns * itemsize / gpu.bandwidth


def gradient_time(
    positions: int, rows: int, columns: int, itemsize: int, launches: int, gpu: Target
) -> float:
    """Seconds to read the rows of all positions and to write the table."""
    return launches * gpu.launch + (positions + rows) * columns * itemsize / gpu.bandwidth


def tables_of(rows: int, columns: int, vector: int) -> tuple[int, int, int]:
    """(threads of a block, elements per access, accesses per row) whose tables fit in a block."""
    threads = FORWARD_BLOCK if rows * FORWARD_BLOCK <= TABLE else BACKWARD_BLOCK
    while rows * threads * vector > TABLE:
        vector //= 2
    return threads, vector, min(threads, 1 << (cdiv(columns, vector) - 1).bit_length())


def block_of(positions: int, rows: int, chunks: int, sms: int) -> tuple[int, int, int]:
    """(rows of the table that a block writes, vectors of each, threads that share a vector)."""
    if positions < SHARED_POSITIONS * rows:
        width = min(chunks, VECTORS * FORWARD_BLOCK)
        most = cdiv(rows, SHARED_POSITIONS * sms)
        return max(1, min(VECTORS * FORWARD_BLOCK // width, most)), width, 1
    width = min(FORWARD_BLOCK, 1 << (chunks - 1).bit_length())
    while width > VECTORS and rows * cdiv(chunks, width) < 2 * sms:
        width //= 2
    threads = 1
    while threads < FORWARD_BLOCK // width and threads * SHARED_POSITIONS < positions // rows:
        threads *= 2
    return 1, width, threads
