"""Rows of several quantised weights as one weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from weft.quant.formats import BLOCK, CHANNEL, SIDE, TENSOR, Group
from weft.quant.granularity import scale_shape
from weft.quant.layouts.imported import Imported
from weft.quant.quantised import Quantised


def join(pieces: Sequence[Imported]) -> Imported | None:
    """Join weights with the same input, row after row; None for those that differ too much.

    Scales of tensors become scales of rows, and groups those of the smallest, so that no value
    changes. Formats, orders of columns and the treatment of inputs must be equal.
    """
    first = pieces[0]
    if not all(_alike(first, piece) for piece in pieces):
        return None
    weights = [piece.weight for piece in pieces]
    group = _common(weights)
    if group is None:
        return None
    fine = [_refined(w, group) for w in weights]
    zeros = None
    if any(w.zero is not None for w in fine):
        zeros = torch.cat([torch.zeros_like(w.scale) if w.zero is None else w.zero for w in fine])
    joined = replace(
        fine[0],
        weight=_rows([w.weight for w in fine]),
        scale=torch.cat([w.scale for w in fine]),
        zero=zeros,
        shape=(sum(w.shape[0] for w in fine), fine[0].shape[1]),
    )
    return replace(first, weight=joined)


def _rows(weights: Sequence[torch.Tensor]) -> torch.Tensor:
    """Concatenate the bytes, since not every version of torch concatenates float8."""
    return torch.cat([w.view(torch.uint8) for w in weights]).view(weights[0].dtype)


def _alike(a: Imported, b: Imported) -> bool:
    return (
        a.weight.format == b.weight.format
        and a.weight.shape[1] == b.weight.shape[1]
        and a.weight.dtype == b.weight.dtype
        and a.is_dynamic == b.is_dynamic
        and _same(a.order, b.order)
        and _same(a.multiplier, b.multiplier)
    )


def _same(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    return a is b if a is None or b is None else bool(torch.equal(a, b))


def _common(weights: Sequence[Quantised]) -> Group | None:
    """The granularity that all weights can have."""
    groups = {w.group for w in weights}
    if BLOCK in groups:
        whole = all(w.shape[0] % SIDE == 0 for w in weights[:-1])
        return BLOCK if groups == {BLOCK} and whole else None
    numbers = [g for g in groups if isinstance(g, int)]
    return min(numbers) if numbers else CHANNEL  # each of 32, 64 and 128 divides the next


def _refined(w: Quantised, group: Group) -> Quantised:
    """Repeat scales and zeros for smaller groups."""
    if w.group == group or group == TENSOR:
        return w
    rows, columns = scale_shape(w.shape, group)

    def spread(x: torch.Tensor) -> torch.Tensor:
        return x.repeat_interleave(columns // x.shape[1], 1).expand(rows, -1).contiguous()

    zero = None if w.zero is None else spread(w.zero)
    return replace(w, scale=spread(w.scale), zero=zero, group=group)
