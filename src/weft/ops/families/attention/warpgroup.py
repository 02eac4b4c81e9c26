"""Plan attention by warpgroups: the kernel for Hopper, whose tensor cores read shared memory."""

from __future__ import annotations

import functools

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Counters, Plan, Step
from weft.ops.core.target import Target
from weft.ops.families.attention import model
from weft.ops.families.attention.forward_job import AttentionJob
from weft.ops.families.attention.model import WarpgroupTile
from weft.ops.families.attention.problem import EXPRESSION

CAPABILITY = (9, 0)


def candidates(job: AttentionJob, gpu: Target) -> list[Candidate]:
    """Candidates of this kernel: none for other GPUs, dropout, windows and other heads."""
    p = job.problem
    if gpu.capability != CAPABILITY or p.drop or p.windowed or p.mask == EXPRESSION:
        return []
    made = []
    for tile in model.WARPGROUP_TILES.get(p.head, ()):
        tiles = cdiv(p.rows, tile.queries) * p.heads * p.batch
        name = f"{tile.queries} x {tile.keys}, warpgroups"
        why = f"{tiles} tiles for {gpu.sms} SMs"
        build = functools.partial(_plan, job, tile, tiles, gpu)
        made.append(Candidate(name, tile.time(p, tiles, gpu), why, build))
    return made


def _plan(job: AttentionJob, tile: WarpgroupTile, tiles: int, gpu: Target) -> Plan:
    p = job.problem
    buffers = tile.buffers(p.head)
    shape = (p.head, tile.keys, tile.warpgroups, buffers, p.mask, tile.ordered)
    words = ", ".join(map(str, (source.ctype(p.dtype), *shape))).lower()
    kernel = source.kernel("attention/warpgroup_forward.cu", f"attend<{words}>")
    heads = p.batch * p.heads
    at_once = model.heads_at_once(p, gpu, tiles // heads, heads)
    args = (*job.pointers, Counters(), p.packed(job.strides, at_once=at_once))
    threads = 128 * (tile.warpgroups + 1)
    shared = tile.shared(p.head, buffers)
    step = Step(kernel, (min(tiles, gpu.sms),), (threads,), args, shared, early=True)
    return job.plan((step,))
