"""Weights as groups that share a scale, whatever the granularity.

`split` gives a weight [N, K] as [A, r, B, c], whose scales are [A, 1, B, 1]: r x c elements share
one. A channel is a group of all K columns; a tensor is one group of all rows.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from weft.kernels import cdiv
from weft.quant.formats import BLOCK, CHANNEL, SIDE, TENSOR, Group


def sides(shape: tuple[int, int], group: Group) -> tuple[int, int]:
    """Rows and columns of the elements that share a scale."""
    n, k = shape
    by_word = {CHANNEL: (1, k), TENSOR: (n, k), BLOCK: (SIDE, SIDE)}
    return by_word[group] if isinstance(group, str) else (1, group)


def scale_shape(shape: tuple[int, int], group: Group) -> tuple[int, int]:
    """The shape of the scales: [N, G], [1, 1] for a tensor, rounded up for blocks."""
    rows, columns = sides(shape, group)
    return cdiv(shape[0], rows), cdiv(shape[1], columns)


def split(x: torch.Tensor, group: Group) -> torch.Tensor:
    """Give [N, K] as [A, r, B, c]; blocks at the edges are filled with zeros."""
    n, k = x.shape
    rows, columns = sides((n, k), group)
    a, b = scale_shape((n, k), group)
    padded = F.pad(x, (0, b * columns - k, 0, a * rows - n))
    return padded.reshape(a, rows, b, columns)


def join(groups: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
    """Undo `split`."""
    a, rows, b, columns = groups.shape
    return groups.reshape(a * rows, b * columns)[: shape[0], : shape[1]]


def spread(scale: torch.Tensor) -> torch.Tensor:
    """Give scales [A, B] as [A, 1, B, 1], beside the groups of `split`."""
    return scale[:, None, :, None]
