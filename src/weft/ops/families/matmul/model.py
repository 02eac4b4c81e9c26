"""Cost model of matrix products: split K, float32, and products that are limited by memory.

Every constant was fitted on an NVIDIA H200; a comment names the record in benchmarks/records.
`half_model` has the tiles of 16-bit elements. `reach` is the share of a peak rate in the loop over
K, `over` the seconds before and after that loop, once for the blocks that an SM holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core.plan import COUNTERS
from weft.ops.core.target import Target
from weft.ops.families.matmul.product import ALONG_K, VECTOR, Product

# ---- split K -----------------------------------------------------------------------------------
SPLIT_K = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)
"""Numbers of parts that K is split into, if there are few tiles."""
SPLIT_OVERHEAD = 2e-6
"""Seconds by which parts of K make the last block of a tile wait, beside their bytes."""


def split_k(p: Product, tiles: int, bk: int, least: int, gpu: Target) -> Iterator[tuple[int, int]]:
    """Yield numbers of parts and the K of each: a multiple of bk, at least `least` if split."""
    room = tiles * p.batch <= min(COUNTERS, 2 * gpu.sms)
    for splits in SPLIT_K:
        each = cdiv(cdiv(max(p.k, 1), splits), bk) * bk
        if splits == 1 or (room and each >= least and cdiv(p.k, each) == splits):
            yield splits, each


def traffic(p: Product) -> int:
    """Bytes of both operands and the result."""
    size = p.out.dtype.itemsize
    stored = p.stored.itemsize if p.stored else size
    return int(p.batch * (size * (p.m * p.k + p.k * p.n) + stored * p.m * p.n))


TAIL = 0.49
"""Power of the most blocks of an SM relative to the mean, by which blocks that stream 16-bit
operands take longer (pipelined_products.jsonl)."""

SM_STREAM = 48e9
"""Bytes per second that an SM reads from memory (pipelined_products.jsonl)."""


def streamed(p: Product, blocks: int, sms: int, gpu: Target) -> float:
    """Seconds of the memory traffic of so many equal blocks: a few of them, and the last ones of a
    few SMs, do not use all of the bandwidth.
    """
    most = cdiv(blocks, sms)
    waste = (most * sms / blocks) ** TAIL if most > 1 else 1.0
    return traffic(p) / min(gpu.bandwidth, blocks * SM_STREAM) * waste


# ---- float32 -----------------------------------------------------------------------------------
class TileShape(NamedTuple):
    """A tile of C in float32: the parts computed by a block, a warp and a thread.

    resident  blocks that an SM holds
    """

    bm: int
    bn: int
    bk: int
    wm: int
    wn: int
    tm: int
    tn: int
    stages: int
    resident: int

    @property
    def threads(self) -> int:
        return self.bm // self.wm * (self.bn // self.wn) * 32


class GemmTile(NamedTuple):
    """A tile, and its time, fitted to the 296 products with a plain B in matmul_tiles.jsonl with an
    error of 5 to 8 %.

    reach  share of the FP32 peak
    over   seconds, see above
    join   seconds per byte of a tile, by which each part of K makes the last block wait
    """

    shape: TileShape
    reach: float
    over: float
    join: float

    def fits(self, a_mode: int, b_mode: int) -> bool:
        """True if its threads copy whole rows of both operands; see Side of tiled.cuh."""
        t = self.shape
        sides = (_copies(t.bm, t.bk, a_mode), _copies(t.bn, t.bk, b_mode))
        return all(t.threads % side == 0 for side in sides)

    def shared(self, a_mode: int, b_mode: int) -> int:
        """Bytes of shared memory."""
        t = self.shape
        rows = t.bm + 4 * (a_mode == ALONG_K) + t.bn + 4 * (b_mode == ALONG_K)
        return 4 * t.stages * t.bk * rows

    def time(self, p: Product, tiles: int, splits: int, each: int, gpu: Target) -> float:
        """Modelled seconds: those of the SM with the most blocks, at least the memory traffic."""
        t = self.shape
        most = cdiv(tiles * splits * p.batch, gpu.sms)
        # An SM needs at least four warps to issue on all its schedulers.
        warps = min(most, t.resident) * t.threads / 128  # of a scheduler
        busy = min(1.0, warps) * (1 if warps >= 2 else ONE_WARP_RATE)
        rate = gpu.fp32 / gpu.sms * self.reach * busy
        rate *= 1 if p.b.mode(p.n, p.k) == VECTOR else SCALAR_COPY_RATE
        work = most * 2 * t.bm * t.bn * each / rate + cdiv(most, t.resident) * self.over
        time = gpu.launch + max(work, traffic(p) / gpu.bandwidth)
        if splits > 1:
            time += SPLIT_OVERHEAD + splits * self.join * 4 * t.bm * t.bn
        return time


def _copies(side: int, depth: int, mode: int) -> int:
    """Copies of a tile that are side by side in memory."""
    return depth if mode == ALONG_K else side // (4 if mode == VECTOR else 1)


SCALAR_COPY_RATE = 0.92
"""Relative rate if B is copied 4 bytes at a time (matmul_tiles.jsonl)."""
ONE_WARP_RATE = 0.85
"""Relative rate with less than two warps per scheduler, as nothing else covers their waits
(matmul_tiles.jsonl)."""


def _large(bm: int, bn: int, wm: int, wn: int, tn: int, stages: int, resident: int, reach: float,
           join: float) -> GemmTile:  # fmt: skip
    shape = TileShape(bm, bn, 8, wm, wn, 8, tn, stages, resident)
    return GemmTile(shape, reach, over=4e-6, join=join)


def _small(bm: int, bn: int, wm: int, tm: int, stages: int, resident: int, reach: float,
           over: float, join: float = 2.5e-11) -> GemmTile:  # fmt: skip
    shape = TileShape(bm, bn, 16, wm, 32, tm, 4, stages, resident)
    return GemmTile(shape, reach, over, join)


GEMM_TILES = (
    _large(bm=128, bn=256, wm=64, wn=64, tn=16, stages=3, resident=1, reach=0.72, join=0.8e-11),
    _large(bm=64, bn=256, wm=64, wn=64, tn=16, stages=3, resident=2, reach=0.735, join=1.5e-11),
    _large(bm=128, bn=128, wm=64, wn=32, tn=8, stages=3, resident=2, reach=0.69, join=0.8e-11),
    _large(bm=128, bn=96, wm=64, wn=32, tn=8, stages=4, resident=2, reach=0.66, join=0.8e-11),
    _large(bm=96, bn=128, wm=32, wn=64, tn=8, stages=4, resident=2, reach=0.66, join=0.8e-11),
    _large(bm=64, bn=128, wm=32, wn=64, tn=8, stages=4, resident=4, reach=0.69, join=1.5e-11),
    _small(bm=128, bn=32, wm=32, tm=8, stages=3, resident=5, reach=0.58, over=2e-6),
    _small(bm=32, bn=128, wm=32, tm=8, stages=3, resident=5, reach=0.58, over=2e-6),
    _small(bm=64, bn=64, wm=32, tm=8, stages=3, resident=5, reach=0.60, over=2e-6),
    _small(bm=32, bn=64, wm=16, tm=4, stages=4, resident=8, reach=0.54, over=1e-6),
    _small(bm=32, bn=32, wm=16, tm=4, stages=4, resident=16, reach=0.45, over=2e-6, join=3.8e-11),
)


# ---- float32 by three products of tf32 ---------------------------------------------------------
class Tf32x3Tile(NamedTuple):
    """A tile of C, and the share of the tensor cores' tf32 rate (matmul_3xtf32.jsonl)."""

    bm: int
    bn: int
    bk: int
    wm: int
    wn: int
    stages: int
    reach: float

    @property
    def threads(self) -> int:
        return self.bm // self.wm * (self.bn // self.wn) * 32

    def time(self, p: Product, blocks: int, gpu: Target) -> float:
        """Modelled seconds."""
        work = 6 * self.bm * self.bn * max(p.k, 1) * cdiv(blocks, gpu.sms)
        return gpu.launch + TF32X3_OVERHEAD + work / (gpu.tf32 / gpu.sms * self.reach)


