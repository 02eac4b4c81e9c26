"""Plans products with one tile of C per block, and split-K if there are few tiles."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import COUNTERS, Argument, Buffer, Counters, Plan, Step
from weft.ops.core.target import Target
from weft.ops.families.matmul.product import TURNED, WIDE, Product


class Tile(NamedTuple):
    """A tile of C: the parts computed by a block, a warp and a thread.

    The last four describe its time, fitted to the 296 products with a plain B in
    benchmarks/records/matmul_tiles.jsonl with an error of 5 to 8 %:

    resident  blocks that an SM holds
    reach     the share of the arithmetic peak in the loop over K
    over      seconds before and after the loop, once for the blocks that an SM holds
    join      seconds per byte of a tile, by which each part of K makes the last block wait
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
    reach: float
    over: float
    join: float

    @property
    def threads(self) -> int:
        return self.bm // self.wm * (self.bn // self.wn) * 32

    def fits(self, a_mode: int, b_mode: int) -> bool:
        """True if its threads copy whole rows of both operands; see Side of gemm.cuh."""
        sides = (_copies(self.bm, self.bk, a_mode), _copies(self.bn, self.bk, b_mode))
        return all(self.threads % side == 0 for side in sides)

    def shared(self, a_mode: int, b_mode: int) -> int:
        """Bytes of shared memory."""
        rows = self.bm + 4 * (a_mode == TURNED) + self.bn + 4 * (b_mode == TURNED)
        return 4 * self.stages * self.bk * rows


def _copies(side: int, depth: int, mode: int) -> int:
    """Copies of a tile that are side by side in memory."""
    return depth if mode == TURNED else side // (4 if mode == WIDE else 1)


TILES = (
    Tile(128, 256, 8, 64, 64, 8, 16, 3, 1, 0.72, 4e-6, 0.8e-11),
    Tile(64, 256, 8, 64, 64, 8, 16, 3, 2, 0.735, 4e-6, 1.5e-11),
    Tile(128, 128, 8, 64, 32, 8, 8, 3, 2, 0.69, 4e-6, 0.8e-11),
    Tile(128, 96, 8, 64, 32, 8, 8, 4, 2, 0.66, 4e-6, 0.8e-11),
    Tile(96, 128, 8, 32, 64, 8, 8, 4, 2, 0.66, 4e-6, 0.8e-11),
    Tile(64, 128, 8, 32, 64, 8, 8, 4, 4, 0.69, 4e-6, 1.5e-11),
    Tile(128, 32, 16, 32, 32, 8, 4, 3, 5, 0.58, 2e-6, 2.5e-11),
    Tile(32, 128, 16, 32, 32, 8, 4, 3, 5, 0.58, 2e-6, 2.5e-11),
    Tile(64, 64, 16, 32, 32, 8, 4, 3, 5, 0.60, 2e-6, 2.5e-11),
    Tile(32, 64, 16, 16, 32, 4, 4, 4, 8, 0.54, 1e-6, 2.5e-11),
    Tile(32, 32, 16, 16, 32, 4, 4, 4, 16, 0.45, 2e-6, 3.8e-11),
)
NARROWED = 0.92
"""The relative rate if B is copied 4 bytes at a time."""
FEW_WARPS = 0.85
"""The relative rate with less than two warps per scheduler: nothing else covers their waits."""
SPLITS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)


def tiled(p: Product, gpu: Target, most: int = 8) -> list[Candidate]:
    candidates = []
    a_mode, b_mode = p.a.mode(p.m, p.k), p.b.mode(p.n, p.k)
    assert a_mode is not None and b_mode is not None
    moved = 4 * p.batch * (p.m * p.k + p.k * p.n + p.m * p.n)
    for tile in (t for t in TILES if t.fits(a_mode, b_mode)):
        tiles = cdiv(p.m, tile.bm) * cdiv(p.n, tile.bn)
        for splits in SPLITS:
            each = cdiv(cdiv(max(p.k, 1), splits), tile.bk) * tile.bk
            if splits > 1 and (
                each < 4 * tile.bk or cdiv(p.k, each) != splits or tiles * p.batch > COUNTERS
                or tiles * p.batch > 2 * gpu.sms
            ):  # fmt: skip
                continue
            cost = _time(p, tile, tiles, splits, each, moved, gpu)
            name = f"{tile.bm} x {tile.bn}" + (f", K in {splits}" if splits > 1 else "")
            why = f"{tiles * p.batch * splits} blocks for {gpu.sms} SMs"
            build = functools.partial(_plan_tiled, p, tile, splits, each, a_mode, b_mode)
            candidates.append(Candidate(name, cost, why, build))
    return sorted(candidates, key=lambda c: c.cost)[:most]


def _time(
    p: Product, tile: Tile, tiles: int, splits: int, each: int, moved: int, gpu: Target
) -> float:
    """The modelled time: that of the SM with the most blocks, at least the memory time."""
    blocks = tiles * splits * p.batch
    most = cdiv(blocks, gpu.sms)
    # An SM needs at least four warps to issue on all its schedulers.
    warps = min(most, tile.resident) * tile.threads / 128  # of a scheduler
    busy = min(1.0, warps) * (1 if warps >= 2 else FEW_WARPS)
    rate = gpu.fp32 / gpu.sms * tile.reach * busy
    rate *= 1 if p.b.mode(p.n, p.k) == WIDE else NARROWED
    work = most * 2 * tile.bm * tile.bn * each / rate + cdiv(most, tile.resident) * tile.over
    time = gpu.launch + max(work, moved / gpu.bandwidth)
    if splits > 1:
        time += 2e-6 + splits * tile.join * 4 * tile.bm * tile.bn
    return time


def _plan_tiled(p: Product, tile: Tile, splits: int, each: int, a_mode: int, b_mode: int) -> Plan:
    tiles = (cdiv(p.m, tile.bm), cdiv(p.n, tile.bn))
    split = str(splits > 1).lower()
    shape = ", ".join(map(str, (*tile[:9], a_mode, b_mode, p.activation, split)))
    kernel = source.kernel("matmul/matmul.cu", f"tiled<{shape}>")
    count = tiles[0] * tiles[1]
    scratch: tuple[Buffer, ...] = ()
    parts: tuple[Argument, ...] = (None, None)
    if splits > 1:
        size = p.batch * count * splits * tile.bm * tile.bn
        scratch = (Buffer((size,), torch.float32),)
        parts = (p.scratch_number(), Counters())
    problem = p.problem(splits, each, tiles, p.a.pitch(a_mode), p.b.pitch(b_mode))
    args = (p.a.pointer, p.b.pointer, p.bias[0] if p.bias else None, p.c, *parts, problem)
    step = Step(kernel, p.grid(count * splits), (tile.threads,), args, tile.shared(a_mode, b_mode))
    return Plan((*p.before, step), (p.out,), (*p.scratch, *scratch))
