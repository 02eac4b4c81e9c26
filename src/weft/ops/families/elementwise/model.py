"""The cost model of elementwise kernels: traffic in sectors, issue slots, and tiles.

Rates were estimated from the figures of an H200 and then fitted to times of each strategy there:
`benchmarks/records/rows_tuning.jsonl` has those calls.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft.ops.families.elementwise.jobs import (
    EACH,
    SHIFTED,
    BroadcastOperand,
    ElementwiseJob,
    footprint,
)

WORD = 4
"""Bytes of a word: shorter accesses take as long."""
SECTOR = 32
"""Bytes of a memory access."""
LINE = 128
"""Bytes of an L1 cache line."""

# ---- flat --------------------------------------------------------------------------------------
FLAT_BYTES = 5.3
"""Bytes that each thread of `flat` must load for all of the bandwidth."""
SHORT_LOAD_FACTOR = 1.1
"""Factor on the time of loads of a word, or of less than 16 bytes per thread."""

# ---- strided -----------------------------------------------------------------------------------
IN_FLIGHT = 32
"""Bytes of an operand that a thread of `strided` has in flight."""
L1_BYTES = 16384
"""Bytes of an operand that stay in L1 while the others stream through."""
L1_LINES = 400
"""Lines of an operand that blocks read in turns and that stay in L1."""
SCATTERED_FACTOR = 1.2
"""Factor on the time of elements whose neighbours in memory the same block has."""
L2_SECTOR_FACTOR = 0.65
"""Time of a sector in L2, relative to one in DRAM."""
APART_FACTOR = 0.2
"""Share of time that vectors of distant elements add, for each doubling from a word on."""
STREAM_SIZE = 16
"""Elements: innermost sizes up to which each position is a stream of its own."""

# ---- transposed --------------------------------------------------------------------------------
TILE_FILL = 1.25
"""Elements of a tile for each one that exists, up to which empty ones cost nothing."""
TILE_TIME = 1.5e-6
"""Seconds of a block that transposes a tile."""
TILES_PER_SM = 8
"""Blocks of an SM at a time."""
TILE_FACTOR = 1.08
"""Time of a transposed tile relative to a copy."""
RAGGED_TILE_FACTOR = 1.12
"""The same without vector accesses, which cause partial sectors and more requests."""
THIN_TILE = 8
"""Elements of a dimension below which most threads of a tile have none."""
THIN_TILE_FACTOR = 2.0
"""Factor on the time of such tiles."""
TILE_ELEMENTS = {1: 16384, 2: 4096, 4: 4096, 8: 2048}
"""Elements of a tile, by the bytes of the widest element."""
TILE_SIDE = {1: 128, 2: 64, 4: 64, 8: 32}
"""Elements of the longer side of a tile, by the same; the other side follows from the area."""


def traffic(job: ElementwiseJob, modes: Sequence[int], covered: int) -> float:
    """Bytes moved in whole sectors; a block of `covered` elements fetches each of its sectors once.

    Scattered elements fetch a sector each, unless the block has their neighbours in memory as well
    and the L1 cache holds them so long.
    """
    total = float(job.n * job.out_itemsize)
    for operand, mode in zip(job.operands, modes, strict=True):
        bytes_read, step = footprint(operand, job.sizes), operand.strides[-1]
        scattered = mode == EACH and step > 1 and not _streams(operand, job.sizes)
        if scattered and bytes_read > L1_BYTES:
            inside = _inside(operand, job.sizes)
            near = max(1, covered // inside) if inside <= L1_LINES else 1
            total += bytes_read * max(
                SCATTERED_FACTOR, L2_SECTOR_FACTOR * min(SECTOR // operand.itemsize, step) / near
            )
            continue
        total += bytes_read
    return total


def _inside(operand: BroadcastOperand, sizes: Sequence[int]) -> int:
    """Elements of the output between two neighbours in an operand's memory."""
    for dim in reversed(range(len(sizes))):
        if operand.strides[dim] == 1:
            return math.prod(sizes[dim + 1 :])
    return math.prod(sizes)


def unrolled(job: ElementwiseJob, vector: int) -> int:
    """Vectors of a thread of `strided`."""
    widest = max(job.out_itemsize, *(o.itemsize for o in job.operands))
    return max(1, min(4, IN_FLIGHT // (vector * widest)))


def issued(job: ElementwiseJob, modes: Sequence[int], vector: int) -> float:
    """Issue slots of all threads; L1 lookups count as the slots that they block."""
    count = 6.0 + 6 * len(job.sizes) / vector
    for operand, mode in zip(job.operands, modes, strict=True):
        if mode != EACH:
            count += (24 if mode == SHIFTED else 3) / vector
            continue
        cached = footprint(operand, job.sizes) <= L1_BYTES
        if operand.strides[-1] > 1 and not cached:  # a line for each lane, unless they meet
            count += 6 + 1.1 * min(32, _inside(operand, job.sizes))
            continue
        lines = 1 if cached else max(1, min(32, vector * operand.itemsize * 32 // LINE))
        count += 6 + 4 * lines
    return job.n * count


def apart_cost(job: ElementwiseJob, modes: Sequence[int], vector: int) -> float:
    """The cost of vectors whose elements are far apart in an operand, relative to single elements.

    Lanes that take neighbours reach each part of memory together.
    """
    widest = max(job.out_itemsize, *(o.itemsize for o in job.operands))
    apart = any(
        mode == EACH
        and footprint(o, job.sizes) > L1_BYTES
        and (_short(o, job.sizes, vector) or (o.strides[-1] > 1 and not _streams(o, job.sizes)))
        for o, mode in zip(job.operands, modes, strict=True)
    )
    # Elements that are sectors apart gain nothing from being a word together.
    far = any(
        m == EACH and o.strides[-1] * o.itemsize >= SECTOR and footprint(o, job.sizes) > L1_BYTES
        for o, m in zip(job.operands, modes, strict=True)
    )
    together = vector * widest / (widest if far else WORD)
    return 1 + APART_FACTOR * math.log2(together) if (apart or far) and together > 1 else 1


def _short(operand: BroadcastOperand, sizes: Sequence[int], vector: int) -> bool:
    """True if a vector has several rows of neighbours, with larger gaps between them."""
    inner = sizes[-1]
    return len(sizes) > 1 and 1 < inner < vector and operand.strides[-2] >= 2 * inner


def _streams(operand: BroadcastOperand, sizes: Sequence[int]) -> bool:
    """True if each position along the innermost dimension is a row of neighbours in memory."""
    return sizes[-1] <= STREAM_SIZE and len(sizes) > 1 and operand.strides[-2] in (0, 1)
