"""Plan convolutions on tensor cores: float16, bfloat16, and float32 by tf32."""

from __future__ import annotations

from weft.kernels import cdiv
from weft.ops.core.choose import Candidate
from weft.ops.families.conv import model, packed_gemm
from weft.ops.families.conv.implicit import ROOM
from weft.ops.families.conv.job import ConvJob
from weft.ops.families.conv.packed_gemm import TensorKernels


def windows(job: ConvJob, back: bool, most: int = 6) -> list[Candidate]:
    """Candidates of the forward pass, or of the backward pass to the data."""
    g = job.geometry
    phases, height, width = g.phases(back)
    family = TensorKernels(
        "tensor", "tensor", model.TENSOR_TILES, lambda t: t.stages * (t.bm + t.bn) * t.stage
    )
    return packed_gemm.windows(family, job, back, g.n * height * width, phases, most)


def gradients(job: ConvJob, most: int = 6) -> list[Candidate]:
    """Candidates of the backward pass to the weight."""
    g = job.geometry
    if 4 * g.taps > ROOM:
        return []
    family = TensorKernels(
        "tensor_weight",
        "tensor",
        model.TENSOR_WEIGHT_TILES,
        lambda t: t.stages * t.stage * (t.bm + t.bn + 16),
    )
    return packed_gemm.gradients(
        family, job, g.n * g.p * g.q, lambda padded, columns: cdiv(g.taps * padded, columns), most
    )
