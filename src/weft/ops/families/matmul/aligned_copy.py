"""Copy matrices of 8 or 16-bit elements to rows of whole, aligned vectors.

Products do so first, and an op does it for a matrix that several products read.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

import torch

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.kernels.structs import Int, LongLong, Struct
from weft.ops.core import source
from weft.ops.core.checks import check_dtype
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Argument, Buffer, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.matmul import half, half_model, pipelined
from weft.ops.families.matmul.product import Operand, Product, side

VECTOR = 16
"""Bytes."""
THREADS = 256
MOST = 4
"""Candidates of each choice of operands."""


def candidates(p: Product, gpu: Target) -> list[Candidate]:
    """Candidates that first copy operands which are not read by 16 bytes: one of them, or both."""
    wide = {name for name, read in zip("ab", p.sides, strict=True) if read.bytes == 16}
    choices = [names for names in ("ab", "a", "b") if not wide & set(names)]
    return [c for names in choices for c in _copying(p, gpu, names)]


def _copying(p: Product, gpu: Target, names: str) -> list[Candidate]:
    made, cost, what = copied(p, gpu, names, p.out.dtype)
    best = sorted(pipelined.candidates(made, gpu), key=lambda c: c.cost)[:MOST]
    return [
        Candidate(f"{what}, {c.name}", cost + c.cost, c.why, c.build)
        for c in half.candidates(made, gpu, MOST) + best
    ]


def copied(p: Product, gpu: Target, names: str, dtype: torch.dtype) -> tuple[Product, float, str]:
    """The product with copies of operands, of elements of `dtype`; their seconds and their name."""
    copies = [_copy(p, name, dtype.itemsize) for name in names]
    what = "aligned copies" if len(names) == 2 else f"aligned copy of {names}"
    return _copied(p, names, copies, dtype), _seconds(copies, gpu), what


def _seconds(copies: list[_Copy], gpu: Target) -> float:
    moved = sum(2 * c.bytes for c in copies)
    cost: float = half_model.ALIGNED_COPY_LAUNCH * gpu.launch
    return cost + half_model.ALIGNED_COPY_TIME * moved / gpu.bandwidth


@dataclass(frozen=True)
class AlignedRows(Struct):
    """Rows of `columns` elements that are copied to rows of `pitch`. Strides are in elements."""

    vectors: Annotated[LongLong, "of 16 bytes, of the copy"]
    rows: Annotated[LongLong, "of a matrix"]
    stride: Annotated[LongLong, "of its rows"]
    batch: Annotated[LongLong, "of matrices"]
    last: Annotated[LongLong, "elements that may be read"]
    columns: Int
    pitch: Annotated[Int, "whole vectors"]
    blocks: LongLong


class _Copy(NamedTuple):
    """An operand and its copy, whose rows begin at multiples of 16 bytes.

    size  elements of the copy
    each  bytes of one
    """

    x: Operand
    k_major: bool
    pitch: int
    batch: int
    size: int
    each: int
    blocks: int
    rows: AlignedRows

    @property
    def bytes(self) -> int:
        return self.size * self.each


def _copy(p: Product, name: str, each: int) -> _Copy:
    x, extent = (p.a, p.m) if name == "a" else (p.b, p.n)
    k_major = side(x, extent, p.k, each).k_major
    rows, columns = (extent, p.k) if k_major else (p.k, extent)
    return _rows(x, k_major, p.batch if x.batch else 1, rows, columns, each)


def _pitch(columns: int, each: int) -> int:
    """Elements of a row of whole vectors."""
    return cdiv(columns * each, VECTOR) * VECTOR // each


def _rows(x: Operand, k_major: bool, matrices: int, rows: int, columns: int, each: int) -> _Copy:
    pitch = _pitch(columns, each)
    size = matrices * rows * pitch
    vectors = size * each // VECTOR
    blocks = cdiv(vectors, THREADS)
    stride = x.along if k_major else x.k
    last = (matrices - 1) * x.batch + (rows - 1) * stride + columns
    made = AlignedRows(vectors, rows, stride, x.batch, last, columns, pitch, blocks)
    return _Copy(x, k_major, pitch, rows * pitch if x.batch else 0, size, each, blocks, made)


def _copied(p: Product, names: str, copies: list[_Copy], dtype: torch.dtype) -> Product:
    """The product with these operands copied, by one launch into one buffer."""
    size = sum(c.size for c in copies)
    number, begin = p.scratch_number().number, 0
    operands = {}
    for name, c in zip(names, copies, strict=True):
        along, k = (c.pitch, 1) if c.k_major else (1, c.pitch)
        operands[name] = Operand(Pointer(number, begin), along, k, c.batch, VECTOR)
        begin += c.bytes
    step = _step(copies, number, dtype)
    return replace(
        p, before=(*p.before, step), scratch=(*p.scratch, Buffer((size,), dtype)),
        a=operands.get("a", p.a), b=operands.get("b", p.b),
    )  # fmt: skip


def _step(copies: list[_Copy], number: int, dtype: torch.dtype) -> Step:
    """The launch of one or two copies, one after another in tensor `number`."""
    args: list[Argument] = []
    begin = 0
    for c in copies:
        args += [c.x.pointer, Pointer(number, begin), c.rows.pack()]
        begin += c.bytes
    if len(copies) == 1:
        args += [None, None, bytes(AlignedRows.sizeof())]
    index = "unsigned" if begin // VECTOR + THREADS < 2**32 else "long long"
    ctype = source.ctype(dtype) if dtype.itemsize > 1 else "unsigned char"
    name = source.template("copy_aligned", ctype, index)
    kernel = source.kernel("matmul/aligned_copy.cu", name, **AlignedRows.define())
    return Step(kernel, (sum(c.blocks for c in copies),), (THREADS,), tuple(args), early=True)


# ---- the op ------------------------------------------------------------------------------------
def _op_candidates(request: Request) -> list[Candidate]:
    x = request.first
    (rows, columns), (stride, _) = x.shape, x.strides
    out = Buffer((rows, _pitch(columns, x.itemsize)), x.dtype)
    if 0 in x.shape:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    copy = _rows(Operand(Pointer(0), stride, 1, 0, x.aligned), True, 1, rows, columns, x.itemsize)
    build = functools.partial(_op_plan, copy, out)
    why = f"rows of {columns} elements to {copy.pitch}"
    return [Candidate("aligned copy", _seconds([copy], request.target), why, build)]


def _op_plan(copy: _Copy, out: Buffer) -> Plan:
    return Plan((_step([copy], 1, out.dtype),), (out,))


def _check(x: Any) -> None:
    check_dtype("aligned_rows", "x", x, [torch.float16, torch.bfloat16])
    if x.dim() != 2 or x.stride(1) != 1:
        raise ArgumentError(
            "weft.ops.aligned_rows: x is no matrix of contiguous rows",
            got=f"shape {list(x.shape)}, strides {list(x.stride())}",
        )


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.columns = inputs[0].shape[1]


DEFINITIONS = (
    Definition(
        name="aligned_rows",
        schema="(Tensor x) -> Tensor",
        doc="A copy of a matrix to rows of whole vectors of 16 bytes, filled with zeros.",
        fake=lambda x: x.new_empty((x.shape[0], _pitch(x.shape[1], x.element_size()))),
        candidates=_op_candidates,
        check=_check,
        setup=_setup,
        backward=lambda ctx, grad: grad[:, : ctx.columns],
        autocast=None,
        public=False,
    ),
)
