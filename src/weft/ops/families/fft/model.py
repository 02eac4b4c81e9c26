"""The cost model of Fourier transforms: limits of a block, instructions of stages, and of passes.

All constants were fitted by hand to times on an H200, or follow from its sizes; the sweep
(`benchmarks/records/ops_sweep.jsonl`) has the times of random calls. An element is a complex number
of 8 bytes, an instruction one of a thread.
"""

from __future__ import annotations

from collections.abc import Sequence

# ---- stages of a block -------------------------------------------------------------------------
LARGEST_RADIX = 16
"""The largest radix, unless it is a prime or saves a stage of a long transform."""
LONG_RADIX = 32
"""The largest radix of transforms of more than LONG_TRANSFORM elements."""
LONG_TRANSFORM = 2048
"""Elements."""
THREAD_ELEMENTS = 20
"""Elements: the most that a thread has in registers, unless radices are larger."""
BLOCK_THREADS = 1024
"""Threads: the most of a transform."""
PASS_ELEMENTS = 4096
"""Elements of the longest transform in a pass of several: a block has four, which fill a sector."""
BLOCK_ELEMENTS = 16384
"""Elements of the longest transform of one block: they are in shared memory."""
ROOT_INSTRUCTIONS = 8
"""Instructions to multiply an element by a root of unity."""
EXCHANGE_INSTRUCTIONS = 2
"""Instructions for an element that goes through shared memory between two stages."""
STAGE_INSTRUCTIONS = 12
"""Instructions of a butterfly after the first stage, to find its elements."""
REGISTER_PENALTY = 0.03
"""Share of the time that each element of a thread above FREE_REGISTER_ELEMENTS adds."""
FREE_REGISTER_ELEMENTS = 16
"""Elements of a thread that leave enough registers for full occupancy."""
SMALL_GROUP_FACTOR = 1.3
"""Factor on the time of more than 32 elements by fewer than 8 threads."""
IDLE_PENALTY = 4
"""Instructions that a thread with fewer than 8 elements adds for each element."""

# ---- blocks ------------------------------------------------------------------------------------
PASS_THREADS = 128
"""Threads of a block that several short transforms share."""
COLUMN_COUNTS = (16, 8, 4, 2, 1)
"""Transforms of a block that are compared."""
SMALL_BLOCK = 64
"""Threads below which a block is too small."""
ROW_THREADS = 256
"""Threads of a row of adjacent transforms, below which blocks go on to the next row."""
SECTOR_ELEMENTS = 4
"""Adjacent elements that fill a sector: from as many on, threads read them in place."""

# ---- passes ------------------------------------------------------------------------------------
BALANCED_INSTRUCTIONS = 100
"""Instructions for each element that take as long as reading and writing it."""
LAUNCH_ELEMENTS = 750_000
"""Elements that a pass reads and writes in the time of a launch."""
FACTORINGS = 8
"""Factorings, and lengths of a convolution, that are compared."""
CANDIDATES = 4
"""Factorings that become candidates, at the most."""
MOST_STRIDE = 16
"""Elements: the largest stride that is read in place; rows share their sectors."""


def pass_cost(instructions: Sequence[float], elements: int) -> float:
    """Elements moved in the time of all passes, each with so many instructions for an element."""
    return sum(
        LAUNCH_ELEMENTS + elements * max(1.0, each / BALANCED_INSTRUCTIONS) for each in instructions
    )


def convolution_cost(n: int, elements: int, count: int, down: float, along: float) -> float:
    """The same of `count` convolutions of n elements in matrices of `elements`.

    down, along  instructions for an element of a column, and of a row
    """
    # The first pass reads, and the last one writes, n elements of the matrix.
    ends = max(n + elements, 2 * down / BALANCED_INSTRUCTIONS * elements)
    rows = elements * max(1.0, 2 * along / BALANCED_INSTRUCTIONS)
    return 3 * LAUNCH_ELEMENTS + count * (ends + rows)
