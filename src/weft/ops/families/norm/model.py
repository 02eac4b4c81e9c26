"""The cost model of norms: seconds of a launch, and the limits that its kernels were tuned to.

All constants were fitted by hand to times on an H200. `benchmarks/records/ops_sweep.jsonl` has the
times of random calls with the kernels that the model chooses, `batch_norm_training.jsonl` there
those of each kernel of batch norm, `short_kernels.jsonl` those of few rows with several strategies
each.
"""

from __future__ import annotations

from weft.kernels import cdiv
from weft.ops.core.target import Target
from weft.ops.families.norm.rows import RowJob, RowStrategy

# ---- rows in registers -------------------------------------------------------------------------
FORWARD_VECTORS = 8
"""Vectors of 16 bytes: the most that a thread has in registers, forward."""
BACKWARD_VECTORS = 4
"""Vectors of each tensor: the most that a thread has in registers, backward."""
WEIGHT_BYTES = 128
"""Bytes: the most of each weight that a thread has in registers."""
FEW_THREADS = 1280
"""Threads of an SM: rows that have fewer together are few, and get more threads each."""
FEW_WARP_THREADS = 512
"""The same where a row has a warp at the most: those that an SM holds with weights in registers. An
estimate."""
FEW_VECTORS = 4
"""Vectors: the most of a thread of few rows, whose weights are in registers as well."""
COLUMN_SLABS = 1
"""Blocks for each SM at the most that sum gradients of weights beside those of rows."""
COLUMN_WIDTHS = (2, 4, 8, 16)
"""Vectors beside each other that such a block may have: two are a sector."""
RAGGED_WIDTH = 32
"""Elements beside each other, where rows are no whole vectors."""
COLUMN_ROWS = 4
"""Rows that a thread of such a block loads at once."""
COLUMN_LATENCY = 1.35e-6
"""Seconds until they are there."""
COLUMN_VECTORS = 4
"""Vectors of a thread of rows beside such blocks: their threads are those of all blocks."""
COLUMN_BLOCKS = (128, 256)
"""Threads of a block at least: of few rows, and of more than FEW_COLUMN_ROWS."""
FEW_COLUMN_ROWS = 512
"""Rows."""
SHORT_COLUMN = 8
"""Rows of a thread up to which four vectors beside each other are better than two."""
FEW_BLOCK = (512, 1024)
"""Threads: the most of one of few rows, and of one that has an SM to itself."""
ROW_REGISTERS = 48
"""Registers of a row of any length, and of its weights, above which a thread spills."""
SPILL_FACTORS = {512: 5.0, 128: 3.0, 0: 1.0}
"""Factor on the time of rows that spill, by the least threads of a row; elements of two bytes."""
SM_BANDWIDTH = 50e9
"""Bytes per second that one SM reads and writes when others do little."""
FULL_VECTOR = 8
"""Bytes of a vector below which an SM moves fewer bytes per second."""
SPARE_SHARED = 1024
"""Bytes of shared memory that the reductions of a block need beside its row."""
TRANSPOSED_THREADS = 4
"""Threads: the most of a transposed row; with more, neighbours that read together are few rows."""
SECTOR = 32
"""Bytes of a memory access."""

# ---- rows of several blocks --------------------------------------------------------------------
L2_SHARE = 0.2
"""Share of the time of DRAM that a second read from the L2 cache takes."""
COLUMN_SUM_BLOCKS = 32
"""Blocks: the most whose sums of weights are added by one thread for each column."""
COLUMN_SUM_COLUMNS = 1 << 15
"""Columns: the least for one thread each in that sum."""

# ---- channels ----------------------------------------------------------------------------------
CHANNEL_VECTORS = 8
"""Vectors of a thread that are worth a block."""
FEW_ROWS = 8192
"""Rows of channels below which a thread of a sum has twice as many vectors."""
CHANNEL_BYTES = 64
"""Bytes of a thread that are worth a block."""
CHANNEL_BLOCKS_PER_SM = 4
"""Blocks of an SM that reach the bandwidth in a sum."""
WRITING_BLOCKS_PER_SM = 2
"""Blocks of an SM, where results are written, up to which threads with fewer vectors are faster."""
FOLD_BYTES = 4 << 20
"""Bytes of a tensor from which on results of odd rows are written in whole vectors."""

# ---- channels on chip --------------------------------------------------------------------------
RESIDENT_THREADS = 256
"""Threads of a block that keeps all of its vectors on chip."""
STREAMING_THREADS = 512
"""Threads of a block that reads some of its vectors twice: more loads are under way."""
RESIDENT_VECTORS = 2
"""Vectors of a thread that are worth another block for a channel."""
RESIDENT_STATIC = 16 << 10
"""Bytes of shared memory that the sums of a block need beside its vectors."""
PLANES_STATIC = 21 << 10
"""The same where it has small planes."""
RESIDENT_L2_SHARE = 0.6
"""Share of the L2 cache that vectors which are read twice find again."""
RESIDENT_BUSY = 0.75
"""Share of the SMs that reach the bandwidth."""
NARROW_WIDTH = 2
"""Vectors of channels of blocks that have these channels alone: a sector of 32 bytes."""
NARROW_VECTORS = 5
"""Vectors of a thread of such a block at the most, of all tensors: with more it takes longer than
blocks that meet (benchmarks/records/batch_norm_training.jsonl)."""
MEET_TIMES = {"ALONE": 0.0, "CLUSTER": 1e-6, "GRID": 2.5e-6}
"""Seconds until blocks that share channels have exchanged their sums; an estimate for clusters."""
CLUSTER_BLOCKS = 8
"""Blocks of a cluster: the most that every GPU with clusters has."""

