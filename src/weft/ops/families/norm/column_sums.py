"""Add the sums of the gradients of weights that blocks of rows have made."""

from __future__ import annotations

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.plan import Buffer, Plan, Step
from weft.ops.families.norm import model
from weft.ops.families.norm.rows import BLOCK, RowJob


def with_sums(
    centred: bool, made: RowJob, blocks: int, steps: tuple[Step, ...], *scratch: Buffer
) -> Plan:
    """Add the sum of gradients of weights over `blocks` blocks, into the outputs after the first.

    The first scratch buffer that the plan adds has the sums of each block.
    """
    columns = blocks <= model.COLUMN_SUM_BLOCKS and made.n >= model.COLUMN_SUM_COLUMNS
    name, tiles = (
        ("sum_columns", cdiv(made.n, BLOCK)) if columns else ("sum_partials", cdiv(made.n, 32))
    )
    kernel = source.kernel("norm/rows_backward.cu", f"{name}<{source.ctype(made.weight)}>")
    dw, db = made.output(1), made.output(2) if centred else None
    args = (made.extra(0), dw, db, blocks, made.n, tiles, *(() if columns else (blocks,)))
    step = Step(kernel, (tiles * (1 + centred),), (BLOCK,), args, early=True)
    partial = Buffer((2, blocks, made.n), torch.float32)
    return made.plan(*steps, step, scratch=(partial, *scratch))
