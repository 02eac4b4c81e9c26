"""Matrix multiply and accumulate with a sparse A: `mma.sp`."""

from __future__ import annotations

from weft.errors import PtxError
from weft.ir.tensor_layout import WIDTH, shape_of
from weft.ptx.isa.emitter import Warp
from weft.ptx.isa.matrix.tensor import product
from weft.ptx.model import Imm, Instruction

_MANUAL = "warp-level-matrix-instructions-for-sparse-mma"
_VARIANT = "sp sp::ordered_metadata"
_ACCUMULATORS = {"f16": "b32"}


def _run(
    w: Warp, ins: Instruction, shape: str, a: str, b: str, acc: str, *, saturate: bool = False
) -> None:
    """Read the fragments `d, a, b, c`, metadata `e` and the selector `f`; write d."""
    from weft.ir.tensor import TensorForm  # a first launch does without
    from weft.ir.tensor_sparse import SELECTORS, multiply_sparse

    form = TensorForm(shape, a, b, acc, acc, saturate=saturate)
    to, left, right, sums, metadata, selector = ins.operands
    count = SELECTORS[form.shape, WIDTH[form.a]]
    if not (isinstance(selector, Imm) and 0 <= selector.value < count):
        raise PtxError(
            f"{ins.opcode}: no such sparsity selector",
            got=ins.text,
            allowed=f"a number below {count}",
        )
    regs_a, regs_b = (w.read_vector(x, "b32") for x in (left, right))
    regs_c = w.read_vector(sums, _ACCUMULATORS.get(form.c, form.c))
    each = shape_of(form.shape)[2] * WIDTH[form.a] // 128
    if [len(regs_a), len(regs_b), len(regs_c)] != [each, each, 2 if form.c == "f16" else 4]:
        raise ValueError("registers")  # the device says what that means
    chosen, at = w.read_lanes(metadata, "b32"), selector.value
    made = multiply_sparse(w.b, form, regs_a, regs_b, regs_c, chosen, at, fast=w.fast_math)
    w.write_vector(to, made)


FLOAT_FORMS = [
    ("m16n8k16 m16n8k32", "f16", "f16"),
    ("m16n8k16 m16n8k32", "f32", "f16"),
    ("m16n8k16 m16n8k32", "f32", "bf16"),
    ("m16n8k8 m16n8k16", "f32", "tf32"),
    ("m16n8k64", "f32", "e4m3 e5m2"),
]
"""Shapes, accumulator, and types of A and B."""

INTEGER_FORMS = [("m16n8k32 m16n8k64", "s8 u8"), ("m16n8k64 m16n8k128", "s4 u4")]


def mma_sp_float(
    w: Warp, ins: Instruction, *, shape: str, dtype: str, atype: str, btype: str, **words: str
) -> None:
    _run(w, ins, shape, atype, btype, dtype)


def mma_sp_integer(
    w: Warp, ins: Instruction, *, shape: str, satfinite: str, atype: str, btype: str, **words: str
) -> None:
    _run(w, ins, shape, atype, btype, "s32", saturate=bool(satfinite))


for _shape, _acc, _types in FLOAT_FORMS:
    product(
        "mma.variant.sync.aligned.shape.row.col.dtype.atype.btype.ctype  d, a, b, c, e, f",
        manual=_MANUAL, variant=_VARIANT, shape=_shape,
        dtype=_acc, atype=_types, btype=_types, ctype=_acc,
        notes="Indices may stand in any order, and the same one twice.",
    )(mma_sp_float)  # fmt: skip

for _shape, _types in INTEGER_FORMS:
    product(
        "mma.variant.sync.aligned.shape.row.col{.satfinite}.s32.atype.btype.s32  "
        "d, a, b, c, e, f",
        manual=_MANUAL, variant=_VARIANT, shape=_shape, satfinite="satfinite",
        atype=_types, btype=_types,
    )(mma_sp_integer)  # fmt: skip
