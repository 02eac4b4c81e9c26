"""Cost model of products by warpgroups that read what tensor maps copied: tiles and seconds.

Every constant but those of activations and clusters was fitted on an NVIDIA H200 to runs 2 to 4 of
benchmarks/records/pipelined_products.jsonl by benchmarks/fit_pipelined.py; CROSSING, TURNED and
BY_WARPS to run 5, too, whose 15 calls were chosen because their tiles lost. Of all 115 calls, 8 are
more than 3 % slower than the best candidate.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core.model import BLOCK_RESERVED
from weft.ops.core.target import Target
from weft.ops.families.matmul.half_model import SLAB_ALIGNMENT
from weft.ops.families.matmul.model import streamed
from weft.ops.families.matmul.product import Product

STEP_K = 64
"""K of a stage."""
WIDTHS = (16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 256)
"""Columns of a tile that a warpgroup multiplies by one instruction."""
BARRIERS = 1024
"""Bytes of static shared memory: the ring after it is aligned."""
MOST_STAGES = 12
MOST_SHARES = 32 * 1024
"""Bytes of shares that have room beside the stages: see shares.cuh."""


class PipelinedTile(NamedTuple):
    """A tile of C.

    resident  blocks that share an SM
    splits    blocks of a cluster that share the K of a tile
    turns     two warpgroups compute whole tiles by turns; else all of them share each
    boxes     results are stored by a tensor map, beside the products of the next tile
    """

    bm: int
    bn: int
    resident: int = 1
    splits: int = 1
    turns: bool = False
    boxes: bool = False

    @property
    def threads(self) -> int:
        """Those that multiply, and a warpgroup or a warp that copies."""
        return 32 * self.warps + (128 if self.resident == 1 else 32)

    @property
    def warps(self) -> int:
        """Warps that multiply: a warpgroup for each 64 rows, or two that take turns."""
        return 8 if self.turns else self.bm // 16

    def works(self, p: Product) -> int:
        """Tiles of all products."""
        return cdiv(p.m, self.bm) * cdiv(p.n, self.bn) * p.batch

    def suits(self, p: Product) -> bool:
        """False if a smaller tile has the same work: a warpgroup without rows, columns for none.

        For 16 columns memory is the limit, and the least rows are the most blocks that read. Up to
        32 columns are one tile's: two read the larger operand twice (pipelined_products.jsonl with
        32 rows, short_calls.jsonl with 24 columns).
        """
        rows = self.bm == 64 or self.bm - 64 < p.m
        least = next((bn for bn in WIDTHS if bn >= p.n), WIDTHS[-1])
        most = max(least, 96 if self.turns else 0)
        columns = self.bn <= most and (p.n > 32 or self.bn >= least)
        return rows and columns and (p.n > 16 or self.bm == 64)

    def stage(self, a_k_major: bool, b_k_major: bool) -> int:
        """Bytes of a stage; an operand that is not contiguous along K has slabs of 64."""
        columns = self.bn if b_k_major else cdiv(self.bn, 64) * 64
        return 2 * STEP_K * (self.bm + columns)

    def slabs(self, a_k_major: bool, b_k_major: bool) -> float:
        """Bytes of them that are slabs of 64. Those of tiles that do not begin at slabs count
        CROSSING times: their rows lie in two lines of the cache.
        """
        rows = 2 * STEP_K * self.bm
        columns = 0.0 if b_k_major else self.stage(a_k_major, b_k_major) - rows
        return (0 if a_k_major else rows) + columns * (CROSSING if self.bn % 64 else 1.0)

    @property
    def staging(self) -> int:
        """Bytes through which the warps store their results, of a bias for each column, and of the
        shares that other blocks of a cluster give.
        """
        width = 64 if self.resident == 1 and self.bm <= 192 else 32
        rows = 16 * self.bn if self.boxes else max(16 * (width + 8), 32 * 24)
        columns = self.bn // math.gcd(self.bn // 8, self.splits)
        shares = self.shares if self.shares <= MOST_SHARES else 0
        return self.warps * (rows + columns) * 2 + shares

    @property
    def shares(self) -> int:
        """Bytes that other blocks of a cluster give; many replace the stages."""
        return 4 * self.bm * self.bn * (self.splits - 1) // self.splits

    @property
    def of_row_sums(self) -> int:
        """Bytes of ones, and of the sums that other blocks of a cluster give: see row_sums.cuh."""
        return 8 * 2 * STEP_K + 8 * self.bm * (self.splits - 1)

    def dense(self, gpu: Target, more: int = 0) -> float:
        """Seconds of the products of a stage; `more`: those of so many columns only."""
        columns = more or self.bn
        work = 2 * self.bm * (columns + INSTRUCTION) * STEP_K
        time: float = work / (2 * gpu.tf32 / gpu.sms * REACH)
        return time

    def row_sums_time(self, p: Product, gpu: Target) -> float:
        """Seconds by which sums of the rows delay the tiles that share them."""
        sharing = 1 if self.turns else min(cdiv(p.n, self.bn), self.bm // 64)
        return cdiv(cdiv(p.k, STEP_K), self.splits) * self.dense(gpu, 8) / sharing

    def stages(self, gpu: Target, stage: int, p: Product, more: int = 0) -> int:
        """Stages that fit, and no more than a block with one tile needs.

        more  bytes of a block for something else
        """
        room = gpu.shared_per_sm // self.resident - BLOCK_RESERVED
        room = min(room, gpu.shared_per_block) - SLAB_ALIGNMENT - BARRIERS - self.staging - more
        most = MOST_STAGES
        if self.works(p) * self.splits <= gpu.sms * self.resident:
            most = max(2, min(most, cdiv(cdiv(p.k, STEP_K), self.splits)))
        fitting = min(room // stage, most)
        return fitting if self.shares <= max(MOST_SHARES, fitting * stage) else 0

    def time(self, p: Product, gpu: Target, stage: int, turned: bool, slabs: float = 0.0) -> float:
        """Modelled seconds.

        turned  the columns of C are contiguous
        slabs   those of `slabs`
        """
        works, steps = self.works(p) * self.splits, cdiv(cdiv(p.k, STEP_K), self.splits)
        sms = int(gpu.sms * CLUSTERS[self.splits])
        most = cdiv(works, sms)  # tiles of an SM
        beside = min(self.resident, most)
        step = max(
            self.dense(gpu), stage / SM_RATE, LATENCY / (self.stages(gpu, stage, p) * beside)
        )
        store = STORE * (TURNED if turned else 1.0)
        store *= 1.0 if (p.m if turned else p.n) % 8 == 0 else ANYWHERE
        store *= p.stored.itemsize / 2 if p.stored else 1.0
        store += ACTIVATE.get(p.activation, 0.0)
        over = OVER + store * self.bm * self.bn * (ALONE if self.turns else 1.0)
        again = cdiv(most, self.resident) - 1.0
        begins = again * ROUND if self.splits > 1 else 0.0  # of blocks that do not stay
        if self.turns:
            again *= max(AGAIN, 1 - steps * step / over)  # the other warpgroup multiplies meanwhile
        elif self.boxes:
            again *= BOXES
        elif self.bm >= 192:
            again *= BESIDE
        loop = most * steps * step + over * (1 + again) + begins
        total = works * steps * (stage + (SLABS - 1) * slabs) / L2_RATE
        # Tiles of the smaller operand that read the larger one together wait for it together.
        readers = cdiv(p.m, self.bm) if p.n >= p.m else cdiv(p.n, self.bn)
        memory = streamed(p, works, sms, gpu) * (AGAIN_READ if readers > 1 else 1.0)
        memory *= 1.0 if self.boxes else BY_WARPS
        time = gpu.launch + max(loop, total, memory) + begins * BEGINS
        if self.splits > 1:
            time += SPLIT + SHARE * self.shares
        return time


REACH = 0.802
"""Share of the tensor cores' dense rate."""
INSTRUCTION = 9.14
"""Columns by which an instruction takes longer than its own."""
SM_RATE = 114e9
"""Bytes per second that reach the shared memory of an SM."""
L2_RATE = 11.9e12
"""Bytes per second that reach that of all SMs."""
SLABS = 1.16
"""Time of bytes of slabs of 64 relative to others."""
BY_WARPS = 1.01
"""Time of memory traffic where warps store results relative to tensor maps."""
CROSSING = 4.0
"""Slabs that count as much as one whose rows lie in two lines of the cache each."""
LATENCY = 0.695e-6
"""Seconds from the copy of a stage to the next one into it."""
OVER = 0.458e-6
"""Seconds before the first products of a tile and after the last ones."""
STORE = 4.48e-11
"""Seconds to store an element."""
TURNED = 1.5
"""Time of stores to contiguous columns relative to rows."""
ANYWHERE = 3.83
"""Time of stores to rows, or columns, that begin anywhere relative to multiples of 16 bytes."""
BESIDE = 1.03
"""Share of the time of stores that the products of other warpgroups do not cover, from three on."""
SPLIT = 0.841e-6
"""Seconds by which the barriers of a cluster delay it."""
SHARE = 5.67e-11
"""Seconds for each byte of the shares."""
ACTIVATE = {2: 7.6e-11, 3: 3.8e-11, 4: 4.7e-11}
"""Seconds of an activation, by its number, for an element."""
ALONE = 1.16
"""Time of stores by one warpgroup relative to two."""
ROUND = 2.72e-6
"""Seconds before the first products of a block that begins when another one has ended."""
BEGINS = 0.122
"""Share of these seconds that reads of other blocks of the SM do not cover."""
AGAIN_READ = 1.42
"""Time of reads of memory by several blocks relative to one."""
BOXES = 0.815
"""Share of the time of stores by tensor maps that products do not cover."""
AGAIN = 0.436
"""Share of the time of stores that the products of the other of two warpgroups do not cover."""
MOST_COLUMNS = {64: 256, 128: 256, 192: 192, 256: 128}
"""Columns of a tile by its rows: each thread of a warpgroup has half as many accumulators."""
CLUSTERS = {1: 1.0, 2: 1.0, 3: 0.89, 4: 0.91, 8: 0.91}
"""Share of the SMs that clusters of so many blocks can use: each lies in one GPC."""


def _splits(bm: int, bn: int) -> tuple[int, ...]:
    """Numbers of blocks that can share a tile: each stores whole columns of whole warps."""
    owners = {splits: splits // math.gcd(bn // 8, splits) for splits in CLUSTERS}
    return tuple(splits for splits, warps in owners.items() if bm // 16 % warps == 0)


TILES = (
    *(
        PipelinedTile(bm, bn, resident, splits)
        for bm, most in MOST_COLUMNS.items()
        for bn in WIDTHS
        for resident in (1, 2, 3)
        for splits in _splits(bm, bn)
        if bn <= most
        if resident == 1 or bm * bn <= 4096
        if splits in (1, 2, 4, 8) or bm * bn > 4096
        if splits < 8 or bm * bn <= 128 * 128
    ),
    *(
        PipelinedTile(bm, bn, turns=True)
        for bm, most in {64: 256, 128: 192, 192: 128}.items()
        for bn in WIDTHS
        if 96 <= bn <= most
    ),
    *(
        PipelinedTile(bm, bn, boxes=True)
        for bm, widths in ((128, (128, 160, 192, 256)), (192, (128, 160, 192)), (256, (96, 128)))
        for bn in widths
    ),
)
