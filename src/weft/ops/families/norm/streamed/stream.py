"""Plan gradients of many rows by blocks that stay, with the rows to come on their way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.kernels import cdiv
from weft.ops.core.model import BLOCK_RESERVED
from weft.ops.core.plan import Argument, Step
from weft.ops.families.norm import model
from weft.ops.families.norm.rows import RowJob

VECTOR_BYTES = 16
"""Bytes of a vector of a row, of its gradient in the same dtype, and of the gradient of a sum."""
STATIC = 1024
"""Bytes of shared memory that the reductions of a block need."""


@dataclass(frozen=True)
class RowStream:
    """The work of blocks of streamed_backward.cu.

    read       bytes of a vector of all tensors that are read
    threads    of a row: up to 32, or those of a block
    block      threads of a block
    resident   blocks of an SM
    registers  vectors of a row that a thread has
    most       rows on their way, if they fit
    """

    made: RowJob
    read: int
    threads: int
    block: int
    resident: int
    registers: int
    most: int

    @property
    def stages(self) -> int:
        """Rows on their way."""
        gpu = self.made.request.target
        room = min(gpu.shared_per_sm // self.resident - BLOCK_RESERVED, gpu.shared_per_block)
        return min(self.most, (room - STATIC - self._weights) // self._stage)

    @property
    def grid(self) -> int:
        """Blocks that stay until all rows are done."""
        rows = self.block // self.threads
        return min(self.resident * self.made.request.target.sms, cdiv(self.made.count, rows))

    @property
    def shared(self) -> int:
        """Bytes of shared memory: the rows of a ring, and the weights."""
        return self.stages * self._stage + self._weights

    @property
    def _stage(self) -> int:
        return self.read * self.registers * self.block

    @property
    def _weights(self) -> int:
        elements = self.threads * self.registers * self.made.vector
        return elements * int(self.made.weight.itemsize)

    @property
    def why(self) -> str:
        """The figures behind the time."""
        return (
            f"{self.grid} blocks, {self.threads} threads per row with {self.registers} vectors "
            f"each, {self.stages} rows on their way"
        )

    def step(
        self, flags: Sequence[object], tensors: Sequence[Argument],
        narrow: Sequence[Argument] = (None,) * 4,
    ) -> Step:  # fmt: skip
        """The launch; its first scratch buffer receives the sums of blocks.

        flags    the template parameters after the shape of the work
        tensors  dy, x, the weight, the statistics, the gradient of the sum and dx
        narrow   gradients of another dtype, and dx in that dtype
        """
        made = self.made
        shape = (self.threads, self.block, self.resident, self.registers, self.stages)
        kernel = made.kernel("streamed_backward.cu", "streamed", *shape, *flags, ragged=False)
        args = (*tensors, made.extra(0), made.count, made.n, *narrow)
        return Step(kernel, (self.grid,), (self.block,), args, self.shared, early=True)

    def time(self, moved: float) -> float:
        """Modelled seconds for `moved` bytes."""
        gpu = self.made.request.target
        busy = min(1.0, self.grid / (self.resident * gpu.sms))
        moved += 16 * self.grid * self.made.n
        return gpu.launch + model.STREAM_SUM + moved / (gpu.bandwidth * model.STREAM_RATE * busy)


def stream_of(made: RowJob, read: int) -> RowStream | None:
    """The work of a job; None for rows of other vectors or sizes.

    read  bytes of a vector of all tensors that are read
    """
    gpu = made.request.target
    if gpu.capability < (8, 0) or made.ragged or made.vector * made.dtype.itemsize != VECTOR_BYTES:
        return None
    chunks, most = made.n // made.vector, model.STREAM_ELEMENTS // made.vector
    for largest, (block, resident, stages) in model.STREAM_BLOCKS.items():
        threads = block if largest > 32 else 1 << (cdiv(chunks, most) - 1).bit_length()
        found = RowStream(made, read, threads, block, resident, cdiv(chunks, threads), stages)
        if chunks <= largest * most and found.stages >= 2:
            return found
    return None
