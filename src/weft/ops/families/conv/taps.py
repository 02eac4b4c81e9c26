"""Plans convolutions on tensor cores whose taps of a row share copies to shared memory."""

from __future__ import annotations

from weft.kernels import cdiv
from weft.ops.core.choose import Candidate
from weft.ops.families.conv import packed
from weft.ops.families.conv.job import Job
from weft.ops.families.conv.packed import Family, Tile

TILES = (
    Tile(256, 128, 64, 64, 64, 4, 1, 0.37),
    Tile(128, 128, 64, 64, 64, 3, 2, 0.36),
    Tile(256, 64, 64, 64, 32, 4, 1, 0.40),
    Tile(64, 64, 64, 32, 32, 4, 3, 0.29),
    Tile(32, 32, 64, 16, 16, 4, 6, 0.08),
)
"""Pixels and channels, of the forward pass and of the backward pass to the data."""
WEIGHT_TILES = (
    Tile(128, 64, 64, 64, 48, 4, 1, 0.33, 0.41),
    Tile(64, 64, 64, 64, 48, 4, 2, 0.31, 0.28),
    Tile(64, 32, 64, 32, 48, 4, 2, 0.23),
    Tile(32, 32, 64, 16, 48, 4, 3, 0.16, 0.14),
)
"""Filters and channels of the backward pass to the weight; a warp has `wn` taps and channels."""
NARROWEST, WIDEST = 3, 9
"""Taps of a row."""


def applies(job: Job) -> bool:
    """True for rows of taps without gaps and stride 1, and results with contiguous pixels."""
    g, (_, c, h, w) = job.geometry, job.result.images.strides
    rows = g.stride == (1, 1) and g.dilation[1] == 1 and NARROWEST <= g.s <= WIDEST
    dense = w == 1 and h in (job.result.layout.shape[-1], 0)
    return rows and (c == 1 or dense)


def windows(job: Job, back: bool, most: int = 6) -> list[Candidate]:
    """Candidates of the forward pass, or of the backward pass to the data."""
    if not applies(job):
        return []
    g = job.geometry
    n, _, height, width = g.x if back else g.y

    def shared(tile: Tile) -> int:
        """The pixels have eight rows more, for the taps of the last."""
        return tile.stages * (tile.bm + 8 + g.s * tile.bn) * tile.deep

    tiles = [t for t in TILES if shared(t) <= job.gpu.shared_per_block]
    family = Family("taps", "taps", tiles, shared, g.s)
    return packed.windows(family, job, back, n * height * (width + g.s - 1), 1, most)


def gradients(job: Job, most: int = 6) -> list[Candidate]:
    """Candidates of the backward pass to the weight, for three taps in a row."""
    g = job.geometry
    if g.stride != (1, 1) or g.dilation[1] != 1 or g.s != NARROWEST:
        return []

    def shared(tile: Tile) -> int:
        return tile.stages * (tile.deep * (tile.bm + 8) + (tile.deep + 8) * (tile.bn + 8))

    family = Family("taps_weight", "taps", WEIGHT_TILES, shared, g.s)
    depth = g.n * g.p * (g.q + g.s - 1)
    return packed.gradients(
        family, job, depth, lambda padded, columns: g.r * cdiv(padded, columns), most
    )
