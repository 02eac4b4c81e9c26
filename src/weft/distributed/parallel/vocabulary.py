"""Embeddings and cross-entropy over a vocabulary that is divided over ranks."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from weft.distributed.parallel.collectives import copied, gathered_sequence, scattered_sum, summed
from weft.distributed.parallel.group import Group, group_of
from weft.distributed.parallel.shards import Shard, Sharded
from weft.errors import ArgumentError
from weft.ops.core import library

REDUCTIONS = ("mean", "sum", "none")


class VocabParallelEmbedding(Sharded):
    """An embedding of which each rank has some of the rows; the last rank may have fewer.

    layer    the whole layer, equal on all ranks
    group    a process group, a device mesh of one dimension, or None: all processes
    scatter  return this rank's part along dimension 1, the sequence

    >>> embedding = weft.distributed.parallel.VocabParallelEmbedding(torch.nn.Embedding(7, 4))
    >>> print(embedding(torch.tensor([[0, 6]])).shape)
    torch.Size([1, 2, 4])
    """

    def __init__(
        self, layer: torch.nn.Embedding, group: Any = None, *, scatter: bool = False
    ) -> None:
        super().__init__(group_of(group))
        self.scatter, self.vocabulary = scatter, layer.num_embeddings
        self.rows = _rows(self.vocabulary, self.group)
        self._divide("weight", layer.weight, Shard(0, (self.vocabulary,)))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The rows of tokens, from the ranks that have them."""
        local = tokens - self.group.rank * self.rows
        elsewhere = (local < 0) | (local >= self.rows)
        y = library.call("embedding")(local.masked_fill(elsewhere, 0), self.weight)
        y = y.masked_fill(elsewhere.unsqueeze(-1), 0.0)
        return (scattered_sum if self.scatter else summed)(self.group, y)


class VocabParallelHead(Sharded):
    """The last layer of a network: logits of this rank's part of the vocabulary.

    layer     the whole layer, without a bias
    group     a process group, a device mesh of one dimension, or None: all processes
    tied      the embedding whose weights it has, if any
    sequence  the input is this rank's part along dimension 1

    >>> head = weft.distributed.parallel.VocabParallelHead(torch.nn.Linear(4, 7, bias=False))
    >>> print(head(torch.ones(1, 2, 4)).shape)
    torch.Size([1, 2, 7])
    """

    def __init__(
        self, layer: torch.nn.Linear, group: Any = None, *,
        tied: VocabParallelEmbedding | None = None, sequence: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(group_of(group))
        if layer.bias is not None:
            raise ArgumentError("a head over a divided vocabulary has no bias", got="a bias")
        self.vocabulary, self.sequence = layer.out_features, sequence
        self.rows = _rows(self.vocabulary, self.group)
        self._divide("weight", layer.weight, Shard(0, (self.vocabulary,)))
        if tied is not None:
            self.weight = tied.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The logits of this rank's tokens."""
        x = (gathered_sequence if self.sequence else copied)(self.group, x)
        y: torch.Tensor = library.call("linear")(x, self.weight, None)
        return y


def vocab_parallel_cross_entropy(
    logits: torch.Tensor,
    target: torch.Tensor,
    vocabulary: int,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    group: Any = None,
) -> torch.Tensor:
    """Cross-entropy of logits that are divided over ranks; they are never in one place.

    logits      [..., this rank's part of the vocabulary], with the rows that fill it up
    target      [...], equal on all ranks
    vocabulary  its size on all ranks together
    reduction   mean, sum or none; targets that are `ignore_index` do not count
    group       a process group, a device mesh of one dimension, or None: all processes

    >>> target = torch.tensor([1, 3])
    >>> print(weft.distributed.parallel.vocab_parallel_cross_entropy(torch.zeros(2, 4), target, 4))
    tensor(1.3863)
    """
    if reduction not in REDUCTIONS:
        raise ArgumentError(
            "vocab_parallel_cross_entropy has no such reduction",
            got=reduction,
            allowed=", ".join(REDUCTIONS),
        )
    found = group_of(group)
    rows = _rows(vocabulary, found)
    if logits.shape != (*target.shape, rows):
        raise ArgumentError(
            f"rank {found.rank}: logits do not fit the target and the vocabulary",
            got=f"logits {tuple(logits.shape)}, target {tuple(target.shape)}",
            allowed=f"logits {(*target.shape, rows)}",
        )
    flat = target.flatten()
    ignored = flat == ignore_index
    losses = _Losses.apply(logits.flatten(0, -2), flat, ignored, vocabulary, found)
    if reduction == "none":
        return losses.view(target.shape)
    total: torch.Tensor = losses.sum()
    return total if reduction == "sum" else total / (~ignored).sum()


class _Losses(torch.autograd.Function):  # type: ignore[misc]
    """The losses of all rows. Ranks exchange two numbers for each: log-sum-exp, target's logit."""

    @staticmethod
    def forward(ctx: Any, logits: Any, target: Any, ignored: Any, vocabulary: int, group: Group):  # type: ignore[no-untyped-def]
        first = group.rank * logits.shape[-1]
        real = min(logits.shape[-1], vocabulary - first)
        here = logits.detach()[:, :real].contiguous()
        local = target - first
        ours = (local >= 0) & (local < real) & ~ignored
        index = local.masked_fill(~ours, 0)
        # One kernel computes log-sum-exp minus one logit; 16 bits would not do for the exchange.
        logit = here.gather(1, index[:, None])[:, 0].float()
        lse = library.call("cross_entropy")(here.float(), index, reduction="none") + logit
        mine = torch.stack((lse, logit.masked_fill(~ours, 0.0)))
        every = _every(mine, group)
        whole = torch.logsumexp(every[:, 0], dim=0)
        ctx.save_for_backward(here, whole, index, ours, ignored)
        ctx.padding = logits.shape[-1] - real
        return (whole - every[:, 1].sum(0)).masked_fill(ignored, 0.0)

    @staticmethod
    def backward(ctx: Any, grad: Any):  # type: ignore[no-untyped-def]
        here, whole, index, ours, ignored = ctx.saved_tensors
        grad = grad.masked_fill(ignored, 0.0)[:, None]
        found = (here.float() - whole[:, None]).exp_()
        found.scatter_add_(1, index[:, None], -ours.float()[:, None])
        found = (found * grad).to(here.dtype)
        return torch.nn.functional.pad(found, (0, ctx.padding)), None, None, None, None


def _every(mine: torch.Tensor, group: Group) -> torch.Tensor:
    """The tensors of all ranks, in a new first dimension."""
    if group.world == 1:
        return mine[None]
    every = mine.new_empty(group.world * mine.shape[0], *mine.shape[1:])
    dist.all_gather_into_tensor(every, mine, group=group.process)
    return every.view(group.world, *mine.shape)


def _rows(vocabulary: int, group: Group) -> int:
    """Rows of a rank; raise if the last rank would have none."""
    rows = -(-vocabulary // group.world)
    if rows * (group.world - 1) >= vocabulary:
        raise ArgumentError(
            f"rank {group.rank}: the vocabulary is too small for the ranks",
            got=f"{vocabulary} tokens on {group.world} ranks",
            allowed="a token on every rank",
        )
    return rows
