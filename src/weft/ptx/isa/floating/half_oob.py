"""`fma.oob`: a product with an element from outside a tensor counts as nothing.

Such elements are filled in as one NaN, 0x7ff7, that arithmetic never gives. Its sign does not
matter; as an addend it is a NaN like any other.
"""

from __future__ import annotations

from weft.ir import Builder, Val
from weft.ptx.isa.columns import InstructionWork, ResultForm
from weft.ptx.isa.floating.half import BF16, F16, MANUAL, fma_bf16, fma_f16, per_half
from weft.ptx.isa.registry import instruction

_OUTSIDE = 0x7FF7


@instruction(
    "fma.rn.oob{.relu}.type  d, a, b, c",
    form=ResultForm.PRODUCT_SUM,
    work=InstructionWork(operations=2),
    manual=MANUAL + "fma",
    relu="relu",
    type=F16,
    vectors=[
        "fma.rn.oob.f16  2.0 3.0 4.0 -> 10.0",
        "fma.rn.oob.f16  0x7ff7 3.0 4.0 -> 0.0",
        "fma.rn.oob.f16x2  0x3c007fff 0x40003c00 0x3c003c00 -> 0x42007fff",
    ],
)
def fma_oob_f16(e: Builder, a: Val, b: Val, c: Val, *, relu: str, type: str) -> Val:
    plain = fma_f16(e, a, b, c, ftz="", sat="", relu=relu, type=type)
    return per_half(e, type, (plain, a, b), _inside)


@instruction(
    "fma.rn.oob{.relu}.type  d, a, b, c",
    form=ResultForm.PRODUCT_SUM,
    work=InstructionWork(operations=2),
    manual=MANUAL + "fma",
    relu="relu",
    type=BF16,
    vectors=["fma.rn.oob.bf16  0x4000 0xfff7 0x4080 -> 0"],
)
def fma_oob_bf16(e: Builder, a: Val, b: Val, c: Val, *, relu: str, type: str) -> Val:
    plain = fma_bf16(e, a, b, c, relu=relu, type=type)
    return per_half(e, type, (plain, a, b), _inside)


def _inside(e: Builder, result: Val, x: Val, y: Val) -> Val:
    outside = (x & 0x7FFF).eq(_OUTSIDE) | (y & 0x7FFF).eq(_OUTSIDE)
    return outside.select(result & 0, result)
