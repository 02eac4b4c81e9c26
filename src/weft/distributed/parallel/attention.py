"""Attention whose heads are divided over ranks."""

from __future__ import annotations

from typing import Any

import torch

from weft.distributed.parallel.group import group_of
from weft.distributed.parallel.linear import ColumnParallelLinear, RowParallelLinear
from weft.errors import ArgumentError
from weft.ops.core import library


class ParallelAttention(torch.nn.Module):  # type: ignore[misc]
    """Causal attention of which each rank computes some of the heads.

    heads      heads of queries, a multiple of the ranks
    kv_heads   heads of keys and values, which groups of heads share; a multiple of the ranks
    qkv        the whole layer of queries, keys and values, or three layers
    out        the whole layer after the attention
    group      a process group, a device mesh of one dimension, or None: all processes
    sequence   the input is this rank's part along dimension 1
    output     of the last layer: sum, scatter or partial

    `forward(x, cos, sin)` turns queries and keys by rotary embeddings; `forward(x)` does not.

    >>> qkv, last = torch.nn.Linear(16, 48), torch.nn.Linear(16, 16)
    >>> attention = weft.distributed.parallel.ParallelAttention(2, 2, qkv, last)
    >>> print(attention(torch.ones(1, 3, 16)).shape)
    torch.Size([1, 3, 16])
    """

    def __init__(
        self, heads: int, kv_heads: int, qkv: torch.nn.Linear | tuple[torch.nn.Linear, ...],
        out: torch.nn.Linear, group: Any = None, *, sequence: bool = False, output: str = "sum",
    ) -> None:  # fmt: skip
        super().__init__()
        found = group_of(group)
        self.heads = found.share(heads, "heads")
        self.kv_heads = found.share(kv_heads, "heads of keys and values")
        if heads % kv_heads:
            raise ArgumentError(
                "heads of queries share heads of keys and values in equal groups",
                got=f"{heads} and {kv_heads}",
                allowed=f"a multiple of {kv_heads}",
            )
        self.size = out.in_features // heads
        options: dict[str, Any] = {"group": found, "sequence": sequence}
        self.fused = isinstance(qkv, torch.nn.Linear)
        if isinstance(qkv, torch.nn.Linear):
            kv = kv_heads * self.size
            self.qkv = ColumnParallelLinear(qkv, sections=(heads * self.size, kv, kv), **options)
        else:
            self.q, self.k, self.v = (ColumnParallelLinear(layer, **options) for layer in qkv)
        self.out = RowParallelLinear(out, found, output=output)

    def forward(
        self, x: torch.Tensor, cos: torch.Tensor | None = None, sin: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The result of all heads; `cos` and `sin` are [tokens, half of a head's elements]."""
        q, k, v = (part.unflatten(-1, (-1, self.size)).transpose(1, 2) for part in self._parts(x))
        if cos is not None:
            q, k = library.call("rotary")(q, k, cos, sin)
        grouped = self.heads != self.kv_heads
        y = library.call("attention")(q, k, v, is_causal=True, enable_gqa=grouped)
        found: torch.Tensor = self.out(y.transpose(1, 2).flatten(2))
        return found

    def _parts(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Queries, keys and values of this rank's heads; ranks exchange the input once."""
        if not self.fused:
            entered = self.q.enter(x)
            return tuple(layer.columns(entered) for layer in (self.q, self.k, self.v))
        sizes = [count * self.size for count in (self.heads, self.kv_heads, self.kv_heads)]
        parts: tuple[torch.Tensor, ...] = self.qkv(x).split(sizes, dim=-1)
        return parts
