"""Plans products of 16-bit elements by warpgroups: Hopper's tensor cores read shared memory."""

from __future__ import annotations

import functools
from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Plan, Step
from weft.ops.core.target import Target
from weft.ops.families.matmul.half import Side, sides
from weft.ops.families.matmul.product import Product

CAPABILITY = (9, 0)
ALIGNMENT = 1024
"""Bytes that tiles in shared memory begin at multiples of."""
ROWS, DEEP = 128, 64
"""Rows of a tile, and K of a stage."""


class Tile(NamedTuple):
    """A tile of C.

    third     a third warpgroup copies; else two blocks of an SM cover each other's waits
    reach     the share of the tensor cores' dense rate in the loop over K
    over      seconds before and after the loop, once for the blocks that an SM holds
    block     seconds of each block
    """

    bn: int
    stages: int
    third: bool
    reach: float
    over: float
    block: float

    @property
    def threads(self) -> int:
        return 384 if self.third else 256

    @property
    def resident(self) -> int:
        """Blocks that an SM holds."""
        return 1 if self.third else 2

    @property
    def shared(self) -> int:
        """Bytes of shared memory: the stages, or later the results of all warps."""
        return ALIGNMENT + max(2 * DEEP * self.stages * (ROWS + self.bn), 2 * ROWS * (self.bn + 8))

    def time(self, gpu: Target, blocks: int, steps: int) -> float:
        """Modelled seconds of the SM with the most blocks, each of so many stages of K."""
        most = cdiv(blocks, gpu.sms)
        loop = 2 * ROWS * self.bn * steps * DEEP / (2 * gpu.tf32 / gpu.sms * self.reach)
        return most * (loop + self.block) + cdiv(most, self.resident) * self.over


TILES = (
    Tile(256, 4, True, 0.65, 4.8e-6, 0.0),
    Tile(128, 3, False, 0.58, 2.3e-6, 1.1e-6),
)


def groups(p: Product, gpu: Target) -> list[Candidate]:
    """Candidates of this kernel: none for other GPUs, nor for rows that are no whole vectors."""
    a, b = sides(p)
    if not gpu.real or gpu.capability != CAPABILITY or min(a.bytes, b.bytes) < 16 or p.k < DEEP:
        return []
    moved = 2 * p.batch * (p.m * p.k + p.k * p.n + p.m * p.n)
    candidates = []
    for tile in TILES:
        blocks = cdiv(p.m, ROWS) * cdiv(p.n, tile.bn) * p.batch
        work = tile.time(gpu, blocks, cdiv(p.k, DEEP))
        cost = gpu.launch + max(work, moved / gpu.bandwidth)
        why = f"{blocks} blocks for {gpu.sms} SMs, warpgroups"
        build = functools.partial(plan, p, tile, a, b)
        candidates.append(Candidate(f"{ROWS} x {tile.bn}, warpgroups", cost, why, build))
    return candidates


def plan(p: Product, tile: Tile, a: Side, b: Side) -> Plan:
    words = (
        source.ctype(p.out.dtype), tile.bn, tile.stages, tile.third, a.deep, b.deep,
        p.activation, p.bias is not None and p.bias[2] != 0,
    )  # fmt: skip
    shape = ", ".join(str(w).lower() if isinstance(w, bool) else str(w) for w in words)
    kernel = source.kernel("matmul/matmul_groups.cu", f"half_groups<{shape}>")
    tiles = (cdiv(p.m, ROWS), cdiv(p.n, tile.bn))
    problem = p.problem(1, p.k, tiles, a.pitch, b.pitch)
    args = (p.a.pointer, p.b.pointer, p.bias[0] if p.bias else None, p.c, problem)
    step = Step(kernel, p.grid(tiles[0] * tiles[1]), (tile.threads,), args, tile.shared)
    return Plan((*p.before, step), (p.out,), p.scratch)
