"""Cost model of products by warpgroups that read what tensor maps copied: tiles and seconds.

Every constant was fitted on an NVIDIA H200 to benchmarks/records/pipelined_products.jsonl.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core.model import BLOCK_RESERVED
from weft.ops.core.target import Target
from weft.ops.families.matmul.half_model import SLAB_ALIGNMENT
from weft.ops.families.matmul.model import traffic
from weft.ops.families.matmul.product import Product

STEP_K = 64
"""K of a stage."""
WIDTHS = (16, 32, 48, 64, 80, 96, 128, 160, 176, 192, 256)
"""Columns of a tile that a warpgroup multiplies by one instruction."""
BARRIERS = 1024
"""Bytes of static shared memory: the ring after it is aligned."""
MOST_STAGES = 12


class PipelinedTile(NamedTuple):
    """A tile of C.

    resident  blocks that share an SM
    splits    blocks of a cluster that share the K of a tile
    """

    bm: int
    bn: int
    resident: int = 1
    splits: int = 1

    @property
    def threads(self) -> int:
        """A warpgroup for each 64 rows, and a warpgroup or a warp that copies."""
        return 2 * self.bm + (128 if self.resident == 1 else 32)

    def stage(self, a_k_major: bool, b_k_major: bool) -> int:
        """Bytes of a stage; an operand that is not contiguous along K has slabs of 64."""
        columns = self.bn if b_k_major else cdiv(self.bn, 64) * 64
        return 2 * STEP_K * (self.bm + columns)

    @property
    def staging(self) -> int:
        """Bytes through which the warps store their results, and of a bias for each column."""
        width = 64 if self.resident == 1 and self.bm <= 192 else 32
        return self.bm // 16 * (max(16 * (width + 8), 32 * 24) + self.bn // self.splits) * 2

    def stages(self, gpu: Target, stage: int, more: int = 0) -> int:
        """Stages that fit; `more`: bytes of a block for something else."""
        room = gpu.shared_per_sm // self.resident - BLOCK_RESERVED
        room = min(room, gpu.shared_per_block) - SLAB_ALIGNMENT - BARRIERS - self.staging - more
        return min(room // stage, MOST_STAGES)

    def time(self, p: Product, gpu: Target, stage: int, turned: bool) -> float:
        """Modelled seconds; `turned`: the columns of C are contiguous."""
        works = cdiv(p.m, self.bm) * cdiv(p.n, self.bn) * p.batch * self.splits
        steps = cdiv(cdiv(p.k, STEP_K), self.splits)
        most = cdiv(works, gpu.sms)
        beside = min(self.resident, most)
        math = 2 * self.bm * (self.bn + INSTRUCTION) * STEP_K / (2 * gpu.tf32 / gpu.sms * REACH)
        waits = LATENCY / (self.stages(gpu, stage) * beside)
        loop = most * steps * max(math, stage / SM_RATE, waits)
        store = OVER + STORE * self.bm * self.bn * (TURNED if turned else 1.0)
        again = cdiv(most, self.resident) - 1
        over = store * (1 + again * (BESIDE if self.bm >= 192 else 1.0))
        total = works * steps * stage / L2_RATE
        time = gpu.launch + max(loop + over, total, traffic(p) / gpu.bandwidth)
        if self.splits > 1:
            time += SPLIT + SHARE * 4 * self.bm * self.bn * self.splits
        return time


REACH = 0.767
"""Share of the tensor cores' dense rate."""
INSTRUCTION = 8
"""Columns by which an instruction takes longer than its own."""
SM_RATE = 84e9
"""Bytes per second that reach the shared memory of an SM."""
L2_RATE = 9.8e12
"""Bytes per second that reach that of all SMs."""
LATENCY = 1.44e-6
"""Seconds from the copy of a stage to the next one into it."""
OVER = 0.67e-6
"""Seconds before the first products of a tile and after the last ones."""
STORE = 4.2e-11
"""Seconds to store an element."""
TURNED = 1.32
"""Time of stores to contiguous columns relative to rows."""
BESIDE = 0.86
"""Share of the time of stores that the products of other warpgroups do not cover, from three on."""
SPLIT = 1.5e-6
"""Seconds by which the barriers of a cluster delay it."""
SHARE = 2.3e-11
"""Seconds for each byte of the shares."""
MOST_COLUMNS = {64: 256, 128: 256, 192: 192, 256: 128}
"""Columns of a tile by its rows: each thread of a warpgroup has half as many accumulators."""
TILES = tuple(
    PipelinedTile(bm, bn, resident, splits)
    for bm, most in MOST_COLUMNS.items()
    for bn in WIDTHS
    for resident in (1, 2, 3)
    for splits in (1, 2, 4)
    if bn <= most
    if resident == 1 or bm * bn <= 4096
    if splits == 1 or (bm <= 128 and bn // 8 % splits == 0 and bm * bn * splits <= 128 * 256)
)
