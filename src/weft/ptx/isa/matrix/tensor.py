"""Matrix multiply and accumulate of one warp: `mma` and `wmma.mma`."""

from __future__ import annotations

import functools
from typing import Any

from weft.ptx.isa.columns import Accepts, InstructionWork, Participants, WorkUnit
from weft.ptx.isa.emitter import Warp
from weft.ptx.isa.registry import instruction
from weft.ptx.model import Instruction

product = functools.partial(
    instruction,
    warp=True,
    participants=Participants.WARP,
    work=InstructionWork(WorkUnit.TENSOR, 2),
    accepts=Accepts.FRAGMENT,
)
"""A row of the tensor cores: all lanes of the warp hold parts of the operands."""

_MMA = "warp-level-matrix-instructions-mma"
_WMMA = "warp-level-matrix-instructions-wmma-mma"
_LAYOUT = "row col"
_INT8, _INT4 = "s8 u8", "s4 u4"


def _run(
    w: Warp, ins: Instruction, shape: str, a: str, b: str, c: str, d: str, **options: Any
) -> None:
    """Read the fragments `d, a, b, c`, multiply, write d. Types and options make the form."""
    from weft.ir.tensor import Sources, TensorForm, multiply  # a first launch does without

    form = TensorForm(shape, a, b, c, d, **options)
    to, left, right, sums = ins.operands
    # Fragments of all other types are packed into 32-bit registers, accumulators of f16 too.
    operand = "f64" if form.a == "f64" else "b32"
    keys = w.contents(left), w.contents(right)
    regs_a, regs_b = (w.read_vector(x, operand) for x in (left, right))
    x = Sources(regs_a, regs_b, keys, w.fragments, w.contents(sums), True)
    acc = w.read_vector(sums, {"f16": "b32"}.get(form.c, form.c))
    w.write_vector(to, multiply(w.b, form, x, acc, fast=w.fast_math))
    w.fragments.sums.name(w.contents_written(to))


@product(
    "mma.sync.aligned.shape.alayout.blayout.dtype.atype.btype.ctype  d, a, b, c",
    manual=_MMA, shape="m8n8k4", alayout=_LAYOUT, blayout=_LAYOUT,
    dtype="f16 f32", atype="f16", btype="f16", ctype="f16 f32",
    notes="Four products, one in each pair of quads.",
)  # fmt: skip
def mma_quad_pairs(
    w: Warp, ins: Instruction, *, shape: str, alayout: str, blayout: str,
    dtype: str, atype: str, btype: str, ctype: str,
) -> None:  # fmt: skip
    _run(w, ins, shape, atype, btype, ctype, dtype, a_layout=alayout, b_layout=blayout)


@product(
    "mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype  d, a, b, c",
    manual=_MMA, shape="m16n8k8 m16n8k16",
    dtype="f16 f32", atype="f16", btype="f16", ctype="f16 f32",
)  # fmt: skip
@product(
    "mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype  d, a, b, c",
    manual=_MMA, shape="m16n8k8 m16n8k16",
    dtype="f32", atype="bf16", btype="bf16", ctype="f32",
)  # fmt: skip
@product(
    "mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype  d, a, b, c",
    manual=_MMA, shape="m16n8k4 m16n8k8",
    dtype="f32", atype="tf32", btype="tf32", ctype="f32",
)  # fmt: skip
@product(
    "mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype  d, a, b, c",
    manual=_MMA, shape="m16n8k16 m16n8k32",
    dtype="f16 f32", atype="e4m3 e5m2", btype="e4m3 e5m2", ctype="f16 f32",
    notes="Computed by two steps on f16 and an addition, as the assembler does it.",
)  # fmt: skip
def mma_float(
    w: Warp, ins: Instruction, *, shape: str, dtype: str, atype: str, btype: str, ctype: str
) -> None:
    _run(w, ins, shape, atype, btype, ctype, dtype)


