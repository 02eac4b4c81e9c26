"""Plans convolutions on tensor cores: float16, bfloat16, and float32 by tf32."""

from __future__ import annotations

from weft.kernels import cdiv
from weft.ops.core.choose import Candidate
from weft.ops.families.conv import packed
from weft.ops.families.conv.implicit import ROOM
from weft.ops.families.conv.job import Job
from weft.ops.families.conv.packed import Family, Tile

TILES = (
    Tile(128, 256, 128, 64, 64, 3, 1, 0.46, 0.41),
    Tile(256, 128, 128, 64, 64, 3, 1, 0.44, 0.36),
    Tile(128, 128, 128, 64, 64, 3, 2, 0.36),
    Tile(128, 64, 128, 64, 32, 3, 3, 0.38, 0.31),
    Tile(64, 128, 128, 32, 64, 3, 3, 0.39, 0.34),
    Tile(64, 64, 128, 32, 32, 3, 4, 0.30, 0.28),
    Tile(128, 32, 64, 32, 32, 4, 4, 0.30, 0.22),
    Tile(32, 32, 64, 16, 16, 4, 8, 0.08, 0.07),
)
"""Pixels and channels of the forward pass and of the backward pass to the data."""
WEIGHT_TILES = (
    Tile(128, 256, 64, 64, 64, 3, 1, 0.28, 0.28),
    Tile(128, 128, 64, 64, 64, 3, 2, 0.29, 0.28),
    Tile(64, 128, 64, 32, 64, 3, 3, 0.21),
    Tile(64, 64, 64, 32, 32, 3, 4, 0.15),
    Tile(32, 64, 32, 16, 32, 3, 6, 0.08, 0.07),
)
"""Filters, and taps and channels, of the backward pass to the weight."""


def windows(job: Job, back: bool, most: int = 6) -> list[Candidate]:
    """Candidates of the forward pass, or of the backward pass to the data."""
    g = job.geometry
    phases, height, width = g.phases(back)
    family = Family("tensor", "tensor", TILES, lambda t: t.stages * (t.bm + t.bn) * t.deep)
    return packed.windows(family, job, back, g.n * height * width, phases, most)


def gradients(job: Job, most: int = 6) -> list[Candidate]:
    """Candidates of the backward pass to the weight."""
    g = job.geometry
    if 4 * g.taps > ROOM:
        return []
    family = Family(
        "tensor_weight", "tensor", WEIGHT_TILES, lambda t: t.stages * t.deep * (t.bm + t.bn + 16)
    )
    return packed.gradients(
        family, job, g.n * g.p * g.q, lambda padded, columns: cdiv(g.taps * padded, columns), most
    )