TF32X3_TILES = (
    Tf32x3Tile(bm=64, bn=128, bk=16, wm=32, wn=32, stages=3, reach=0.25),
    Tf32x3Tile(bm=64, bn=64, bk=16, wm=32, wn=16, stages=3, reach=0.20),
)
TF32X3_OVERHEAD = 2e-6
"""Seconds before and after the loop over K."""


# ---- products limited by memory ----------------------------------------------------------------
MEMORY_TIME = 1.1
"""Time relative to the bandwidth (fitted by hand on an H200)."""
MEMORY_OVERHEAD = 1e-6
"""Seconds of a kernel beside its launch and its bytes (fitted by hand on an H200)."""


def dots_columns(rows: int) -> int:
    """Columns of a warp of `dots`: two, if reads of A would take longer than those of B."""
    return 1 if rows < 4 else 2


class SkinnyM(NamedTuple):
    """Seconds of products with few rows of A (fitted by hand on an H200; those of `dots` to
    benchmarks/records/short_calls.jsonl and scaled_products.jsonl).

    scalar_time  time relative to the bandwidth for loads of 2 bytes
    row          for each row of A
    over         of `dots` beside its launch, its bytes and its warps
    memory_time  of `dots` relative to the bandwidth, if many blocks follow each other
    fill         share of that time by which it is longer, if all warps of `dots` are one wave of
                 WAVE_WARPS for each SM; the power `fewer` of the waves divides it
    warp_row     of an SM for a warp of `dots`, for each row of A
    turn         of a warp of `dots` for its reads of B that are under way together
    turn_row     of such reads for each row of A
    bytes_of_a   that an SM reads and multiplies per second
    """

    scalar_time: float
    row: float
    over: float
    memory_time: float
    fill: float
    fewer: float
    warp_row: float
    turn: float
    turn_row: float
    bytes_of_a: float

    def dots_time(
        self, p: Product, gpu: Target, rows: int, width: int, lines: int, splits: int, share: int
    ) -> float:
        """Modelled seconds of `dots`."""
        size, columns = p.out.dtype.itemsize, dots_columns(rows)
        warps = 8 * lines * splits * p.batch / gpu.sms
        slow = self.memory_time if width * size >= 4 else self.scalar_time
        slow *= 1.0 + self.fill * (WAVE_WARPS / max(warps, LEAST_WARPS)) ** self.fewer
        memory = slow * traffic(p) / gpu.bandwidth
        of_a = p.batch * p.k * p.n * p.m * size / columns / (gpu.sms * self.bytes_of_a)
        turns = cdiv(cdiv(p.k, splits * share), 4 // columns * 32 * width)
        wait = turns * (self.turn + p.m * self.turn_row) * max(1.0, warps * 32 / gpu.threads_per_sm)
        once = warps * p.m * self.warp_row
        time: float = gpu.launch + self.over + max(memory, of_a, wait) + once
        return time


WAVE_WARPS = 64
"""Warps that an SM holds."""
LEAST_WARPS = 8
"""Fewest warps of an SM in the records of `dots`: below, `turn` and `turn_row` tell their time."""
SKINNY_M = SkinnyM(
    scalar_time=2.0, row=1e-6, over=1e-6, memory_time=0.97, fill=0.069, fewer=1.5,
    warp_row=9.2e-9, turn=0.18e-6, turn_row=0.38e-6, bytes_of_a=49e9,
)  # fmt: skip


class SkinnyN(NamedTuple):
    """Instructions of a thread that computes a row of C (fitted by hand on an H200).

    b_vector  for a load of four elements of B and their products
    element   for an element of A or of C
    row       once
    """

    b_vector: int
    element: int
    row: int


SKINNY_N = SkinnyN(b_vector=16, element=12, row=40)
