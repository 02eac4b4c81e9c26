"""Plans the gradients of attention by warpgroups: the kernels for Hopper.

One kernel has keys and values and streams queries, another has queries and streams keys. Both
compute the scores.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels import Kernel, cdiv
from weft.ops.core import source
from weft.ops.core.target import Target
from weft.ops.families.attention.gradients import Job
from weft.ops.families.attention.groups import ALIGNMENT, CAPABILITY
from weft.ops.families.attention.parts import Stream

THREADS = 384


class Side(NamedTuple):
    """One of the kernels: streamed rows of a tile, stages, the share of the tensor cores' rate.

    For heads of more than 128, the kernel for keys has a warpgroup for each of its two gradients,
    and both compute the scores.
    """

    keys: bool
    streamed: int
    stages: int
    reach: float

    def fixed(self, head: int) -> int:
        """Rows of a block: a warpgroup's registers hold up to 256 columns of gradients."""
        return 64 if self.keys and head > 128 else 128

    def shared(self, head: int) -> int:
        """Bytes of shared memory; columns are stored in slabs of 64."""
        rows = self.fixed(head) + self.stages * self.streamed
        return ALIGNMENT + 128 * cdiv(head, 64) * 2 * rows


SIDES = {
    48: (Side(True, 64, 4, 0.42), Side(False, 128, 3, 0.42)),
    64: (Side(True, 64, 4, 0.45), Side(False, 128, 3, 0.45)),
    80: (Side(True, 64, 4, 0.49), Side(False, 96, 3, 0.49)),
    96: (Side(True, 64, 4, 0.54), Side(False, 96, 3, 0.54)),
    128: (Side(True, 64, 4, 0.59), Side(False, 96, 3, 0.59)),
    192: (Side(True, 64, 3, 0.45), Side(False, 64, 2, 0.56)),
    256: (Side(True, 48, 3, 0.39), Side(False, 48, 2, 0.58)),
}
"""Kernels for keys and for queries by head size."""


def sides(job: Job, gpu: Target) -> tuple[Side, ...]:
    """The kernels of a call; none for other GPUs, for dropout and for other heads."""
    p = job.problem
    if not gpu.real or gpu.capability != CAPABILITY or p.drop or job.floats:
        return ()
    return SIDES.get(p.head, ())


def stream(job: Job, side: Side, gpu: Target) -> Stream:
    """The cost of a kernel in parts."""
    p = job.problem
    heads, rows, past, products = (
        (job.key_heads, p.keys, p.rows * p.group, 4)
        if side.keys
        else (p.batch * p.heads, p.rows, p.keys, 3)
    )
    fixed = side.fixed(p.head)
    work = 2 * products * fixed * past * p.head * p.share
    seconds = work * gpu.sms / (2 * gpu.tf32 * side.reach)
    sums = (2 if side.keys else 1) * heads * rows * p.head
    return Stream(cdiv(rows, fixed) * heads, cdiv(past, side.streamed), seconds, sums)


def kernel(job: Job, side: Side) -> Kernel:
    """The kernel of a side."""
    p = job.problem
    words = (p.head, side.streamed, side.stages, p.mask, str(side.keys).lower())
    text = ", ".join(map(str, (source.ctype(p.dtype), *words)))
    return source.kernel("attention/groups_backward.cu", f"gradients<{text}>")
