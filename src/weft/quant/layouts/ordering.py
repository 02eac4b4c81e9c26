"""Columns whose groups are not neighbours: GPTQ's `desc_act`, `actorder` of compressed-tensors."""

from __future__ import annotations

import torch

from weft.quant.layouts.source import Source


def ordered(source: Source, part: str, group: int) -> torch.Tensor | None:
    """Read the group of each column; return the columns group by group, None for neighbours."""
    k = source.shape[1]
    if not source.has(part):
        return None
    index = source.take(part, ("I32", "I64"), (k,)).long()
    groups = k // group
    if bool((index == -1).all()):  # compressed-tensors writes it for neighbours
        return None
    outside = (index < 0) | (index >= groups)
    if bool(outside.any()):
        at = int(outside.nonzero()[0])
        raise source.error(
            f"'{source.key(part)}' names a group that the weight lacks",
            f"{int(index[at])} for column {at}",
            f"0 to {groups - 1}",
        )
    if bool((index == torch.arange(k) // group).all()):
        return None
    sizes = index.bincount(minlength=groups)
    if bool((sizes != group).any()):
        at = int((sizes != group).nonzero()[0])
        raise source.error(
            f"'{source.key(part)}' has groups of different sizes",
            f"{int(sizes[at])} columns of group {at}",
            f"{group} of each",
        )
    return index.argsort(stable=True)
