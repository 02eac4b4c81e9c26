"""The 4-bit layout of PyTorch's `_weight_int4pack_mm`, which torchao calls tile packed.

A word [n / 8, k / 128, 32, 4] has eight weights of a row: what a lane holds of two tiles of
16 columns as the B of `mma.m16n8k16`. Lane t has row t / 4 and, of each half of a tile, columns
2 * (t % 4) and the next; the lower four places are the even columns.
"""

from __future__ import annotations

import torch

ROWS, LANES, TILES, COLUMNS = 8, 32, 4, 128
"""Rows of a tile, lanes, pairs of tiles in the last dimension, and columns of all pairs."""


def unpacked(words: torch.Tensor) -> torch.Tensor:
    """Unpack int32 [n / 8, k / 128, 32, 4] to numbers from 0 to 15 [n, k]."""
    high, wide = words.shape[:2]
    places = torch.arange(0, 32, 4, dtype=torch.int32)
    q = ((words[..., None] >> places.to(words.device)) & 15).to(torch.uint8)
    #         tile of rows, columns, row, lane % 4, pair of tiles, odd column, half of a tile
    q = q.view(high, wide, ROWS, 4, TILES, 2, 4)
    return q.permute(0, 2, 1, 4, 6, 3, 5).reshape(high * ROWS, wide * COLUMNS)
