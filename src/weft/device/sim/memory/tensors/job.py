"""One copy of a tensor's box: a job.

A job has the shape of an entry of `bulk_list`, so that issuing it copies it there. It holds host
addresses, and which indices of the box are inside the tensor. `plan` computes it from a tensor map
and coordinates.
"""

from __future__ import annotations

from weft.device.sim.memory.bulk_list import PendingCopies


class TensorJob:
    """Fields of a job, behind those of every entry. A line is one run of the innermost dimension,
    or one slice of channels.

    LOWEST, SPAN     the bytes of the tensor that the copy touches (before it is an entry)
    FOOTPRINT        bytes of shared memory that it touches (the same)
    ORIGIN           the address of the box's first element, inside the tensor or not
    WINDOW, OFFSET   the shared memory of the block whose copy it is, and the box in it
    LINE, PITCH      bytes of a line, and from line to line in shared memory
    LOW, HIGH        the bytes of a line that are inside the tensor
    FILL, END        the bits that a load writes for what is outside, or the address behind the last
                     byte that a store may write
    JUMPS, COUNTS, LOWS, HIGHS   tiled: for the other dimensions, bytes from index to index, indices
                     of the box, and the range of those that are inside the tensor
    WALK             im2col: for W, H, D and N, the rows of `Walk`
    """

    LOWEST, SPAN = PendingCopies.TARGET, PendingCopies.SOURCE
    NBYTES, FOOTPRINT = PendingCopies.NBYTES, PendingCopies.KIND
    ORIGIN, WINDOW = PendingCopies.ENTRY, PendingCopies.ENTRY + 8
    OFFSET, LINE, PITCH, MASK, LOW, HIGH, TYPE, LINES = range(56, 88, 4)
    FILL = END = 88
    JUMPS, COUNTS, LOWS, HIGHS = 96, 128, 144, 160
    WALK = 96
    SIZE = 256


class Walk:
    """One dimension of the pixels of an im2col copy: position, corners, step, offset, tensor."""

    POSITION, FIRST, LAST, STEP, SHIFT = 0, 4, 8, 12, 16
    DIM, STRIDE = 24, 32
    SIZE = 40
    DIMENSIONS = 4


class Refusal:
    """Reasons to refuse a copy; `run.failures.tensors` has the sentences."""

    NOT_A_MAP, RANK, MODE, BASE, INNER, SWIZZLED, SHARED, TYPE, COORDINATE = range(1, 10)
    NEGATIVE, INTERLEAVE = 10, 11
