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
    splits    blocks of a cluster that share the K of a tile; 0: all blocks share the steps of
              tiles that are no whole rounds
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

    def shared_tiles(self, p: Product, gpu: Target) -> int:
        """Tiles whose steps all blocks share: those beside whole rounds, and one round."""
        works, blocks = self.works(p), gpu.sms * self.resident
        return works - max(0, works // blocks - 1) * blocks if self.splits == 0 else 1

    def stage(self, a_k_major: bool, b_k_major: bool) -> int:
        """Bytes of a stage; an operand that is not contiguous along K has slabs of 64."""
        columns = self.bn if b_k_major else cdiv(self.bn, 64) * 64
        return 2 * STEP_K * (self.bm + columns)

    @property
    def staging(self) -> int:
        """Bytes through which the warps store their results, of a bias for each column, and of the
        shares that other blocks of a cluster give.
        """
        width = 64 if self.resident == 1 and self.bm <= 192 else 32
        columns = max(self.bn // max(self.splits, 1), 8)
        if self.boxes:
            return self.warps * (16 + 1) * self.bn * 2
        shares = 4 * self.bm * self.bn * (self.splits - 1) // self.splits if self.splits else 0
        return self.warps * (max(16 * (width + 8), 32 * 24) + columns) * 2 + shares

    def stages(self, gpu: Target, stage: int) -> int:
        """Stages that fit."""
        room = gpu.shared_per_sm // self.resident - BLOCK_RESERVED
        room = min(room, gpu.shared_per_block) - SLAB_ALIGNMENT - BARRIERS - self.staging
        return min(room // stage, MOST_STAGES)

    def time(self, p: Product, gpu: Target, stage: int, turned: bool) -> float:
        """Modelled seconds; `turned`: the columns of C are contiguous."""
        steps, most = self._course(p, gpu)
        beside = min(self.resident, most)
        math = 2 * self.bm * (self.bn + INSTRUCTION) * STEP_K / (2 * gpu.tf32 / gpu.sms * REACH)
        waits = LATENCY / (self.stages(gpu, stage) * beside)
        step = max(math, stage / SM_RATE, waits)
        store = STORE * (TURNED if turned else 1.0) + ACTIVATE.get(p.activation, 0.0)
        over = OVER + store * self.bm * self.bn * (ALONE if self.turns else 1.0)
        again = cdiv(most, self.resident) - 1.0
        if self.turns:
            # The other warpgroup multiplies meanwhile.
            again *= max(0.0, 1 - steps / max(most, 1) * step / over)
        if self.boxes:
            again *= BOXES
        over *= 1 + again * (BESIDE if self.bm >= 192 else 1.0)
        total = self._steps_of_all(p) * stage / L2_RATE
        time = gpu.launch + max(steps * step + over, total, traffic(p) / gpu.bandwidth)
        if self.splits > 1:
            time += SPLIT + SHARE * 4 * self.bm * self.bn * self.splits
        if self.splits == 0:
            time += JOIN + JOIN_SHARE * 4 * self.bm * self.bn
        return time

    def _course(self, p: Product, gpu: Target) -> tuple[int, int]:
        """The steps and the tiles of the SM with the most of them."""
        whole, works = cdiv(p.k, STEP_K), self.works(p)
        if self.splits == 0:
            blocks, shared = gpu.sms * self.resident, self.shared_tiles(p, gpu)
            rounds = (works - shared) // blocks
            each = cdiv(shared * whole, blocks) + rounds * whole
            return each * self.resident, (rounds + 1) * self.resident
        most = cdiv(works * self.splits, gpu.sms)
        return most * cdiv(whole, self.splits), most

    def _steps_of_all(self, p: Product) -> int:
        splits = max(self.splits, 1)
        return self.works(p) * splits * cdiv(cdiv(p.k, STEP_K), splits)


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
ACTIVATE = {2: 8e-11, 3: 6e-11, 4: 7e-11}
"""Seconds of an activation, by its number, for an element."""
ALONE = 1.7
"""Time of stores by one warpgroup relative to two."""
BOXES = 0.35
"""Share of the time of stores by tensor maps that products do not cover."""
JOIN = 2.0e-6
"""Seconds by which the last block of a tile waits for the parts of others."""
JOIN_SHARE = 3e-11
"""Seconds for each byte of a part."""
MOST_COLUMNS = {64: 256, 128: 256, 192: 192, 256: 128}
"""Columns of a tile by its rows: each thread of a warpgroup has half as many accumulators."""
TILES = (
    *(
        PipelinedTile(bm, bn, resident, splits)
        for bm, most in MOST_COLUMNS.items()
        for bn in WIDTHS
        for resident in (1, 2, 3)
        for splits in (0, 1, 2, 4, 8)
        if bn <= most
        if resident == 1 or bm * bn <= 4096
        if splits == 1 or (bm <= 128 and bm * bn * splits <= 128 * 256)
        if splits == 0 or bn // 8 % min(splits, bn // 8) == 0
    ),
    *(
        PipelinedTile(bm, bn, splits=splits, turns=True)
        for bm, widths in ((64, (128, 192, 256)), (128, (96, 128, 160, 192)), (192, (96, 128)))
        for bn in widths
        for splits in (0, 1)
    ),
    *(
        PipelinedTile(bm, bn, splits=splits, boxes=True)
        for bm, widths in ((128, (128, 160, 192, 256)), (192, (128, 160, 192)), (256, (96, 128)))
        for bn in widths
        for splits in (0, 1)
        if splits == 1 or bm == 128
    ),
)