# ---- rows that blocks stream, backward ---------------------------------------------------------
STREAM_BLOCKS = {32: (512, 1, 2), 256: (256, 3, 4), 512: (512, 1, 4)}
"""Threads of a block, blocks of an SM and the most rows on their way, by the most threads of a row;
chosen by benchmarks/records/short_kernels.jsonl."""
STREAM_ELEMENTS = 32
"""Elements of a row that a thread has: it sums the gradients of as many weights."""
STREAM_RATE = 0.8
"""Share of the bandwidth that streamed rows reach."""
WEIGHTS_RATE = 0.47
"""The same of rows whose blocks sum gradients of weights and end."""
STREAM_SUM = 3e-6
"""Seconds of the launch that adds the sums of blocks."""

# ---- groups ------------------------------------------------------------------------------------
PLANE_VECTORS = 1024
"""Vectors of a plane from which on a block sums it, instead of a warp."""
GROUP_TILE_BYTES = 100 << 10
"""Bytes of shared memory: the most of a block that has groups on chip."""
BACKWARD_TILE_BYTES = 32 << 10
"""Bytes of a block's rows that reach the bandwidth, backward."""
BACKWARD_TILE_PENALTY = 0.2
"""Share of the time that BACKWARD_TILE_BYTES more cost: fewer blocks load while others compute."""
BACKWARD_BLOCKS_PER_SM = 8
"""Blocks for each SM that must remain before a block gets more rows."""
JOINED_BATCH = 16
"""Elements of a batch up to which the last block of a group adds the sums of its weights."""
BATCH_PER_BLOCK = 512
"""Elements of a batch that one block sums for 32 channels."""
LAST_BLOCKS_PER_SM = 4
"""Blocks of group norm with the channels last, if there is work for as many."""
LAST_PARTS = 32
"""Blocks that share the places of a sample at the most: each block of the second pass adds their
sums."""
LAST_PLACES = 4
"""Places of a thread at the least."""


def stream_time(gpu: Target, moved: float, launches: int = 1) -> float:
    """Seconds of launches that move so many bytes at full bandwidth."""
    return launches * gpu.launch + moved / gpu.bandwidth


def joint_time(gpu: Target, moved: float, again: float, rows: int, deep: int) -> float:
    """Seconds of a launch that reads `again` bytes twice, with `deep` threads for a column."""
    summing = gpu.launch + cdiv(rows, deep * COLUMN_ROWS) * COLUMN_LATENCY
    return max(two_pass_time(gpu, moved, again, moved, launches=1), summing)


def row_time(job: RowJob, strategy: RowStrategy, moved: float) -> float:
    """Seconds of one launch with rows on chip: the slower of the GPU and its busiest SM."""
    gpu = job.request.target
    busy = moved / job.count / SM_BANDWIDTH
    busy *= cdiv(job.count, gpu.sms * max(1, 1024 // strategy.threads))
    busy *= max(1.0, FULL_VECTOR / (job.vector * int(job.dtype.itemsize)))
    return gpu.launch + max(spill_factor(job, strategy) * moved / gpu.bandwidth, busy)


def spill_factor(job: RowJob, strategy: RowStrategy) -> float:
    """Factor on the time of rows whose threads have too few registers: 1.0 for most."""
    # Vectors that may reach out of a row take more instructions, and more registers.
    size = job.dtype.itemsize + (2 * job.weight.itemsize if strategy.resident else 0)
    words = strategy.registers * job.vector * size // 4
    spilled = words > ROW_REGISTERS or strategy.shared > 0
    if not job.ragged or job.inner or job.dtype.itemsize > 2 or not spilled:
        return 1.0
    return next(factor for least, factor in SPILL_FACTORS.items() if strategy.threads >= least)


def two_pass_time(gpu: Target, moved: float, again: float, cached: float, launches: int) -> float:
    """Seconds if `again` bytes are read twice: from the L2 cache if `cached` bytes fit there."""
    share = L2_SHARE if cached < gpu.l2 else 1
    return stream_time(gpu, moved + again * share, launches)


def tile_time(gpu: Target, moved: float, tile: int, ample: int, penalty: float) -> float:
    """Seconds to move bytes through tiles in shared memory; those above `ample` bytes cost more."""
    return moved * (1 + max(0.0, tile / ample - 1) * penalty) / gpu.bandwidth
