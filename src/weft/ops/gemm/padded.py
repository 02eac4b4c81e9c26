"""Plans products of 16-bit elements with rows that are no whole vectors: they are copied first."""

from __future__ import annotations

from dataclasses import replace

from weft.kernels import cdiv
from weft.ops import source
from weft.ops.choose import Candidate
from weft.ops.gemm.half import half, side
from weft.ops.gemm.product import Operand, Product
from weft.ops.plan import Buffer, Step
from weft.ops.target import Target

VECTOR = 8
"""Elements of 16 bytes."""
THREADS = 256


def padded(p: Product, gpu: Target) -> list[Candidate]:
    """Candidates that first copy the operands which are not read by 16 bytes."""
    moved, made = 0, p
    for name, extent in (("a", p.m), ("b", p.n)):
        operand: Operand = getattr(p, name)
        if side(operand, p.k).bytes == 16:
            continue
        made = _copied(made, name, operand, extent)
        moved += 2 * made.scratch[-1].shape[0] * 2
    if made is p:
        return []
    copies = len(made.before) - len(p.before)
    cost = copies * gpu.launch + 1.3 * moved / gpu.bandwidth
    return [Candidate(f"padded, {c.name}", cost + c.cost, c.why, c.build) for c in half(made, gpu)]


def _copied(p: Product, name: str, x: Operand, extent: int) -> Product:
    """The product with an operand whose rows begin at multiples of 16 bytes."""
    deep = side(x, p.k).deep
    rows, columns = (extent, p.k) if deep else (p.k, extent)
    pitch = cdiv(columns, VECTOR) * VECTOR
    matrices = p.batch if x.batch else 1
    to, size = p.scratch_number(), matrices * rows * pitch
    kernel = source.kernel("matmul_half.cu", f"padded<{source.ctype(p.out.dtype)}>")
    stride = x.along if deep else x.k
    args = (x.pointer, to, size // VECTOR, rows, columns, pitch, stride, x.batch)
    step = Step(kernel, (cdiv(size // VECTOR, THREADS),), (THREADS,), args)
    along, k = (pitch, 1) if deep else (1, pitch)
    operand = Operand(to, along, k, rows * pitch if x.batch else 0, 16)
    buffer = Buffer((size,), p.out.dtype)
    made = replace(p, before=(*p.before, step), scratch=(*p.scratch, buffer))
    return replace(made, a=operand) if name == "a" else replace(made, b=operand)
