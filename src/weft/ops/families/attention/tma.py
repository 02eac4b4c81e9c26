"""Plan attention by warpgroups whose tiles are copied by TMA: the kernel for Hopper."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import COUNTERS, Buffer, Counters, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.attention import model, tma_model
from weft.ops.families.attention.boxes import SLAB, operand_map
from weft.ops.families.attention.forward_job import AttentionJob
from weft.ops.families.attention.problem import Operand, Problem
from weft.ops.families.attention.structs import Units
from weft.ops.families.attention.tma_mask import CopiedMask, copied_mask
from weft.ops.families.attention.tma_model import UNIT, TmaTile, WorkDivision

CAPABILITY = (9, 0)
TICKETS = 2
"""Counters that blocks draw items from."""
MOST_PACKED = 8
"""Heads that are packed at most where there are as many queries as a unit has rows."""


def candidates(job: AttentionJob, gpu: Target) -> list[Candidate]:
    """Candidates of this kernel: none for other GPUs, for dropout and for other heads."""
    p = job.problem
    if gpu.capability != CAPABILITY or p.drop or not _sizes(job)[1]:
        return []
    made, mask = [], copied_mask(job, gpu)
    for tile in tma_model.TILES.get(p.head, ()):
        for work in _divisions(p, tile, gpu):
            if tile.shared(p.head, work.parts) * tile.blocks > tma_model.SHARED:
                continue
            masks = 0
            if mask is not None and work.pack == 1:
                masks = tile.masks(p.head, work.parts, mask.dtype.itemsize)
            if tile.bare if masks else tile.masked:
                continue
            work = work._replace(masks=masks)
            items = work.items(p) * work.parts
            name = f"{tile.warpgroups} x {tile.keys}, TMA"
            name += f", {tile.blocks} blocks" if tile.blocks > 1 else ""
            name += f", {work.units} units" if work.units != tile.warpgroups else ""
            name += f", {work.pack} heads packed" if work.pack > 1 and p.rows >= UNIT else ""
            name += f", keys in {work.parts}" if work.parts > 1 else ""
            why = f"{items} items for {gpu.sms} SMs"
            cost = tma_model.time(tile, work, p, gpu) + (mask.cost if mask and masks else 0.0)
            build = functools.partial(_plan, job, tile, work, gpu, mask if masks else None)
            made.append(Candidate(name, cost, why, build))
    return made


def _divisions(p: Problem, tile: TmaTile, gpu: Target) -> Iterator[WorkDivision]:
    resident = cdiv(p.keys, tile.keys) <= tile.stages  # keys and values stay in shared memory
    if tile.resident and not resident:
        return
    packs = [p.group] if 1 < p.group <= UNIT else []
    if p.rows >= UNIT or not packs:
        # Packed heads: a unit has fewer queries, which see about the same keys of a causal mask.
        packs = [1, *(packs if p.causal and p.group <= MOST_PACKED else [])]
    for pack in packs:
        rows = UNIT // pack * pack
        whole = cdiv(p.rows * pack, rows)  # units of a head
        counts = {min(tile.warpgroups, whole)}
        if resident and not tile.in_turns:
            counts |= {n for n in (2, 3, 4, 6, 8, 12, 16) if n < whole} | {min(whole, 24)}
        for count in sorted(counts):
            one = WorkDivision(count, pack, rows, 1)
            yield one
            items = one.items(p)
            for parts in model.SPLIT_KV[1:]:
                few = items < gpu.sms and items * count <= COUNTERS - TICKETS
                if few and count <= tile.warpgroups and cdiv(p.keys, tile.keys) >= 2 * parts:
                    yield one._replace(parts=parts)


def _whole_vectors(p: Problem) -> bool:
    """True if TMA can store the results: rows of whole vectors that no other sequence follows."""
    return p.starts[0] is None and not any(n % 8 for n in (p.width, *p.strides(p.out)))


def _sizes(job: AttentionJob) -> tuple[int, int]:
    """Rows and keys of the tensors, which hold all sequences of a ragged call."""
    p = job.problem
    if p.starts[0] is None:
        return p.rows, p.keys
    inputs = job.operands.request.inputs
    assert inputs[0] is not None
    assert inputs[1] is not None
    return inputs[0].shape[0], inputs[1].shape[0]


def _plan(
    job: AttentionJob, tile: TmaTile, work: WorkDivision, gpu: Target, mask: CopiedMask | None
) -> Plan:
    p, (rows, keys) = job.problem, _sizes(job)
    split = work.parts > 1
    shape = (p.head, tile.keys, tile.warpgroups, tile.stages, tile.slots, p.mask)
    soon = tma_model.stored_soon(tile, work, p)
    boxes = tile.slots > 1 and not (split or tile.registers) and soon and _whole_vectors(p)
    kinds = (work.masks, split, work.pack, tile.in_turns, tile.registers, boxes, tile.blocks)
    words = source.template("attend", source.ctype(p.dtype), *shape, *kinds)
    macros = Units.define() | job.expression.macros
    kernel = source.kernel("attention/tma_forward.cu", words, **macros)
    items, heads = work.items(p), p.heads // work.pack * p.batch
    at_once = model.heads_at_once(p, gpu, work.in_head(p), heads)
    box = (SLAB, work.pack, work.rows // work.pack, 1)
    q = operand_map(job.q, p, (p.depth, p.heads, rows), box, by_head=True)
    shared_heads = p.heads // p.group
    k = operand_map(job.k, p, (p.depth, keys, shared_heads), (SLAB, tile.keys, 1, 1))
    v = operand_map(job.v, p, (p.width, keys, shared_heads), (SLAB, tile.keys, 1, 1))
    copies, scratch = ((), ()) if mask is None else (mask.steps, mask.scratch)
    partial = None
    if split:
        partial = Pointer(job.operands.first + len(job.operands.scratch) + len(scratch))
        scratch = (
            *scratch,
            Buffer((items * work.units * work.parts * UNIT * (p.head + 1),), torch.float32),
        )
    problem = p.packed(job.strides, work.pack, work.parts, at_once)
    in_head, packed = work.in_head(p), p.heads // work.pack
    units = Units(work.rows, work.units, in_head, packed, items * work.parts)
    mask_map = q if mask is None else mask.map(p)  # a kernel without masks in boxes reads no map
    out = q
    if boxes:
        result = Operand(job.out, p.strides(p.out))
        out = operand_map(result, p, (p.width, p.heads, rows), box, by_head=True)
    args = (q, k, v, mask_map, out, *job.pointers[3:], partial, Counters(), problem, units.pack())
    args = (*args, *job.expression.arguments)
    grid = (min(items * work.parts, gpu.sms * tile.blocks),)
    masks = work.masks * tile.mask_bytes(mask.dtype.itemsize) if mask else 0
    shared = tile.shared(p.head, work.parts, masks)
    step = Step(kernel, grid, (tile.threads,), args, shared, early=True)
    return job.plan((*copies, step), scratch)
