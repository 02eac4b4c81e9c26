"""The cost model of sampling: passes of one block over a row, with an assumed rate.

The rate is an estimate for Hopper and was not fitted to a record: there is one candidate for every
call, so that no choice depends on it.
"""

from __future__ import annotations

from weft.kernels import cdiv
from weft.ops.core.target import Target

SHORT = 4096
"""Logits of a row that a block of few threads draws from."""
SHORT_THREADS = 128
"""Threads of a block for a short row; a barrier of few warps is quicker."""
LONG_THREADS = 1024
"""Threads of a block for a long row: the most there can be."""
SM_BANDWIDTH = 1e11
"""Bytes per second that one SM loads from L2."""
PASSES = 6
"""Passes over a row, with the k most probable tokens of a mass."""


def threads(tokens: int) -> int:
    """Threads of a block for rows of so many logits."""
    return SHORT_THREADS if tokens <= SHORT else LONG_THREADS


def draw_time(gpu: Target, rows: int, row_bytes: int) -> float:
    """Seconds of a launch that draws a token of each row."""
    return gpu.launch + cdiv(rows, gpu.sms) * PASSES * row_bytes / SM_BANDWIDTH
