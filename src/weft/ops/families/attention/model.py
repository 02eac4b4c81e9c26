"""Cost model of attention: the tiles that its kernels come in, and their modelled seconds.

Every constant was fitted on an NVIDIA H200. Tiles of f16 and bf16 and of float32: the record
benchmarks/records/attention_tuning.jsonl; those of few queries: attention_tiles.jsonl. Warpgroups:
attention_warpgroups.jsonl. `reach` is always
the share of the peak rate of tensor cores (of FP32 units for float32) in a full tile.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core.model import BLOCK_RESERVED, SM_READ_BANDWIDTH
from weft.ops.core.target import Target
from weft.ops.families.attention.problem import EXPRESSION, FREE, HEADS, UNIFORM, WINDOW, Problem

RESIDENT = 2
"""Blocks that an SM holds of most kernels."""
FIXED = 3e-6
"""Seconds of a forward kernel beside its launch, its products and its memory traffic."""
SPLIT_KV = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Numbers of parts that the keys of a forward pass are split into."""
PARTIAL_BANDWIDTH = 1.8e12
"""Bytes of partial results per second that are written and read again."""


def traffic(p: Problem, gpu: Target) -> float:
    """Seconds to read all operands of a forward pass and to write its result, in 16 bits."""
    return 4 * p.batch * p.heads * (p.rows + p.seen_keys / p.group) * p.head / gpu.bandwidth


