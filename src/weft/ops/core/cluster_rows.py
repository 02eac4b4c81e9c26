"""Plan rows that the blocks of a cluster share: each keeps its part in shared memory."""

from __future__ import annotations

from dataclasses import dataclass

from weft.kernels import cdiv
from weft.ops.core.model import BLOCK_RESERVED
from weft.ops.core.rows import View
from weft.ops.core.target import Target

THREADS = 512
"""Threads of a block."""
LARGEST = 8
"""The most blocks of a cluster that every GPU with clusters takes."""
BLOCK_BYTES = 112 << 10
"""Bytes of a block's part of a row: two blocks share an SM, of which one loads while one stores."""
LEAST_BYTES = 64 << 10
"""Bytes of a row up to which one block has it in registers, and is faster."""
STATIC = 1024
"""Bytes of shared memory that the reductions of a block need."""
RATE = 0.70
"""Share of the bandwidth that clusters reach; fitted to `benchmarks/records/long_rows.jsonl`."""
SMALL_BYTES, SMALL_RATE = 48 << 10, 0.62
"""Bytes of a block's part below which they reach a smaller share, and that share."""
EXCHANGE = 2e-6
"""Seconds until the blocks of a cluster have exchanged their sums."""
BLOCK_RATE = 60e9
"""Bytes per second that a block reads and writes while others do little."""


@dataclass(frozen=True)
class ClusterRows:
    """The division of rows among clusters; a cluster has one row.

    blocks  blocks of a cluster
    each    vectors of a row that a block has
    shared  bytes of shared memory of a block
    rows    all rows
    """

    blocks: int
    each: int
    shared: int
    rows: int
    gpu: Target
    threads: int = THREADS

    @property
    def why(self) -> str:
        """The figures behind the time."""
        return f"{self.blocks} blocks per row, {self.shared >> 10} KiB of shared memory each"

    def time(self, moved: float) -> float:
        """Modelled seconds for `moved` bytes, without the launch."""
        gpu = self.gpu
        on_sm = max(1, min(3, gpu.shared_per_sm // (self.shared + STATIC + BLOCK_RESERVED)))
        waves = cdiv(self.rows * self.blocks, gpu.sms * on_sm)
        busy = waves * (moved / (self.rows * self.blocks) / BLOCK_RATE)
        rate = SMALL_RATE if self.shared < SMALL_BYTES else RATE
        return EXCHANGE + max(moved / (rate * gpu.bandwidth), busy)


def cluster_of(
    view: View, chunks: int, itemsize: int, gpu: Target, tensors: int = 1
) -> ClusterRows | None:
    """The division of rows of `chunks` vectors; None where no cluster can keep them."""
    vector = view.vector * itemsize
    if gpu.capability < (9, 0) or vector != 16 or chunks * vector <= LEAST_BYTES or not view.outer:
        return None
    size = vector * tensors
    blocks = 2
    while blocks < LARGEST and (
        chunks * size > blocks * BLOCK_BYTES or 2 * blocks * view.outer <= gpu.sms
    ):
        blocks *= 2
    each = cdiv(chunks, blocks)
    shared = cdiv(each, THREADS) * THREADS * size
    if shared > gpu.shared_per_block - STATIC:
        return None
    return ClusterRows(blocks, each, shared, view.outer, gpu)
