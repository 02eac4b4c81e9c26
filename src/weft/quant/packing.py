"""Two 4-bit integers in a byte: the low four bits hold the even column, stored as q + 8."""

from __future__ import annotations

import torch

OFFSET = 8
"""Added to q, so that -8 .. 7 is stored as 0 .. 15."""


def pack(q: torch.Tensor) -> torch.Tensor:
    """Pack integers in -8 .. 7 [N, K], with even K, to bytes [N, K // 2]."""
    stored = (q + OFFSET).to(torch.uint8)
    return stored[:, 0::2] | (stored[:, 1::2] << 4)


def unpack(packed: torch.Tensor) -> torch.Tensor:
    """Unpack bytes [N, K // 2] to int8 integers in -8 .. 7 [N, K]."""
    pairs = torch.stack((packed & 15, packed >> 4), dim=-1)
    return pairs.flatten(-2).to(torch.int8) - OFFSET
