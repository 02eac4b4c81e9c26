"""Attention of sequences that are divided among GPUs, over torch.distributed.

Each rank of a process group has a shard of the sequence. `ring_attention` sends keys and values
around the ranks, `ulysses_attention` exchanges heads for rows; both are exact and have gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.ops.core import bind
from weft.ops.core.bind import deferred

if TYPE_CHECKING:
    import torch

    from weft.distributed.schedules import Schedule
    from weft.distributed.transport import RankError

__all__ = [
    "RankError", "Schedule", "gather", "positions", "ring_attention", "schedule", "shard",
    "ulysses_attention",
]  # fmt: skip
_CLASSES = {"RankError": "transport", "Schedule": "schedules"}
"""Classes, and the modules that have them."""


def ring_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    group: Any = None,
    causal: bool = False,
    layout: str = "contiguous",
    scale: float | None = None,
    cu_seqlens: Any = None,
    check: bool = True,
    timeout: float | None = None,
) -> torch.Tensor:
    """Compute attention of a sequence whose shards are on the ranks of a group.

    q, k, v     this rank's shard, [batch, heads, rows, elements]; heads of q may be a multiple of
                those of k and v
    group       a process group of torch.distributed; None: all processes
    causal      a token sees those up to itself, by their positions in the whole sequence
    layout      the positions of a shard: "contiguous", "striped" or "zigzag"
    scale       of the scores; None: 1 / sqrt(elements)
    cu_seqlens  first rows of packed sequences, and the number of all rows of all ranks; tensors
                are then [rows, heads, elements], and the layout is contiguous
    check       compare the arguments of all ranks first, by small messages between hosts
    timeout     seconds to wait for a message; None: the time limit of the group

    Keys and values travel while attention of those before is computed, and no further than to the
    last rank that needs them. Partial results are merged in float32.

    >>> store = torch.distributed.HashStore()
    >>> torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    >>> q, k, v = torch.ones(3, 1, 2, 4, 16).unbind()
    >>> print(weft.distributed.ring_attention(q, k, v, causal=True).shape)
    torch.Size([1, 2, 4, 16])
    """
    given = (q, k, v, causal, layout, scale, cu_seqlens)
    ring = bind.with_torch("weft.distributed.ring")
    made: torch.Tensor = ring.ring_attention(given, group, check, timeout)
    return made


def ulysses_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    group: Any = None,
    ring_group: Any = None,
    causal: bool = False,
    layout: str = "contiguous",
    scale: float | None = None,
    check: bool = True,
    timeout: float | None = None,
) -> torch.Tensor:
    """Compute attention of a sequence by all-to-all exchanges, alone or within a ring.

    q, k, v     this rank's shard, [batch, heads, rows, elements]
    group       the ranks that exchange heads for rows, a process group of torch.distributed; None:
                all processes
    ring_group  the ranks of a ring: one of each such group; None: no ring
    causal      a token sees those up to itself
    layout      of the ring; without one, shards are contiguous
    scale       of the scores; None: 1 / sqrt(elements)
    check       compare the arguments of all ranks first
    timeout     seconds to wait for a message; None: the time limit of the group

    The number of heads is a multiple of that of the ranks of `group`. With a ring, the sequence is
    divided among the ring first, and each part of it, contiguously, among the ranks of `group`.

    >>> print(weft.distributed.ulysses_attention(q, k, v, causal=True).shape)
    torch.Size([1, 2, 4, 16])
    """
    given = (q, k, v, causal, layout, scale)
    ulysses = bind.with_torch("weft.distributed.ulysses")
    made: torch.Tensor = ulysses.ulysses_attention(given, group, ring_group, check, timeout)
    return made


def shard(
    x: torch.Tensor, layout: str = "contiguous", group: Any = None, dim: int = 2
) -> torch.Tensor:
    """Return this rank's tokens of a tensor that all ranks have whole.

    x       a tensor with the whole sequence
    layout  "contiguous", "striped" or "zigzag"
    group   a process group; None: all processes
    dim     the dimension of tokens

    >>> print(weft.distributed.shard(torch.arange(4), "zigzag", dim=0))
    tensor([0, 1, 2, 3])
    """
    made: torch.Tensor = bind.with_torch("weft.distributed.layouts").shard(x, layout, group, dim)
    return made


def gather(
    x: torch.Tensor, layout: str = "contiguous", group: Any = None, dim: int = 2
) -> torch.Tensor:
    """Return the whole tensor, on every rank, of the shards that ranks have.

    x       this rank's shard; equal shapes on all ranks
    layout  "contiguous", "striped" or "zigzag"
    group   a process group; None: all processes
    dim     the dimension of tokens

    The gradient of a shard is the sum of the gradients that all ranks have of it.

    >>> print(weft.distributed.gather(torch.arange(4), "striped", dim=0))
    tensor([0, 1, 2, 3])
    """
    made: torch.Tensor = bind.with_torch("weft.distributed.layouts").gather(x, layout, group, dim)
    return made


def positions(length: int, layout: str = "contiguous", group: Any = None) -> torch.Tensor:
    """Return the positions of this rank's tokens, for rotary embeddings, as int64.

    length  tokens of the whole sequence
    layout  "contiguous", "striped" or "zigzag"
    group   a process group; None: all processes

    >>> print(weft.distributed.positions(4, "zigzag"))
    tensor([0, 1, 2, 3])
    >>> torch.distributed.destroy_process_group()
    """
    made: torch.Tensor = bind.with_torch("weft.distributed.layouts").positions(
        length, layout, group
    )
    return made


def schedule(
    layout: str, world: int, causal: bool = True, *, length: int | None = None,
    token_bytes: int = 4096,
) -> Schedule:  # fmt: skip
    """Plan the forward pass of ring attention, without running it.

    layout       "contiguous", "striped" or "zigzag"
    world        the number of ranks
    causal       whether a token sees only those up to itself
    length       tokens of the whole sequence; None: four for each rank
    token_bytes  bytes of one token's keys and values, of all heads

    The result has the scores of each rank in each step, the share of time that ranks are idle, and
    the bytes that they send. `save` draws it.

    >>> for layout in ("contiguous", "striped", "zigzag"):
    ...     print(f"{weft.distributed.schedule(layout, 8, length=8192).idle:.1%}")
    46.7%
    0.1%
    0.0%
    """
    from weft.distributed import schedules

    return schedules.schedule(layout, world, causal, length=length, token_bytes=token_bytes)


__getattr__, __dir__ = deferred.attributes(__name__, _CLASSES, __all__)
