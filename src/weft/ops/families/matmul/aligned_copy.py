"""Plan products of 16-bit elements that first copy operands to rows of whole, aligned vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

from weft.kernels import cdiv
from weft.kernels.structs import Int, LongLong, Struct
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Argument, Buffer, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.matmul import half, half_model, pipelined
from weft.ops.families.matmul.product import Operand, Product, side

VECTOR = 8
"""Elements of 16 bytes."""
THREADS = 256
MOST = 4
"""Candidates of each choice of operands."""


def candidates(p: Product, gpu: Target) -> list[Candidate]:
    """Candidates that first copy operands which are not read by 16 bytes: one of them, or both."""
    wide = {name for name, read in zip("ab", p.sides, strict=True) if read.bytes == 16}
    choices = [names for names in ("ab", "a", "b") if not wide & set(names)]
    return [c for names in choices for c in _copying(p, gpu, names)]


def _copying(p: Product, gpu: Target, names: str) -> list[Candidate]:
    copies = [_copy(p, name) for name in names]
    made, moved = _copied(p, names, copies), 4 * sum(c.size for c in copies)
    cost = half_model.ALIGNED_COPY_LAUNCH * gpu.launch
    cost += half_model.ALIGNED_COPY_TIME * moved / gpu.bandwidth
    what = "aligned copies" if len(names) == 2 else f"aligned copy of {names}"
    best = sorted(pipelined.candidates(made, gpu), key=lambda c: c.cost)[:MOST]
    return [
        Candidate(f"{what}, {c.name}", cost + c.cost, c.why, c.build)
        for c in half.candidates(made, gpu, MOST) + best
    ]


@dataclass(frozen=True)
class AlignedRows(Struct):
    """Rows of `columns` elements that are copied to rows of `pitch`. Strides are in elements."""

    vectors: Annotated[LongLong, "of 16 bytes, of the copy"]
    rows: Annotated[LongLong, "of a matrix"]
    stride: Annotated[LongLong, "of its rows"]
    batch: Annotated[LongLong, "of matrices"]
    last: Annotated[LongLong, "elements that may be read"]
    columns: Int
    pitch: Annotated[Int, "a multiple of eight"]
    blocks: LongLong


class _Copy(NamedTuple):
    """An operand and its copy, whose rows begin at multiples of 16 bytes.

    size  elements of the copy
    """

    x: Operand
    k_major: bool
    pitch: int
    batch: int
    size: int
    blocks: int
    rows: AlignedRows


def _copy(p: Product, name: str) -> _Copy:
    x, extent = (p.a, p.m) if name == "a" else (p.b, p.n)
    k_major = side(x, extent, p.k).k_major
    rows, columns = (extent, p.k) if k_major else (p.k, extent)
    pitch = cdiv(columns, VECTOR) * VECTOR
    matrices = p.batch if x.batch else 1
    size = matrices * rows * pitch
    blocks = cdiv(size // VECTOR, THREADS)
    stride = x.along if k_major else x.k
    last = (matrices - 1) * x.batch + (rows - 1) * stride + columns
    made = AlignedRows(size // VECTOR, rows, stride, x.batch, last, columns, pitch, blocks)
    return _Copy(x, k_major, pitch, rows * pitch if x.batch else 0, size, blocks, made)


def _copied(p: Product, names: str, copies: list[_Copy]) -> Product:
    """The product with these operands copied, by one launch into one buffer."""
    size = sum(c.size for c in copies)
    index = "unsigned" if size // VECTOR + THREADS < 2**32 else "long long"
    number, begin = p.scratch_number().number, 0
    args: list[Argument] = []
    operands = {}
    for name, c in zip(names, copies, strict=True):
        to = Pointer(number, 2 * begin)
        along, k = (c.pitch, 1) if c.k_major else (1, c.pitch)
        operands[name] = Operand(to, along, k, c.batch, 16)
        args += [c.x.pointer, to, c.rows.pack()]
        begin += c.size
    if len(copies) == 1:
        args += [None, None, bytes(AlignedRows.sizeof())]
    name = source.template("copy_aligned", source.ctype(p.out.dtype), index)
    kernel = source.kernel("matmul/aligned_copy.cu", name, **AlignedRows.define())
    step = Step(kernel, (sum(c.blocks for c in copies),), (THREADS,), tuple(args))
    return replace(
        p, before=(*p.before, step), scratch=(*p.scratch, Buffer((size,), p.out.dtype)),
        a=operands.get("a", p.a), b=operands.get("b", p.b),
    )  # fmt: skip
