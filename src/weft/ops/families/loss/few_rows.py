"""Plan cross-entropy of so few rows that one cluster has them all in registers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from weft.kernels import cdiv
from weft.ops.core.cluster_rows import LARGEST
from weft.ops.core.plan import Plan, Step
from weft.ops.core.rows import group
from weft.ops.families.loss import model
from weft.ops.families.loss.classes import ClassificationCall

BLOCK = 1024
"""Threads of a block at the most."""


@dataclass(frozen=True)
class FewRows:
    """The division of rows among the blocks of a cluster.

    threads    threads of a row
    registers  vectors of a row that a thread has
    block      threads of a block
    blocks     blocks, which are one cluster where they add their losses
    """

    threads: int
    registers: int
    block: int
    blocks: int

    @property
    def why(self) -> str:
        """The figures behind the time."""
        return (
            f"{self.blocks} blocks for all rows, {self.threads} threads per row with "
            f"{self.registers} vectors each"
        )


def few_rows_of(call: ClassificationCall, chunks: int) -> FewRows | None:
    """The division of rows of `chunks` vectors; None where one cluster cannot have them."""
    v = call.view
    threads, registers, shared = group(chunks, model.REGISTER_VECTORS)
    if call.tensors.request.target.capability < (9, 0) or shared or not v.outer:
        return None
    if threads > 32:
        return FewRows(threads, registers, threads, v.outer) if v.outer <= LARGEST else None
    each = 32 // threads  # rows of a warp
    alone, warps = model.FEW_ROWS_WARPS
    if v.outer <= alone * each:
        warps = alone
    while warps < BLOCK // 32 and LARGEST * warps * each < v.outer:
        warps *= 2
    while warps > 4 and warps // 2 * each >= v.outer:
        warps //= 2
    blocks = cdiv(v.outer, warps * each)
    return FewRows(threads, registers, 32 * warps, blocks) if blocks <= LARGEST else None


def few_rows(make: Callable[[], ClassificationCall], by: FewRows) -> Plan:
    """One launch, whose blocks add their losses as a cluster."""
    call = replace(make(), file="loss/few_rows.cu")
    shape = (by.threads, by.registers, by.block)
    kernel = call.kernel("few_rows", *call.vectors, *shape, *call.modes, call.smooth)
    labels = (call.target, call.weight, call.upstream)
    args = (call.x, *labels, call.loss, call.gradient, call.problem)
    joined = call.loss is not None and call.reduction > 0 and by.blocks > 1
    cluster = (by.blocks, 1, 1) if joined else None
    step = Step(kernel, (by.blocks,), (by.block,), args, cluster=cluster, early=True)
    return call.tensors.plan(step)
