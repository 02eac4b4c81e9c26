"""Plans products of 16-bit elements with rows that are no whole vectors: they are copied first."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Argument, Buffer, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.matmul.groups import groups
from weft.ops.families.matmul.half import half, side, sides
from weft.ops.families.matmul.product import Operand, Product

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
    wide = {name for name, read in zip("ab", sides(p), strict=True) if read.bytes == 16}
    choices = [names for names in ("ab", "a", "b") if not wide & set(names)]
    return [c for names in choices for c in _padded(p, gpu, names)]


def _padded(p: Product, gpu: Target, names: str) -> list[Candidate]:
    copies = [_copy(p, name) for name in names]
    made, moved = _copied(p, names, copies), 4 * sum(c.size for c in copies)
    cost = LAUNCH * gpu.launch + COPYING * moved / gpu.bandwidth
    what = "padded" if len(names) == 2 else f"{names} padded"
    return [
        Candidate(f"{what}, {c.name}", cost + c.cost, c.why, c.build)
        for c in half(made, gpu, MOST) + groups(made, gpu)
    ]


class _Copy(NamedTuple):
    """An operand and its copy, whose rows begin at multiples of 16 bytes.

    size    elements of the copy
    struct  `Rows` of matmul_half.cu
    """

    x: Operand
    deep: bool
    pitch: int
    batch: int
    size: int
    blocks: int
    struct: bytes


def _copy(p: Product, name: str) -> _Copy:
    x, extent = (p.a, p.m) if name == "a" else (p.b, p.n)
    deep = side(x, extent, p.k).deep
    rows, columns = (extent, p.k) if deep else (p.k, extent)
    pitch = cdiv(columns, VECTOR) * VECTOR
    matrices = p.batch if x.batch else 1
    size = matrices * rows * pitch
    blocks = cdiv(size // VECTOR, THREADS)
    stride = x.along if deep else x.k
    last = (matrices - 1) * x.batch + (rows - 1) * stride + columns
    packed = struct.pack(
        "<5q2iq", size // VECTOR, rows, stride, x.batch, last, columns, pitch, blocks
    )  # fmt: skip
    return _Copy(x, deep, pitch, rows * pitch if x.batch else 0, size, blocks, packed)


def _copied(p: Product, names: str, copies: list[_Copy]) -> Product:
    """The product with these operands copied, by one launch into one buffer."""
    size = sum(c.size for c in copies)
    index = "unsigned" if size // VECTOR + THREADS < 2**32 else "long long"
    number, begin = p.scratch_number().number, 0
    args: list[Argument] = []
    operands = {}
    for name, c in zip(names, copies, strict=True):
        to = Pointer(number, 2 * begin)
        along, k = (c.pitch, 1) if c.deep else (1, c.pitch)
        operands[name] = Operand(to, along, k, c.batch, 16)
        args += [c.x.pointer, to, c.struct]
        begin += c.size
    if len(copies) == 1:
        args += [None, None, bytes(len(copies[0].struct))]
    kernel = source.kernel("matmul/matmul_half.cu", f"padded<{source.ctype(p.out.dtype)}, {index}>")
    step = Step(kernel, (sum(c.blocks for c in copies),), (THREADS,), tuple(args))
    return replace(
        p, before=(*p.before, step), scratch=(*p.scratch, Buffer((size,), p.out.dtype)),
        a=operands.get("a", p.a), b=operands.get("b", p.b),
    )  # fmt: skip
