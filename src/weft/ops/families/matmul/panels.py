"""Plans products of 16-bit elements with rows that begin at any element, in one launch."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import COUNTERS, Argument, Buffer, Counters, Plan, Step
from weft.ops.core.target import Target
from weft.ops.families.matmul.half import JOIN, SPLITS, Side, sides
from weft.ops.families.matmul.product import Product

WHOLE = 256
"""The largest K that is in shared memory at once."""
STEP = 32
"""The depths that kernels are compiled for are multiples of it."""
PIECE = 128
"""The depth of panels of a longer K."""
LONG = 1024
"""The largest K: its panels wait for each other, so that a copy to aligned rows pays."""


class Tile(NamedTuple):
    """A tile of C: the parts computed by a block and by a warp.

    resident  blocks that an SM holds, if shared memory allows
    over      seconds of a panel, once for the blocks that an SM holds
    block     seconds of an SM for a block, beside those for its panels
    term      seconds of an SM for each of K
    """

    bm: int
    bn: int
    wm: int
    wn: int
    resident: int
    over: float
    block: float
    term: float

    @property
    def threads(self) -> int:
        return self.bm // self.wm * (self.bn // self.wn) * 32

    def shared(self, depth: int, a: Side, b: Side) -> int:
        """Bytes of shared memory: both panels, or later the results of all warps."""
        panels = sum(_panel(*of, depth) for of in ((self.bm, a), (self.bn, b)))
        return 2 * max(panels, self.threads // 32 * self.wm * (self.wn + 8))


def _panel(size: int, x: Side, depth: int) -> int:
    """Elements of a panel, whose rows are 16 bytes longer than what they hold."""
    return size * (depth + 8) if x.deep else depth * (size + 8)


TILES = (
    Tile(128, 128, 32, 64, 2, 1.3e-6, 2.4e-6, 17.6e-9),
    Tile(64, 64, 32, 32, 4, 2.2e-6, 0.5e-6, 6.0e-9),
    Tile(32, 64, 16, 32, 6, 1.2e-6, 0.3e-6, 5.4e-9),
    Tile(32, 32, 16, 16, 8, 0.7e-6, 0.2e-6, 4.0e-9),
)


def panels(p: Product, gpu: Target, most: int = 8) -> list[Candidate]:
    """Candidates for a product of which an operand is not read by 16 bytes."""
    a, b = sides(p)
    if not 0 < p.k <= LONG or min(a.bytes, b.bytes) == 16:
        return []
    depth = cdiv(p.k, STEP) * STEP if p.k <= WHOLE else PIECE
    moved = 2 * p.batch * (p.m * p.k + p.k * p.n + p.m * p.n)
    candidates = []
    for tile in TILES:
        shared = tile.shared(depth, a, b)
        resident = min(tile.resident, gpu.shared_per_sm // (shared + 1024))
        if not resident or shared > gpu.shared_per_block:
            continue
        tiles = cdiv(p.m, tile.bm) * cdiv(p.n, tile.bn)
        for splits in SPLITS:
            each = cdiv(cdiv(p.k, splits), depth) * depth
            if splits > 1 and (
                each < 2 * depth or cdiv(p.k, each) != splits or tiles * p.batch > COUNTERS
                or tiles * p.batch > 2 * gpu.sms
            ):  # fmt: skip
                continue
            blocks = tiles * p.batch * splits
            most_blocks = cdiv(blocks, gpu.sms)
            work = cdiv(most_blocks, resident) * cdiv(each, depth) * tile.over
            work += most_blocks * (tile.block + each * tile.term)
            time = gpu.launch + max(work, moved / gpu.bandwidth)
            time += 3.5e-6 + splits * JOIN * 4 * tile.bm * tile.bn if splits > 1 else 0
            name = f"panels of {tile.bm} x {tile.bn}" + (f", K in {splits}" if splits > 1 else "")
            why = f"{blocks} blocks for {gpu.sms} SMs, {depth} of K at a time"
            build = functools.partial(_plan, p, tile, depth, splits, each, a, b)
            candidates.append(Candidate(name, time, why, build))
    return sorted(candidates, key=lambda c: c.cost)[:most]


def _plan(
    p: Product, tile: Tile, depth: int, splits: int, each: int, a: Side, b: Side
) -> Plan:  # fmt: skip
    words = (
        source.ctype(p.out.dtype), tile.bm, tile.bn, depth, tile.wm, tile.wn, tile.resident,
        a.deep, b.deep, p.activation, splits > 1, p.bias is not None and p.bias[2] != 0,
    )  # fmt: skip
    shape = ", ".join(str(w).lower() if isinstance(w, bool) else str(w) for w in words)
    kernel = source.kernel("matmul/matmul_half.cu", f"half_panels<{shape}>")
    tiles = (cdiv(p.m, tile.bm), cdiv(p.n, tile.bn))
    count = tiles[0] * tiles[1]
    scratch: tuple[Buffer, ...] = ()
    parts: tuple[Argument, ...] = (None, None)
    if splits > 1:
        scratch = (Buffer((p.batch * count * splits * tile.bm * tile.bn,), torch.float32),)
        parts = (p.scratch_number(), Counters())
    problem = p.problem(splits, each, tiles, a.pitch, b.pitch)
    args = (p.a.pointer, p.b.pointer, p.bias[0] if p.bias else None, p.c, *parts, problem)
    shared = tile.shared(depth, a, b)
    step = Step(kernel, p.grid(count * splits), (tile.threads,), args, shared)
    return Plan((*p.before, step), (p.out,), (*p.scratch, *scratch))
