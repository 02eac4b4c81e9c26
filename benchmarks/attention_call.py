"""Calls of attention, and PyTorch's backends for them: for scripts that time its kernels."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.nn.attention import SDPBackend

BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


class Shape(NamedTuple):
    """A call: [batch, rows, heads, elements] as models have it if `order`.

    mask  "heads": an added one of each head; "keys": a boolean one of each batch, without rows
    """

    name: str
    batch: int
    heads: int
    shared: int
    rows: int
    keys: int
    head: int
    causal: bool = False
    order: bool = True
    dtype: torch.dtype = torch.bfloat16
    mask: str = ""

    @property
    def flops(self) -> float:
        """FLOPs of the forward pass; the backward pass has 2.5 times as many."""
        return 4.0 * self.batch * self.heads * self.rows * self.keys * self.head / (1 + self.causal)

    @property
    def bytes(self) -> float:
        """Bytes of all tensors but a mask."""
        rows = self.heads * self.rows + self.shared * self.keys
        return 2 * 2.0 * self.batch * rows * self.head

    def drawn(self, heads: int, rows: int) -> torch.Tensor:
        """A random tensor of so many heads and rows."""
        if self.order:
            x = torch.randn(self.batch, rows, heads, self.head, device="cuda", dtype=self.dtype)
            return x.transpose(1, 2)
        return torch.randn(self.batch, heads, rows, self.head, device="cuda", dtype=self.dtype)

    def operands(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Query, key and value."""
        query = self.drawn(self.heads, self.rows)
        return query, *(self.drawn(self.shared, self.keys) for _ in "kv")
