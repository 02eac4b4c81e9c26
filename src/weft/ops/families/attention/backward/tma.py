"""Plan the gradients of attention by five products, whose tiles are copied by TMA: for Hopper."""

from __future__ import annotations

import functools

import torch

from weft.kernels import Kernel, cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Buffer, Counters, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.attention.backward import tma_model as model
from weft.ops.families.attention.backward.job import LSE, AttentionBackwardJob
from weft.ops.families.attention.backward.tma_model import KEYS, StreamedTile
from weft.ops.families.attention.boxes import SLAB, float_map, operand_map
from weft.ops.families.attention.model import heads_at_once
from weft.ops.families.attention.problem import FREE, Operand
from weft.ops.families.attention.structs import Streamed
from weft.ops.families.attention.warpgroup import CAPABILITY

THREADS = 384
ROW = 256
"""Floats of a row of the map of sums."""


def candidates(job: AttentionBackwardJob, gpu: Target) -> list[Candidate]:
    """Candidates of these kernels.

    None for other GPUs, masks, dropout, ragged batches and other heads.
    """
    p = job.problem
    if gpu.capability != CAPABILITY or p.drop or p.mask != FREE or p.starts[0] is not None:
        return []
    if p.dtype is torch.float32:
        return []
    made = []
    for tile in model.TILES.get(p.head, ()):
        cost = model.time(tile, p, gpu) + job.operands.cost
        why = f"{model.strips(p)} blocks of keys for {gpu.sms} SMs"
        build = functools.partial(_plan, job, tile, gpu)
        made.append(Candidate(f"{tile.queries} queries a step, TMA", cost, why, build))
    return made


def _plan(job: AttentionBackwardJob, tile: StreamedTile, gpu: Target) -> Plan:
    p = job.problem
    tiles = cdiv(p.rows, tile.queries)
    count = tiles * p.heads * p.batch
    whole = model.whole(p)
    floats = model.sum_floats(p.head, tile.queries)
    scratch = [
        Buffer((count * 2 * tile.queries,), torch.float32),
        Buffer((count,), torch.uint32),
        Buffer((ROW if whole else count * floats,), torch.float32),
    ]
    made = job.operands
    rows, done, sums = (Pointer(made.first + len(made.scratch) + n) for n in range(3))
    dout, q, k, v, out = job.inputs
    at_once = heads_at_once(p, gpu, cdiv(p.keys, KEYS), job.key_heads)
    structs = (*job.structs(at_once), Streamed(tiles, int(whole)).pack())
    dq, dk, dv = (job.result(n) for n in range(3))
    shared_heads = p.heads // p.group
    maps = (
        operand_map(q, p, (p.depth, p.rows, p.heads), (SLAB, tile.queries, 1, 1)),
        operand_map(k, p, (p.depth, p.keys, shared_heads), (SLAB, KEYS, 1, 1)),
        operand_map(v, p, (p.width, p.keys, shared_heads), (SLAB, KEYS, 1, 1)),
        operand_map(dout, p, (p.width, p.rows, p.heads), (SLAB, tile.queries, 1, 1)),
        float_map(rows, tile.queries, 2 * count, 1),
        float_map(sums, ROW, 1 if whole else count * floats // ROW, 1 if whole else floats // ROW),
        operand_map(
            Operand(dq, p.strides(job.results[0])),
            p,
            (p.depth, p.rows, p.heads),
            (SLAB, tile.queries, 1, 1),
        )
        if whole
        else float_map(sums, ROW, 1, 1),
    )
    given = (out.pointer, dout.pointer, Pointer(LSE), job.dlse, rows, done, *structs)
    lanes = min(32, 1 << (p.head // 8 - 1).bit_length())
    blocks = cdiv(count * tile.queries * lanes, 256)
    steps = [Step(_kernel(job, tile, "prepare"), (blocks,), (256,), given)]
    args = (*maps, dk, dv, done, Counters(), *structs)
    grid = (min(model.strips(p), gpu.sms),)
    kernel = _kernel(job, tile, "gradients", *tile.words)
    shared = tile.shared(p.head)
    steps.append(Step(kernel, grid, (THREADS,), args, shared, early=True))
    if not whole:
        finish = _kernel(job, tile, "finish")
        steps.append(Step(finish, (count,), (256,), (sums, dq, *structs), early=True))
    # No scratch of `delta`: `prepare` leaves the sums of rows in `rows`.
    return Plan((*made.steps, *steps), job.results, (*made.scratch, *scratch))


def _kernel(job: AttentionBackwardJob, tile: StreamedTile, name: str, *words: object) -> Kernel:
    p = job.problem
    text = source.template(name, source.ctype(p.dtype), p.head, tile.queries, *words)
    return source.kernel("attention/tma_backward.cu", text, **Streamed.define())
