"""Cost model of products with sparse operands: tiles and seconds.

Rates of the tiles on Hopper are those of dense products (`pipelined_model`), which were fitted;
what differs for a sparse operand is derived from the sizes of operands, as each constant says.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core.model import BLOCK_RESERVED
from weft.ops.core.target import Target
from weft.ops.families.matmul.half_model import SLAB_ALIGNMENT
from weft.ops.families.matmul.pipelined_model import (
    BARRIERS,
    CLUSTERS,
    L2_RATE,
    LATENCY,
    MOST_STAGES,
    OVER,
    REACH,
    SM_RATE,
    STORE,
    TURNED,
)
from weft.ops.families.matmul.pipelined_model import INSTRUCTION as DENSE_INSTRUCTION

STEP_K = 64
"""K of a stage: 32 kept elements of each row."""
INSTRUCTION = 32
"""Columns by which an instruction takes longer than its own: shared memory delivers 128 bytes per
clock, so 2 KiB of kept elements take the time of 32 columns of the dense operand."""
STAGED = 32 * 24 * 2
"""Bytes through which a warp stores its results."""
WARP_REACH = 0.6
"""Share of the dense tensor-core rate that the kernel of warps reaches; an assumption."""
GATHER = 1.2
"""Time of reads of kept elements relative to the bandwidth; an assumption."""


class SparseSize(NamedTuple):
    """Features of the weight, rows of x, and their common K."""

    features: int
    rows: int
    k: int

    @property
    def nbytes(self) -> int:
        """Bytes of all operands and of the result, for 16-bit elements and metadata."""
        return (
            2 * (self.features * self.k // 2 + self.rows * self.k + self.features * self.rows)
            + self.features * self.k // 8
        )


class SparsePipelinedTile(NamedTuple):
    """A tile of features and rows of x on Hopper; the blocks of a cluster share rows of x."""

    bm: int
    bn: int
    cluster: int = 1

    @property
    def name(self) -> str:
        shared = f", cluster of {self.cluster}" if self.cluster > 1 else ""
        return f"{self.bm} x {self.bn}{shared}, pipelined"

    @property
    def threads(self) -> int:
        """A warpgroup for each 64 features, and one that copies."""
        return 2 * self.bm + 128

    @property
    def stage(self) -> int:
        """Bytes of a stage: rows of x, kept elements, and metadata."""
        return 128 * self.bn + 64 * self.bm + cdiv(8 * self.bm, 1024) * 1024

    @property
    def staging(self) -> int:
        return self.bm // 16 * STAGED

    def tiles(self, size: SparseSize) -> tuple[int, int]:
        """Tiles of all blocks of a cluster, along features and along rows of x."""
        return cdiv(size.features, self.bm * self.cluster), cdiv(size.rows, self.bn)

    def works(self, size: SparseSize) -> int:
        down, across = self.tiles(size)
        return down * across

    def suits(self, size: SparseSize) -> bool:
        """False if a smaller tile has the same work."""
        rows = self.bm * self.cluster
        least = next((bn for bn in WIDTHS if bn >= size.rows), WIDTHS[-1])
        return self.bn <= least and (rows == 64 or rows - 64 < size.features)

    def stages(self, gpu: Target) -> int:
        """Stages that fit beside the results of the warps."""
        room = min(gpu.shared_per_sm - BLOCK_RESERVED, gpu.shared_per_block)
        return min((room - SLAB_ALIGNMENT - BARRIERS - self.staging) // self.stage, MOST_STAGES)

    def time(self, size: SparseSize, gpu: Target) -> float:
        """Modelled seconds."""
        most = cdiv(self.works(size), int(gpu.sms * CLUSTERS[self.cluster]) // self.cluster)
        steps = cdiv(size.k, STEP_K)
        rate = 2 * gpu.tf32 / gpu.sms * REACH
        products = 2 * self.bm * (self.bn + INSTRUCTION) * (STEP_K // 2) / rate
        step = max(products, self.stage / SM_RATE, LATENCY / self.stages(gpu))
        over = OVER + STORE * TURNED * self.bm * self.bn
        # The blocks of a cluster read the rows of x once.
        read = self.stage - 128 * self.bn * (self.cluster - 1) // self.cluster
        from_l2 = self.works(size) * self.cluster * steps * read / L2_RATE
        return gpu.launch + max(
            most * (steps * step + over), from_l2 + over, size.nbytes / gpu.bandwidth
        )


WIDTHS = (16, 32, 64, 128, 192, 256)
PIPELINED_TILES = (
    *(SparsePipelinedTile(64, bn) for bn in WIDTHS),
    *(SparsePipelinedTile(128, bn, cluster) for bn in WIDTHS[2:] for cluster in (1, 2)),
    *(SparsePipelinedTile(192, bn) for bn in (128, 192)),
)


class SparseWarpTile(NamedTuple):
    """A tile of features and rows of x, and the part of a warp, for mma.sp."""

    bm: int
    bn: int
    wm: int
    wn: int
    stages: int

    @property
    def name(self) -> str:
        return f"{self.bm} x {self.bn}, warps"

    @property
    def threads(self) -> int:
        return self.bm // self.wm * (self.bn // self.wn) * 32

    @property
    def shared(self) -> int:
        """Bytes: the stages, or later the results."""
        return max(self.stages * (128 * self.bn + 64 * self.bm), 2 * self.bn * (self.bm + 8))

    def works(self, size: SparseSize) -> int:
        return cdiv(size.features, self.bm) * cdiv(size.rows, self.bn)

    def time(self, size: SparseSize, gpu: Target) -> float:
        """Modelled seconds."""
        busy = min(1.0, self.threads / 256)
        rate = 2 * gpu.tf32 / gpu.sms * WARP_REACH * busy
        work = cdiv(self.works(size), gpu.sms) * 2 * self.bm * self.bn * size.k / rate
        return gpu.launch + max(work, size.nbytes / gpu.bandwidth)


WARP_TILES = (SparseWarpTile(128, 128, 64, 32, 3), SparseWarpTile(64, 32, 16, 32, 4))


def places_time(elements: int, itemsize: int, gpu: Target) -> float:
    """Seconds to take kept elements from a matrix of so many, or to put them back."""
    return gpu.launch + GATHER * 1.5 * elements * itemsize / gpu.bandwidth


# ---- unstructured and block-sparse matrices ----------------------------------------------------
CSR_WARPS, CSR_ROWS, CSR_LONG = 8, 16, 512
"""Warps and rows of a block, and the nonzeros of a row above which all warps share it."""
FLOAT_COLUMNS, FLOAT_ROWS, FLOAT_STAGES = 64, 64, 3
"""Columns and most rows of a tile of float32, and its stages."""
BLOCK_REACH = 0.4
"""Share of the dense rates that products with blocks reach; an assumption."""


def csr_time(
    nonzeros: int, rows: int, columns: int, itemsize: int, index: int, gpu: Target
) -> float:
    """Modelled seconds: rows of the dense matrix come from L2, the others from memory."""
    gathered = nonzeros * columns * itemsize / L2_RATE
    moved = nonzeros * (itemsize + index) + rows * (columns * itemsize + index)
    return gpu.launch + max(gathered, moved / gpu.bandwidth)


class HalfBlockTile(NamedTuple):
    """Rows of blocks of `size` and columns that a block computes, and the part of a warp."""

    size: int
    bn: int = 128
    wn: int = 32
    stages: int = 3

    @property
    def wm(self) -> int:
        return min(self.size, 64)

    @property
    def threads(self) -> int:
        return self.size // self.wm * (self.bn // self.wn) * 32

    @property
    def shared(self) -> int:
        """Bytes of the stages."""
        step = min(self.size, 64)
        return 2 * self.stages * step * (self.size + self.bn)


def blocks_time(
    blocks: int, size: int, rows: int, columns: int, itemsize: int, gpu: Target
) -> float:
    """Modelled seconds of a product with so many blocks."""
    rate = (gpu.fp32 if itemsize == 4 else 2 * gpu.tf32) * BLOCK_REACH
    work = 2 * blocks * size * size * columns / rate
    moved = itemsize * (blocks * size * size + rows * columns)
    return gpu.launch + max(work, moved / gpu.bandwidth)


class PipelinedBlockTile(NamedTuple):
    """A row of blocks of `size` and columns on Hopper; `resident` blocks share an SM."""

    size: int
    bn: int
    stages: int
    resident: int = 1

    @property
    def name(self) -> str:
        return f"{self.size} x {self.bn}, pipelined"

    @property
    def threads(self) -> int:
        """A warpgroup for each 64 rows, and one that copies."""
        return 2 * self.size + 128

    @property
    def shared(self) -> int:
        """Bytes of the stages, and of results that warps store."""
        stage = 2 * STEP_K * (self.size + self.bn)
        return 1024 + self.stages * stage + self.size // 16 * BLOCK_STAGED

    def time(self, blocks: int, block_rows: int, columns: int, gpu: Target) -> float:
        """Modelled seconds; rows of blocks share the SMs evenly."""
        across = cdiv(columns, self.bn)
        steps = blocks * across * (self.size // STEP_K)
        rate = 2 * gpu.tf32 * REACH
        products = 2 * self.size * (self.bn + DENSE_INSTRUCTION) * STEP_K / rate
        read = 2 * STEP_K * (self.size + self.bn) / L2_RATE
        over = OVER + STORE * self.size * self.bn
        works = block_rows * across / (gpu.sms * self.resident)
        return gpu.launch + steps * max(products, read) + works * over


BLOCK_STAGED = 16 * 40 * 2
"""Bytes through which a warp stores its results."""
PIPELINED_BLOCKS = (
    PipelinedBlockTile(64, 128, 4, 2),
    PipelinedBlockTile(64, 256, 5),
    PipelinedBlockTile(128, 128, 5),
    PipelinedBlockTile(128, 256, 4),
)