@product(
    "mma.sync.aligned.shape.row.col.f64.f64.f64.f64{.rnd}  d, a, b, c",
    manual=_MMA,
    shape="m8n8k4 m16n8k4 m16n8k8 m16n8k16",
    rnd="rn rz rm rp",
)
@product(
    "wmma.mma.sync.aligned.alayout.blayout.shape{.rnd}.f64.f64.f64.f64  d, a, b, c",
    manual=_WMMA, shape="m8n8k4", alayout=_LAYOUT, blayout=_LAYOUT, rnd="rn rz rm rp",
)  # fmt: skip
def mma_f64(w: Warp, ins: Instruction, *, shape: str, rnd: str, **layout: str) -> None:
    _run(w, ins, shape, "f64", "f64", "f64", "f64", mode=rnd or "rn")


@product(
    "mma.sync.aligned.shape.row.col{.satfinite}.s32.atype.btype.s32  d, a, b, c",
    manual=_MMA, shape="m8n8k16 m16n8k16 m16n8k32", satfinite="satfinite",
    atype=_INT8, btype=_INT8,
)  # fmt: skip
@product(
    "mma.sync.aligned.shape.row.col{.satfinite}.s32.atype.btype.s32  d, a, b, c",
    manual=_MMA, shape="m8n8k32 m16n8k32 m16n8k64", satfinite="satfinite",
    atype=_INT4, btype=_INT4,
)  # fmt: skip
@product(
    "wmma.mma.sync.aligned.alayout.blayout.shape.s32.atype.btype.s32{.satfinite}  d, a, b, c",
    manual=_WMMA, shape="m16n16k16 m32n8k16 m8n32k16", satfinite="satfinite",
    alayout=_LAYOUT, blayout=_LAYOUT, atype=_INT8, btype=_INT8,
)  # fmt: skip
@product(
    "wmma.mma.sync.aligned.row.col.shape.s32.atype.btype.s32{.satfinite}  d, a, b, c",
    manual=_WMMA, shape="m8n8k32", satfinite="satfinite", atype=_INT4, btype=_INT4,
)  # fmt: skip
def mma_integer(
    w: Warp, ins: Instruction, *, shape: str, satfinite: str, atype: str, btype: str, **layout: str
) -> None:
    _run(w, ins, shape, atype, btype, "s32", "s32", saturate=bool(satfinite))


@product(
    "mma.sync.aligned.shape.row.col.s32.b1.b1.s32.op.popc  d, a, b, c",
    manual=_MMA,
    shape="m8n8k128 m16n8k128 m16n8k256",
    op="xor and",
)
@product(
    "wmma.mma.op.popc.sync.aligned.row.col.shape.s32.b1.b1.s32  d, a, b, c",
    manual=_WMMA,
    shape="m8n8k128",
    op="xor and",
)
def mma_bits(w: Warp, ins: Instruction, *, shape: str, op: str) -> None:
    _run(w, ins, shape, "b1", "b1", "s32", "s32", op=op)


@product(
    "wmma.mma.sync.aligned.alayout.blayout.shape.dtype.ctype  d, a, b, c",
    manual=_WMMA, shape="m16n16k16 m32n8k16 m8n32k16",
    alayout=_LAYOUT, blayout=_LAYOUT, dtype="f16 f32", ctype="f16 f32",
)  # fmt: skip
def wmma_f16(
    w: Warp, ins: Instruction, *, shape: str, dtype: str, ctype: str, **layout: str
) -> None:
    _run(w, ins, shape, "f16", "f16", ctype, dtype)


@product(
    "wmma.mma.sync.aligned.alayout.blayout.shape.f32.atype.btype.f32  d, a, b, c",
    manual=_WMMA, shape="m16n16k16 m32n8k16 m8n32k16",
    alayout=_LAYOUT, blayout=_LAYOUT, atype="bf16", btype="bf16",
)  # fmt: skip
@product(
    "wmma.mma.sync.aligned.alayout.blayout.shape.f32.atype.btype.f32  d, a, b, c",
    manual=_WMMA, shape="m16n16k8",
    alayout=_LAYOUT, blayout=_LAYOUT, atype="tf32", btype="tf32",
)  # fmt: skip
def wmma_float(
    w: Warp, ins: Instruction, *, shape: str, atype: str, btype: str, **layout: str
) -> None:
    _run(w, ins, shape, atype, btype, "f32", "f32")
