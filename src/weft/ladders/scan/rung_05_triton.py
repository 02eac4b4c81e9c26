"""
rung:   05 triton
idea:   Triton scans a block with `tl.cumsum`; three launches combine the blocks
arrays: torch
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _tile_sums(x, sums, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(sums + tl.program_id(0), tl.sum(tl.load(x + i, mask=i < n, other=0.0)))


@triton.jit
def _scan_tiles(x, y, before, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    start = tl.load(before + tl.program_id(0))
    tl.store(y + i, start + tl.cumsum(tl.load(x + i, mask=i < n, other=0.0)), mask=i < n)


def run(x, y, n):
    tiles = triton.cdiv(n, 4096)
    sums = torch.empty(tiles, device=x.device)
    _tile_sums[(tiles,)](x, sums, n, BLOCK=4096, num_warps=8)
    before = torch.cumsum(torch.nn.functional.pad(sums, (1, 0)), 0)
    _scan_tiles[(tiles,)](x, y, before, n, BLOCK=4096, num_warps=8)
