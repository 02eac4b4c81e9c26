"""Plans products of 16-bit elements with rows that are no whole vectors: they are copied first."""

from __future__ import annotations

from dataclasses import replace

from weft.kernels import cdiv
from weft.ops import source
from weft.ops.choose import Candidate
from weft.ops.gemm.groups import groups
from weft.ops.gemm.half import half, side
from weft.ops.gemm.product import Operand, Product
from weft.ops.plan import Buffer, Step
from weft.ops.target import Target

VECTOR = 8
"""Elements of 16 bytes."""
THREADS = 256
COPYING = 1.3
"""The time of a copy relative to the bandwidth."""
LAUNCH = 0.6
"""The time of its launch relative to others: the product after it covers a part of the host's."""
MOST = 4
"""Candidates of each choice of operands."""


def padded(p: Product, gpu: Target) -> list[Candidate]:
    """Candidates that first copy operands which are not read by 16 bytes: one of them, or both."""
    wide = {name for name in "ab" if side(getattr(p, name), p.k).bytes == 16}
    choices = [names for names in ("ab", "a", "b") if not wide & set(names)]
    return [c for names in choices for c in _padded(p, gpu, names)]


def _padded(p: Product, gpu: Target, names: str) -> list[Candidate]:
    moved, made = 0, p
    for name in names:
        made = _copied(made, name, getattr(p, name), p.m if name == "a" else p.n)
        moved += 2 * made.scratch[-1].shape[0] * 2
    cost = len(names) * LAUNCH * gpu.launch + COPYING * moved / gpu.bandwidth
    what = "padded" if len(names) == 2 else f"{names} padded"
    return [
        Candidate(f"{what}, {c.name}", cost + c.cost, c.why, c.build)
        for c in half(made, gpu, MOST) + groups(made, gpu)
    ]


def _copied(p: Product, name: str, x: Operand, extent: int) -> Product:
    """The product with an operand whose rows begin at multiples of 16 bytes."""
    deep = side(x, p.k).deep
    rows, columns = (extent, p.k) if deep else (p.k, extent)
    pitch = cdiv(columns, VECTOR) * VECTOR
    matrices = p.batch if x.batch else 1
    to, size = p.scratch_number(), matrices * rows * pitch
    index = "unsigned" if size // VECTOR + THREADS < 2**32 else "long long"
    kernel = source.kernel("matmul_half.cu", f"padded<{source.ctype(p.out.dtype)}, {index}>")
    stride = x.along if deep else x.k
    last = (matrices - 1) * x.batch + (rows - 1) * stride + columns
    args = (x.pointer, to, size // VECTOR, rows, columns, pitch, stride, x.batch, last)
    step = Step(kernel, (cdiv(size // VECTOR, THREADS),), (THREADS,), args)
    along, k = (pitch, 1) if deep else (1, pitch)
    operand = Operand(to, along, k, rows * pitch if x.batch else 0, 16)
    buffer = Buffer((size,), p.out.dtype)
    made = replace(p, before=(*p.before, step), scratch=(*p.scratch, buffer))
    return replace(made, a=operand) if name == "a" else replace(made, b=operand)