def heads_at_once(p: Problem, gpu: Target, tiles: int, heads: int) -> int:
    """Return how many of a launch's heads, of `tiles` tiles each, blocks work on at a time.

    L2 should hold their keys and values. Under a causal mask the first tiles take longest, so that
    a few heads at the end would keep few SMs busy: all heads are divided into equal rounds, which
    have work for all SMs for as long as the longest tile takes.
    """
    size = 2 * p.keys * p.head * int(p.dtype.itemsize)
    fit = max(1, gpu.l2 // 2 // max(size, 1)) * p.group
    least = cdiv(2 * RESIDENT * gpu.sms, tiles + 1) if p.causal else 1
    return cdiv(heads, max(1, heads // max(fit, least)))


MASK_SCORE = 0.22e-9
"""Seconds of an SM for a score whose mask is read from global memory, element by element."""
SHARED_MASK_SCORE = 0.013e-9
"""The same for a mask whose tiles TMA copies to shared memory."""


def mask_time(p: Problem, scores: float, shared: bool) -> float:
    """Seconds of an SM for the mask of so many scores."""
    if p.mask in (FREE, UNIFORM, WINDOW, EXPRESSION):
        return 0.0
    return scores * (SHARED_MASK_SCORE if shared else MASK_SCORE)


# ---- forward, f16 and bf16 ---------------------------------------------------------------------
class ForwardTile(NamedTuple):
    """Queries and keys of a block, its warps, stages of keys and values.

    resident       blocks that an SM holds
    reach          share of the tensor cores' rate in a full tile
    causal_reach   the same under a causal mask where it differs
    key_warps      warps that have the same queries and divide the keys of a tile
    clustered      parts of the keys are those of the blocks of a cluster
    """

    queries: int
    keys: int
    warps: int
    stages: int
    resident: int
    reach: float
    causal_reach: float = 0.0
    key_warps: int = 1
    clustered: bool = False

    @property
    def name(self) -> str:
        shared = ", warps share queries" if self.key_warps > 1 else ""
        stages = f", {self.stages} stages" if self.stages > 2 else ""
        return f"{self.queries} x {self.keys}{shared}{stages}"

    @property
    def most_clusters(self) -> int:
        """Clusters of a launch, at most."""
        return MOST_CLUSTERS

    @property
    def scale_bytes(self) -> int:
        """Bytes of shared memory for quantised keys: their scales, and places of two tiles."""
        return (2 * 4 + 2 * 8) * self.keys

    def shared(self, head: int, parts: int) -> int:
        """Bytes of shared memory; rows are padded by 16 bytes.

        In the end, it holds the results of warps that share queries, and the weights of parts.
        """
        tiles = 2 * (head + 8) * (self.queries + 2 * self.stages * self.keys)
        results = self.key_warps + self.clustered if self.key_warps > 1 else 0
        warps = 4 * self.queries * results * (head + 8 + 2)
        return max(tiles, warps, 4 * self.queries * parts)

    def time(self, p: Problem, tiles: int, parts: int, gpu: Target) -> float:
        """Modelled seconds: those of the SM with the most blocks, at least the memory traffic."""
        blocks = tiles * parts
        most = cdiv(blocks, gpu.sms)
        at_once = min(most, self.resident)
        keys = cdiv(p.keys, parts) * p.share
        if p.share < 1:  # tiles on the diagonal are computed whole
            keys = min(cdiv(p.keys, parts), keys + (self.queries + self.keys) / 2 / parts)
        reach = (p.causal and self.causal_reach) or self.reach
        rate = 2 * gpu.tf32 / gpu.sms * reach
        if self.key_warps > 1:
            count = cdiv(math.ceil(keys), self.keys)
            work = 4 * self.queries * self.keys * p.head / rate
            work += mask_time(p, self.queries * self.keys, shared=False)
            read = 4 * self.keys * p.head / SHARED_READ_BANDWIDTH
            read = max(read, PAGED_TILE if p.paged else 0.0)
            each = max(SHARED_TILE_LATENCY, at_once * max(read, work))
            busy = cdiv(most, at_once) * (SHARED_BLOCK_OVERHEAD + count * each)
        else:
            work = 4 * self.queries * keys * p.head / rate
            work += mask_time(p, self.queries * keys, shared=False)
            work *= max(1.0, self.resident / at_once / 2)  # too few warps hide no latency
            read = 2 * 2 * keys * p.head / SM_READ_BANDWIDTH / at_once
            busy = most * (max(work, read) + BLOCK_OVERHEAD)
        joining = joining_time(p, self.queries, blocks, parts)
        if self.clustered:
            joining = CLUSTER_JOINING
        fixed = SHARED_FIXED if self.key_warps > 1 else FIXED
        return gpu.launch + fixed + max(busy, traffic(p, gpu)) + joining


BLOCK_OVERHEAD = 2.6e-6
"""Seconds of a block beside its products: calls with few keys in attention_tiles.jsonl."""
SHARED_TILE_LATENCY = 0.51e-6
"""Seconds of a tile of keys, at least, where warps share queries."""
PAGED_TILE = 2.1e-6
"""Seconds of an SM for a tile of keys in pages, whose places are looked up for each row: estimated
from one run of a decoder, which no record has."""
SHARED_FIXED = 1e-6
"""FIXED for kernels whose warps share queries."""
SHARED_BLOCK_OVERHEAD = 1.0e-6
"""Seconds of such a block beside its tiles."""
SHARED_READ_BANDWIDTH = 45e9
"""Bytes per second that an SM reads for such blocks."""


_tile = functools.partial(ForwardTile, warps=4, stages=2)
FORWARD_TILES = {
    16: (
        _tile(queries=64, keys=64, resident=4, reach=0.09),
        _tile(queries=128, keys=64, resident=3, reach=0.085),
    ),
    32: (
        _tile(queries=64, keys=64, resident=4, reach=0.12),
        _tile(queries=128, keys=64, resident=3, reach=0.16),
    ),
    48: (
        _tile(queries=64, keys=64, resident=3, reach=0.18),
        _tile(queries=128, keys=64, resident=2, reach=0.21, warps=8),
    ),
    64: (
        _tile(queries=64, keys=64, resident=3, reach=0.2),
        _tile(queries=128, keys=64, resident=2, reach=0.25),
    ),
    80: (
        _tile(queries=64, keys=64, resident=3, reach=0.21),
        _tile(queries=128, keys=64, resident=2, reach=0.28),
    ),
    96: (
        _tile(queries=64, keys=64, resident=3, reach=0.22),
        _tile(queries=128, keys=64, resident=2, reach=0.325, causal_reach=0.3),
        _tile(queries=128, keys=32, resident=2, reach=0.3, causal_reach=0.32),
    ),
    128: (
        _tile(queries=64, keys=64, resident=2, reach=0.25),
        _tile(queries=128, keys=32, resident=2, reach=0.35),
    ),
    192: (_tile(queries=64, keys=64, resident=2, reach=0.25, stages=1),),
    256: (_tile(queries=64, keys=64, resident=2, reach=0.25, stages=1),),
}
"""Tiles by head size."""
SHARED_QUERIES = 16
"""Queries of the tiles whose warps share them."""
SHARED_TILES = {
    head: ForwardTile(
        queries=SHARED_QUERIES, keys=64, warps=4, stages=2 if head <= 128 else 1,
        resident=resident, reach=0.096, key_warps=4,
    )
    for head, resident in zip(HEADS, (4, 4, 4, 4, 4, 4, 3, 2, 2), strict=True)
}  # fmt: skip
"""Tiles whose warps share their queries, by head size."""


CLUSTER_PARTS = (2, 4, 8)
"""Blocks of a cluster that divide the keys of a tile."""
CLUSTER_JOINING = 1.4e-6
"""Seconds until the blocks of a cluster have combined their results."""
MOST_CLUSTERS = 24
"""Clusters of a launch, at most: more of them wait for neighbouring SMs to be free."""
MORE_STAGES = (4, 3)
"""Stages of tiles whose warps share their queries, if an SM need not hold more blocks of them."""


def shared_tile(head: int, blocks: int, gpu: Target) -> ForwardTile:
    """The tile whose warps share their queries, with the most stages for so many blocks.

    There is room for no more of them: a kernel that starts early beside the blocks of the one
    before would have more blocks on some SMs than on others.
    """
    tile = SHARED_TILES[head]
    needed = min(cdiv(blocks, gpu.sms), tile.resident)
    for stages in MORE_STAGES:
        one = tile._replace(stages=stages, clustered=True)  # the larger one
        fit = gpu.shared_per_sm // (one.shared(head, 1) + BLOCK_RESERVED)
        if fit >= needed and one.shared(head, 1) <= gpu.shared_per_block:
            return one._replace(resident=min(tile.resident, fit), clustered=False)
    return tile


class Joining(NamedTuple):
    """Seconds of the last block of a tile, which combines the results of all parts of the keys.

    few_start    once, for a tile of up to SHARED_QUERIES queries
    parts_round  for the parts of such a tile that are read together
    start        once, for a larger tile
    rows_round   for each 32 rows of a larger tile, once and by an eighth for each part
    result       for each result of a larger tile
    """

    few_start: float
    parts_round: float
    start: float
    rows_round: float
    result: float


JOINING = Joining(few_start=3.2e-6, parts_round=0.6e-6, start=4e-6, rows_round=1e-6, result=0.5e-9)


def joining_time(p: Problem, queries: int, blocks: int, parts: int) -> float:
    """Seconds for keys in parts: blocks write partial results, the last of a tile combines them."""
    if parts == 1:
        return 0.0
    rows = min(p.rows, queries)
    partial = 8 * blocks * rows * p.head / PARTIAL_BANDWIDTH
    if queries <= SHARED_QUERIES:
        packed = min(p.rows * p.group, queries) if p.rows < queries else queries
        at_once = 8 if packed * p.head <= 2 * 4 * 128 else 4  # parts that split.cuh reads together
        return JOINING.few_start + cdiv(parts, at_once) * JOINING.parts_round
    rounds = cdiv(rows, 4 * 8) * (1 + parts / 8) * JOINING.rows_round
    return JOINING.start + rounds + partial + rows * p.head * JOINING.result


# ---- forward, float32 --------------------------------------------------------------------------
class Fp32Tile(NamedTuple):
    """Queries and keys of a block, and the share of the FP32 peak in a full tile."""

    name: str
    queries: int
    keys: int
    reach: float

    def shared(self, head: int) -> int:
        """Bytes of shared memory; rows are padded by 16 bytes."""
        rows = (head + 4) * (self.queries + 2 * self.keys)
        return 4 * (rows + self.queries * (self.keys + 4))

    def time(self, p: Problem, tiles: int, parts: int, gpu: Target) -> float:
        """Modelled seconds: those of the SM with the most blocks."""
        keys = cdiv(p.keys, parts) * p.share
        # A block that has an SM to itself waits for memory and barriers most of the time.
        work = 4 * self.queries * keys * p.head / (gpu.fp32 / gpu.sms * self.reach)
        work += keys / self.keys * FP32_TILE_OVERHEAD
        joining = joining_time(p, self.queries, tiles * parts, parts)
        return gpu.launch + FIXED + cdiv(tiles * parts, gpu.sms) * work + joining


FP32_TILES = (
    Fp32Tile(name="fp32", queries=64, keys=32, reach=0.4),
    Fp32Tile(name="fp32, 16 queries", queries=16, keys=64, reach=0.2),
)
FP32_TILE_OVERHEAD = 2e-6
"""Seconds of a tile of float32 for memory and barriers."""


# ---- forward, warpgroups -----------------------------------------------------------------------
SLAB_ALIGNMENT = 1024
"""Bytes that tiles in shared memory begin at multiples of, as wgmma requires."""
WARPGROUP_STAGES = 2
WARPGROUP_SHARED = 226 << 10
"""Bytes of shared memory that a block can have beside its barriers."""
QUERY_TILE_OVERHEAD = 2.5e-6
"""Seconds of a tile of queries before its first product and after its last one."""


class WarpgroupTile(NamedTuple):
    """Warpgroups of 64 queries, keys of a tile, and the share of the tensor cores' rate.

    ordered  the warpgroups issue their products one after the other
    """

    warpgroups: int
    keys: int
    reach: float
    ordered: bool = True

    @property
    def queries(self) -> int:
        return 64 * self.warpgroups

    def shared(self, head: int, buffers: int) -> int:
        """Bytes of shared memory; columns are stored in slabs of 64."""
        row = 128 * cdiv(head, 64)
        return SLAB_ALIGNMENT + row * (buffers * self.queries + 2 * WARPGROUP_STAGES * self.keys)

    def buffers(self, head: int) -> int:
        """Tiles of queries in shared memory: two where they fit."""
        return 2 if self.shared(head, 2) <= WARPGROUP_SHARED else 1

    def time(self, p: Problem, tiles: int, gpu: Target) -> float:
        """Modelled seconds: those of the SM with the most tiles, at least the memory traffic."""
        rate = 2 * gpu.tf32 / gpu.sms * self.reach
        block = 4 * self.queries * self.keys * p.head / rate
        block += mask_time(p, self.queries * self.keys, shared=False)
        longest = QUERY_TILE_OVERHEAD + cdiv(p.seen_keys, self.keys) * block
        work = cdiv(tiles, gpu.sms) * longest
        if p.causal:  # the last tiles of keys are seen in part
            rest = (self.keys - math.gcd(self.queries, self.keys)) / 2
            seen = min(p.seen_keys, p.keys * p.share + self.queries / 2) + rest
            mean = QUERY_TILE_OVERHEAD + seen / self.keys * block
            work = max(min(work, longest), tiles / gpu.sms * mean)
        return gpu.launch + FIXED + max(work, traffic(p, gpu))


WARPGROUP_TILES = {
    32: (WarpgroupTile(warpgroups=3, keys=128, reach=0.24),),
    48: (WarpgroupTile(warpgroups=3, keys=128, reach=0.34),),
    80: (
        WarpgroupTile(warpgroups=2, keys=128, reach=0.41),
        WarpgroupTile(warpgroups=2, keys=160, reach=0.44),
    ),
}
"""Tiles of warpgroups by head size; TMA is as fast for heads of 64 and for larger ones."""
