"""Plans products of 16-bit elements on tensor cores, with sums in single precision."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import COUNTERS, Argument, Buffer, Counters, Plan, Step
from weft.ops.core.target import Target
from weft.ops.families.matmul.product import Operand, Product


class Tile(NamedTuple):
    """A tile of C: the parts computed by a block and by a warp.

    resident  blocks that an SM holds
    reach     the share of the tensor cores' dense rate in the loop over K
    over      seconds before and after the loop, once for the blocks that an SM holds
    """

    bm: int
    bn: int
    bk: int
    wm: int
    wn: int
    stages: int
    resident: int
    reach: float
    over: float

    @property
    def threads(self) -> int:
        return self.bm // self.wm * (self.bn // self.wn) * 32

    @property
    def shared(self) -> int:
        """Bytes of shared memory: the stages, or later the results of all warps."""
        stages = 2 * self.stages * self.bk * (self.bm + self.bn)
        return max(stages, self.threads // 32 * self.wm * (self.wn + 8) * 2)


TILES = (
    Tile(128, 256, 64, 64, 64, 3, 1, 0.42, 4e-6),
    Tile(128, 128, 64, 64, 64, 3, 2, 0.39, 4e-6),
    Tile(64, 128, 64, 32, 64, 3, 2, 0.36, 3e-6),
    Tile(64, 64, 64, 32, 32, 4, 3, 0.33, 2e-6),
    Tile(32, 64, 64, 16, 32, 4, 4, 0.22, 2e-6),
    Tile(32, 32, 64, 16, 16, 4, 6, 0.14, 1.5e-6),
)
LOOSE = (
    Tile(128, 128, 64, 64, 32, 3, 1, 0.39, 8e-6),
    Tile(64, 64, 64, 32, 32, 3, 2, 0.33, 8e-6),
    Tile(32, 32, 64, 16, 16, 3, 4, 0.14, 3e-6),
)
"""For rows that begin at any element: these wait in registers for a stage."""
SLOWER = {16: 1.0, 8: 0.85, 4: 0.6, 2: 0.25}
"""The relative rate by the bytes of a copy."""
SPLITS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)
JOIN = 2.5e-11
"""Seconds per byte of a tile, by which each part of K makes the last block wait."""


class Side(NamedTuple):
    """How an operand is read: along K or not, bytes at a time, and the stride that is not 1."""

    deep: bool
    bytes: int
    pitch: int


def sides(p: Product) -> tuple[Side, Side]:
    """How both operands are read."""
    return side(p.a, p.m, p.k), side(p.b, p.n, p.k)


def side(x: Operand, extent: int, depth: int) -> Side:
    """The widest copies that the address and the strides of an operand allow.

    A row without a pitch may end where its memory ends, so its copies are whole: compute-sanitizer
    counts all bytes of a copy as read, also those that cp.async leaves out.
    """
    deep = x.k == 1 or depth == 1
    pitch = x.along if deep else x.k
    apart = pitch or (depth if deep else extent)
    wide = 16
    while wide > 2 and (x.base % wide or 2 * apart % wide or 2 * x.batch % wide):
        wide //= 2
    return Side(deep, wide, pitch)


def half(p: Product, gpu: Target, most: int = 8) -> list[Candidate]:
    """Candidates for a product of float16 or bfloat16."""
    a, b = sides(p)
    slow = min(SLOWER[a.bytes], SLOWER[b.bytes])
    moved = 2 * p.batch * (p.m * p.k + p.k * p.n + p.m * p.n)
    candidates = []
    for tile in LOOSE if min(a.bytes, b.bytes) == 2 else TILES:
        tiles = cdiv(p.m, tile.bm) * cdiv(p.n, tile.bn)
        for splits in SPLITS:
            each = cdiv(cdiv(max(p.k, 1), splits), tile.bk) * tile.bk
            if splits > 1 and (
                each < 4 * tile.bk or cdiv(p.k, each) != splits or tiles * p.batch > COUNTERS
                or tiles * p.batch > 2 * gpu.sms
            ):  # fmt: skip
                continue
            blocks = tiles * splits * p.batch
            waves = cdiv(blocks, gpu.sms)
            busy = min(1.0, min(waves, tile.resident) * tile.threads / 256)
            rate = 2 * gpu.tf32 / gpu.sms * tile.reach * busy * slow
            work = waves * 2 * tile.bm * tile.bn * each / rate
            work += cdiv(waves, tile.resident) * tile.over
            time = gpu.launch + max(work, moved / gpu.bandwidth)
            time += 2e-6 + splits * JOIN * 4 * tile.bm * tile.bn if splits > 1 else 0
            name = f"{tile.bm} x {tile.bn}" + (f", K in {splits}" if splits > 1 else "")
            why = f"{blocks} blocks for {gpu.sms} SMs, copies of {a.bytes} and {b.bytes} bytes"
            build = functools.partial(plan, p, tile, splits, each, a, b)
            candidates.append(Candidate(name, time, why, build))
    return sorted(candidates, key=lambda c: c.cost)[:most]


def plan(p: Product, tile: Tile, splits: int, each: int, a: Side, b: Side) -> Plan:
    tiles = (cdiv(p.m, tile.bm), cdiv(p.n, tile.bn))
    words = (
        source.ctype(p.out.dtype), *tile[:7], a.deep, a.bytes, b.deep, b.bytes, p.activation,
        splits > 1, p.bias is not None and p.bias[2] != 0,
    )  # fmt: skip
    shape = ", ".join(str(w).lower() if isinstance(w, bool) else str(w) for w in words)
    kernel = source.kernel("matmul/matmul_half.cu", f"half_tiled<{shape}>")
    count = tiles[0] * tiles[1]
    scratch: tuple[Buffer, ...] = ()
    parts: tuple[Argument, ...] = (None, None)
    if splits > 1:
        size = p.batch * count * splits * tile.bm * tile.bn
        scratch = (Buffer((size,), torch.float32),)
        parts = (p.scratch_number(), Counters())
    problem = p.problem(splits, each, tiles, a.pitch, b.pitch)
    args = (p.a.pointer, p.b.pointer, p.bias[0] if p.bias else None, p.c, *parts, problem)
    step = Step(kernel, p.grid(count * splits), (tile.threads,), args, tile.shared)
    return Plan((*p.before, step), (p.out,), (*p.scratch, *scratch))
