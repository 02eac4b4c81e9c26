"""Plan convolutions on tensor cores whose taps of a row share copies to shared memory."""

from __future__ import annotations

from weft.kernels import cdiv
from weft.ops.core.choose import Candidate
from weft.ops.families.conv import model, packed_gemm
from weft.ops.families.conv.job import ConvJob
from weft.ops.families.conv.model import TensorTile
from weft.ops.families.conv.packed_gemm import TensorKernels

FEWEST, MOST = 3, 9
"""Taps of a row."""


def applies(job: ConvJob) -> bool:
    """True for rows of taps without gaps and stride 1, and results with contiguous pixels."""
    g, (_, c, h, w) = job.geometry, job.result.images.strides
    rows = g.stride == (1, 1) and g.dilation[1] == 1 and FEWEST <= g.s <= MOST
    dense = w == 1 and h in (job.result.layout.shape[-1], 0)
    return rows and (c == 1 or dense)


def windows(job: ConvJob, back: bool, most: int = 6) -> list[Candidate]:
    """Candidates of the forward pass, or of the backward pass to the data."""
    if not applies(job):
        return []
    g = job.geometry
    n, _, height, width = g.x if back else g.y

    def shared(tile: TensorTile) -> int:
        """The pixels have eight rows more, for the taps of the last."""
        return tile.stages * (tile.bm + 8 + g.s * tile.bn) * tile.stage

    tiles = [t for t in model.TAPS_TILES if shared(t) <= job.gpu.shared_per_block]
    family = TensorKernels("taps", "taps", tiles, shared, g.s)
    return packed_gemm.windows(family, job, back, n * height * (width + g.s - 1), 1, most)


def gradients(job: ConvJob, most: int = 6) -> list[Candidate]:
    """Candidates of the backward pass to the weight, for three taps in a row."""
    g = job.geometry
    if g.stride != (1, 1) or g.dilation[1] != 1 or g.s != FEWEST:
        return []

    def shared(tile: TensorTile) -> int:
        return tile.stages * (tile.stage * (tile.bm + 8) + (tile.stage + 8) * (tile.bn + 8))

    family = TensorKernels("taps_weight", "taps", model.TAPS_WEIGHT_TILES, shared, g.s)
    depth = g.n * g.p * (g.q + g.s - 1)
    return packed_gemm.gradients(
        family, job, depth, lambda padded, columns: g.r * cdiv(padded, columns), most
    )
