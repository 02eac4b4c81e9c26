"""The sum over ranks, a residual connection and a norm: one launch after the exchange."""

from __future__ import annotations

from typing import Any

import torch

from weft.distributed.parallel.collectives import copied, scattered_sum, summed
from weft.distributed.parallel.group import Group, group_of
from weft.ops.core import library

Both = tuple[torch.Tensor, torch.Tensor]


def all_reduce_add_rms_norm(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor | None = None,
    eps: float | None = None,
    *,
    group: Any = None,
) -> Both:
    """RMS norm of `residual` plus the sum of `x` over ranks, and this sum.

    x         partial: what is added up, of the residual's shape
    residual  equal on all ranks
    weight    of the norm, as `eps`; equal on all ranks
    group     a process group, a device mesh of one dimension, or None: all processes

    >>> partial, residual = torch.ones(1, 2, 4), torch.zeros(1, 2, 4)
    >>> normed, total = weft.distributed.parallel.all_reduce_add_rms_norm(partial, residual)
    >>> print(total.sum())
    tensor(8.)
    """
    return _rms(summed(group_of(group), x), residual, weight, eps)


def all_reduce_add_layer_norm(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
    *,
    group: Any = None,
) -> Both:
    """Layer norm of `residual` plus the sum of `x` over ranks, and this sum.

    x         partial: what is added up, of the residual's shape
    residual  equal on all ranks
    weight    of the norm, as `bias` and `eps`; equal on all ranks
    group     a process group, a device mesh of one dimension, or None: all processes

    >>> partial, residual = torch.ones(1, 2, 4), torch.zeros(1, 2, 4)
    >>> normed, total = weft.distributed.parallel.all_reduce_add_layer_norm(partial, residual)
    >>> print(total.sum())
    tensor(8.)
    """
    return _layer(summed(group_of(group), x), residual, weight, bias, eps)


def reduce_scatter_add_rms_norm(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor | None = None,
    eps: float | None = None,
    *,
    group: Any = None,
) -> Both:
    """`all_reduce_add_rms_norm` of this rank's part along dimension 1, the sequence.

    x         partial, of the whole sequence
    residual  this rank's part of the sequence
    weight    of the norm, as `eps`; equal on all ranks
    group     a process group, a device mesh of one dimension, or None: all processes

    >>> partial, residual = torch.ones(1, 2, 4), torch.zeros(1, 2, 4)
    >>> normed, total = weft.distributed.parallel.reduce_scatter_add_rms_norm(partial, residual)
    >>> print(total.sum())
    tensor(8.)
    """
    found = group_of(group)
    return _rms(scattered_sum(found, x), residual, _shared(found, weight), eps)


def reduce_scatter_add_layer_norm(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
    *,
    group: Any = None,
) -> Both:
    """`all_reduce_add_layer_norm` of this rank's part along dimension 1, the sequence.

    x         partial, of the whole sequence
    residual  this rank's part of the sequence
    weight    of the norm, as `bias` and `eps`; equal on all ranks
    group     a process group, a device mesh of one dimension, or None: all processes

    >>> partial, residual = torch.ones(1, 2, 4), torch.zeros(1, 2, 4)
    >>> normed, total = weft.distributed.parallel.reduce_scatter_add_layer_norm(partial, residual)
    >>> print(total.sum())
    tensor(8.)
    """
    found = group_of(group)
    weights = _shared(found, weight), _shared(found, bias)
    return _layer(scattered_sum(found, x), residual, *weights, eps)


def _shared(group: Group, weight: torch.Tensor | None) -> torch.Tensor | None:
    """A weight that every rank applies to its own tokens: its gradient is the sum."""
    return None if weight is None else copied(group, weight)


def _rms(x: torch.Tensor, residual: torch.Tensor, weight: Any, eps: float | None) -> Both:
    found: Both = library.call("add_rms_norm")(x, residual, x.shape[-1:], weight, eps)
    return found


def _layer(x: torch.Tensor, residual: torch.Tensor, weight: Any, bias: Any, eps: float) -> Both:
    found: Both = library.call("add_layer_norm")(x, residual, x.shape[-1:], weight, bias, eps)
    return found
