"""Limits of embedding's kernels, and their modelled seconds.

The times are memory traffic and launches (`core.target.Target`). The limits were set by hand on an
NVIDIA H200; `benchmarks/records/short_kernels.jsonl` has the times of 128 to 4,096 blocks that
list positions.
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
"""Positions up to which the threads of a block share those of a row; as in table.cu."""
LISTED = 24576
"""Positions up to which blocks list those of their rows: to sort them takes several launches."""
LISTED_BLOCK, LISTED_BLOCKS = 512, (256, 4096)
"""Threads of such a block, and the least blocks and the most: powers of two."""
LISTED_INDICES = 4 << 20
"""Indices that all blocks read together, at the most."""
LISTED_ROWS = 110
"""Rows of the table that are worth a block: the next blocks start when others have listed."""
LISTED_BYTES = 100 << 10
"""Bytes of shared memory: the most of such a block."""
TABLE = 12288
"""Floats of the tables that a block has in shared memory; as in table.cu."""
TABLE_ROWS = TABLE // BACKWARD_BLOCK
"""Rows of a table up to which positions are not sorted: each block adds to tables of its own."""
RESIDENT = 4
"""Blocks of an SM that have such tables at once."""
SHARED_POSITIONS = 4
"""Positions of a row from which on several threads share them."""
LEAST_WIDTH = 8
"""Vectors of a row that are worth a block."""


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


def block_of(positions: int, rows: int, chunks: int, sms: int) -> tuple[int, int]:
    """(vectors of a row of the table that a block writes, threads that share a vector)."""
    width = min(FORWARD_BLOCK, 1 << (chunks - 1).bit_length())
    while width > LEAST_WIDTH and rows * cdiv(chunks, width) < 2 * sms:
        width //= 2
    threads = 1
    while threads < FORWARD_BLOCK // width and threads * SHARED_POSITIONS < positions // rows:
        threads *= 2
    return width, threads


def is_listed(positions: int, rows: int) -> bool:
    """True if blocks have memory for the positions of their rows."""
    shift, _ = lists_of(positions, rows, 1)
    return positions <= LISTED and list_bytes(positions, rows, shift) <= LISTED_BYTES


def lists_of(positions: int, rows: int, chunks: int) -> tuple[int, int]:
    """(the logarithm of the blocks for rows, vectors of a row that a block writes)."""
    least, most = LISTED_BLOCKS
    blocks = least
    while 2 * blocks <= min(most, rows // LISTED_ROWS, LISTED_INDICES // max(positions, 1)):
        blocks *= 2
    shift = min(blocks.bit_length() - 1, (max(rows, 1) - 1).bit_length())
    beside = max(1, min(least >> shift, chunks // LEAST_WIDTH))
    return shift, cdiv(chunks, beside)


def list_bytes(positions: int, rows: int, shift: int) -> int:
    """Shared memory of a block that lists positions: the ends of its rows, two lists."""
    return 4 * cdiv(rows, 1 << shift) + 4 * positions
