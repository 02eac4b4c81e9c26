"""Plans attention by warpgroups: the kernel for Hopper, whose tensor cores read shared memory."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Counters, Plan, Step
from weft.ops.core.target import Target
from weft.ops.families.attention.job import Job, together
from weft.ops.families.attention.problem import Problem

CAPABILITY = (9, 0)
ALIGNMENT = 1024
"""Bytes that tiles in shared memory begin at multiples of."""
STAGES = 2
ROOM = 226 << 10
"""Bytes of shared memory that a block can have beside its barriers."""


class Shape(NamedTuple):
    """Warpgroups of 64 queries, keys of a tile, whether warpgroups take turns.

    reach  the share of the tensor cores' rate in a full tile (H200)
    """

    groups: int
    keys: int
    ordered: bool
    reach: float

    @property
    def queries(self) -> int:
        return 64 * self.groups

    def shared(self, head: int, buffers: int) -> int:
        """Bytes of shared memory; columns are stored in slabs of 64."""
        row = 128 * cdiv(head, 64)
        return ALIGNMENT + row * (buffers * self.queries + 2 * STAGES * self.keys)

    def buffers(self, head: int) -> int:
        """Tiles of queries in shared memory: two where they fit."""
        return 2 if self.shared(head, 2) <= ROOM else 1


SHAPES = {
    32: (Shape(3, 128, True, 0.24),),
    48: (Shape(3, 128, True, 0.34),),
    64: (Shape(3, 128, True, 0.45), Shape(2, 128, True, 0.37)),
    80: (Shape(2, 128, True, 0.41), Shape(2, 160, True, 0.44)),
    96: (Shape(2, 128, True, 0.5),),
    128: (Shape(2, 128, False, 0.57),),
    192: (Shape(2, 96, True, 0.63),),
    256: (Shape(2, 80, True, 0.66),),
}
"""Shapes by head size."""
START = 2.5e-6
"""Seconds of a tile of queries before its first product and after its last one (H200)."""


def candidates(job: Job, gpu: Target) -> list[Candidate]:
    """Candidates of this kernel: none for other GPUs, for dropout and for other heads."""
    p = job.problem
    if not gpu.real or gpu.capability != CAPABILITY or p.drop:
        return []
    made = []
    for shape in SHAPES.get(p.head, ()):
        tiles = cdiv(p.rows, shape.queries) * p.heads * p.batch
        made.append(
            Candidate(
                f"{shape.queries} x {shape.keys}, warpgroups",
                _time(p, shape, tiles, gpu),
                f"{tiles} tiles for {gpu.sms} SMs",
                functools.partial(_plan, job, shape, tiles, gpu),
            )
        )
    return made


def _time(p: Problem, shape: Shape, tiles: int, gpu: Target) -> float:
    """The modelled time: that of the SM with the most tiles, at least the memory time."""
    rate = 2 * gpu.tf32 / gpu.sms * shape.reach
    block = 4 * shape.queries * shape.keys * p.head / rate
    longest = START + cdiv(p.seen_keys, shape.keys) * block
    work = cdiv(tiles, gpu.sms) * longest
    if p.causal:  # the last tiles of keys are seen in part
        rest = (shape.keys - math.gcd(shape.queries, shape.keys)) / 2
        seen = min(p.seen_keys, p.keys * p.share + shape.queries / 2) + rest
        mean = START + seen / shape.keys * block
        work = max(min(work, longest), tiles / gpu.sms * mean)
    moved = 4 * p.batch * p.heads * (p.rows + p.seen_keys / p.group) * p.head / gpu.bandwidth
    return gpu.launch + 3e-6 + max(work, moved)


def _plan(job: Job, shape: Shape, tiles: int, gpu: Target) -> Plan:
    p = job.problem
    buffers = shape.buffers(p.head)
    words = (
        source.ctype(p.dtype),
        p.head,
        shape.keys,
        shape.groups,
        buffers,
        p.mask,
        shape.ordered,
    )
    kernel = source.kernel("attention/groups.cu", f"attend<{', '.join(map(str, words)).lower()}>")
    heads = p.batch * p.heads
    at_once = together(p, gpu, tiles // heads, heads)
    problem = p.packed(job.strides, together=at_once)
    args = (*job.pointers, Counters(), problem)
    block = (128 * (shape.groups + 1),)
    return job.plan(
        (Step(kernel, (min(tiles, gpu.sms),), block, args, shape.shared(p.head, buffers)),)
    )
