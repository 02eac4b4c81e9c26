"""Integers of 4 and 8 bits in words of 32 bits, the lowest bits first."""

from __future__ import annotations

import torch

WORD = 32


def unpacked(words: torch.Tensor, bits: int) -> torch.Tensor:
    """Unpack the last dimension: [.., W] to [.., W * 32 / bits], from 0 to 2 ** bits - 1."""
    if bits == 8:
        return words.contiguous().view(torch.uint8)
    pairs = words.contiguous().view(torch.uint8)  # words are little-endian, as all of torch's
    return torch.stack((pairs & 15, pairs >> 4), -1).flatten(-2)


def signed(q: torch.Tensor, bits: int) -> torch.Tensor:
    """Move numbers from 0 .. 2 ** bits - 1 to the range of int4 or int8."""
    return (q.to(torch.int16) - (1 << (bits - 1))).to(torch.int8)
