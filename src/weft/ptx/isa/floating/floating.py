"""f32 and f64 arithmetic: rows of the PTX manual's section 'Floating Point Instructions'."""

from __future__ import annotations

from weft.ir import Builder, Val
from weft.ir.rounding import rounded
from weft.ptx.isa.columns import InstructionWork, Nan, ResultForm
from weft.ptx.isa.registry import instruction

_ROUNDING = "rn rz rm rp"


def _f32(e: Builder, op: str, args: list[Val], rnd: str, ftz: str, sat: str = "") -> Val:
    # An `add` or `mul` without a rounding mode may be fused; `ptx.contract` has done that before.
    # What is left rounds to nearest.
    r = rounded(e, op, args, rnd or "rn", ftz=bool(ftz))
    return _saturate(e, r) if sat else r


def _saturate(e: Builder, r: Val) -> Val:
    """Into 0..1; NaN and -0 become +0."""
    zero, one = e.const("float", 0.0), e.const("float", 1.0)
    # An ordered comparison fails for a NaN, which so becomes +0.
    r = e.select(e.fcmp("ogt", r, zero), r, zero)
    r = e.select(e.fcmp("olt", r, one), r, one)
    r.raw_nan = False
    return r


@instruction(
    "add{.rnd}{.ftz}{.sat}.type  d, a, b",
    form=ResultForm.SUM,
    manual="floating-point-instructions-add",
    rnd=_ROUNDING, ftz="ftz", sat="sat", type="f32", nans=Nan.RAW,
    vectors=[
        "add.f32  1.5 2.25 -> 3.75",
        "add.rp.f32  1.0 0x00000001 -> 0x3f800001",
        "add.ftz.f32  0x00000001 0x80000001 -> 0.0",
        "add.sat.f32  0.75 0.5 -> 1.0",
    ],
)  # fmt: skip
def add_f32(e: Builder, a: Val, b: Val, *, rnd: str, ftz: str, sat: str, type: str) -> Val:
    return _f32(e, "fadd", [a, b], rnd, ftz, sat)


@instruction(
    "add{.rnd}.type  d, a, b",
    form=ResultForm.SUM,
    manual="floating-point-instructions-add",
    rnd=_ROUNDING,
    type="f64",
    vectors=[
        "add.f64  1.5 2.25 -> 3.75",
        "add.rm.f64  1.0 -1.0 -> -0.0",
        "add.f64  0x7ff0000000000001 1.0 -> 0x7ff8000000000001",
        "add.f64  inf -inf -> 0xfff8000000000000",
    ],
)
def add_f64(e: Builder, a: Val, b: Val, *, rnd: str, type: str) -> Val:
    return rounded(e, "fadd", [a, b], rnd or "rn")


@instruction(
    "sub{.rnd}{.ftz}{.sat}.type  d, a, b",
    form=ResultForm.DIFFERENCE,
    manual="floating-point-instructions-sub",
    rnd=_ROUNDING, ftz="ftz", sat="sat", type="f32", nans=Nan.RAW,
    vectors=["sub.f32  1.5 2.25 -> -0.75", "sub.sat.f32  1.5 2.25 -> 0.0"],
)  # fmt: skip
def sub_f32(e: Builder, a: Val, b: Val, *, rnd: str, ftz: str, sat: str, type: str) -> Val:
    return _f32(e, "fsub", [a, b], rnd, ftz, sat)


@instruction(
    "sub{.rnd}.type  d, a, b",
    form=ResultForm.DIFFERENCE,
    manual="floating-point-instructions-sub",
    rnd=_ROUNDING,
    type="f64",
    vectors=["sub.f64  1.5 2.25 -> -0.75"],
)
def sub_f64(e: Builder, a: Val, b: Val, *, rnd: str, type: str) -> Val:
    return rounded(e, "fsub", [a, b], rnd or "rn")


@instruction(
    "mul{.rnd}{.ftz}{.sat}.type  d, a, b",
    form=ResultForm.PRODUCT,
    manual="floating-point-instructions-mul",
    rnd=_ROUNDING, ftz="ftz", sat="sat", type="f32", nans=Nan.RAW,
    vectors=[
        "mul.f32  1.5 -2.0 -> -3.0",
        "mul.f32  0x00ffffff 0.5 -> 0x00800000",
        "mul.ftz.f32  0x00ffffff 0.5 -> 0.0",
        "mul.ftz.f32  0x00000001 1e30 -> 0.0",
    ],
)  # fmt: skip
def mul_f32(e: Builder, a: Val, b: Val, *, rnd: str, ftz: str, sat: str, type: str) -> Val:
    return _f32(e, "fmul", [a, b], rnd, ftz, sat)


@instruction(
    "mul{.rnd}.type  d, a, b",
    form=ResultForm.PRODUCT,
    manual="floating-point-instructions-mul",
    rnd=_ROUNDING,
    type="f64",
    vectors=["mul.f64  1.5 -2.0 -> -3.0", "mul.f64  0.0 inf -> 0xfff8000000000000"],
)
def mul_f64(e: Builder, a: Val, b: Val, *, rnd: str, type: str) -> Val:
    return rounded(e, "fmul", [a, b], rnd or "rn")


@instruction(
    "fma.rnd{.ftz}{.sat}.type  d, a, b, c",
    form=ResultForm.PRODUCT_SUM, work=InstructionWork(operations=2),
    manual="floating-point-instructions-fma",
    rnd=_ROUNDING, ftz="ftz", sat="sat", type="f32", nans=Nan.RAW,
    vectors=[
        "fma.rn.f32  2.0 3.0 4.0 -> 10.0",
        "fma.rz.f32  0x3f800001 0x3f800001 0.0 -> 0x3f800002",
        "fma.rn.sat.f32  nan 1.0 1.0 -> 0.0",
    ],
)  # fmt: skip
def fma_f32(e: Builder, a: Val, b: Val, c: Val, *, rnd: str, ftz: str, sat: str, type: str) -> Val:
    return _f32(e, "fma", [a, b, c], rnd, ftz, sat)


@instruction(
    "fma.rnd.type  d, a, b, c",
    form=ResultForm.PRODUCT_SUM,
    work=InstructionWork(operations=2),
    manual="floating-point-instructions-fma",
    rnd=_ROUNDING,
    type="f64",
    vectors=[
        "fma.rn.f64  2.0 3.0 4.0 -> 10.0",
        "fma.rn.f64  0x7ff8000000000001 1.0 0x7ff8000000000002 -> 0x7ff8000000000002",
    ],
)
def fma_f64(e: Builder, a: Val, b: Val, c: Val, *, rnd: str, type: str) -> Val:
    return rounded(e, "fma", [a, b, c], rnd)


@instruction(
    "mad{.rnd}{.ftz}{.sat}.type  d, a, b, c",
    form=ResultForm.PRODUCT_SUM, work=InstructionWork(operations=2),
    manual="floating-point-instructions-mad",
    rnd=_ROUNDING, ftz="ftz", sat="sat", type="f32", nans=Nan.RAW,
    vectors=["mad.rn.f32  2.0 3.0 4.0 -> 10.0"],
    notes="The same as fma.",
)  # fmt: skip
def mad_f32(e: Builder, a: Val, b: Val, c: Val, *, rnd: str, ftz: str, sat: str, type: str) -> Val:
    return _f32(e, "fma", [a, b, c], rnd, ftz, sat)


@instruction(
    "mad.rnd.type  d, a, b, c",
    form=ResultForm.PRODUCT_SUM,
    work=InstructionWork(operations=2),
    manual="floating-point-instructions-mad",
    rnd=_ROUNDING,
    type="f64",
    vectors=["mad.rn.f64  2.0 3.0 4.0 -> 10.0"],
    notes="The same as fma.",
)
def mad_f64(e: Builder, a: Val, b: Val, c: Val, *, rnd: str, type: str) -> Val:
    return rounded(e, "fma", [a, b, c], rnd)


@instruction(
    "div.rnd{.ftz}.type  d, a, b",
    form=ResultForm.QUOTIENT, work=InstructionWork(expands={"f32": 10}),
    manual="floating-point-instructions-div",
    rnd=_ROUNDING, ftz="ftz", type="f32", nans=Nan.RAW,
    vectors=["div.rn.f32  1.0 3.0 -> 0x3eaaaaab", "div.rz.f32  1.0 3.0 -> 0x3eaaaaaa"],
)  # fmt: skip
def div_f32(e: Builder, a: Val, b: Val, *, rnd: str, ftz: str, type: str) -> Val:
    return _f32(e, "fdiv", [a, b], rnd, ftz)


@instruction(
    "div.rnd.type  d, a, b",
    form=ResultForm.QUOTIENT,
    work=InstructionWork(expands={"f64": 22}),
    manual="floating-point-instructions-div",
    rnd=_ROUNDING,
    type="f64",
    vectors=["div.rn.f64  1.0 4.0 -> 0.25", "div.rn.f64  -1.0 0.0 -> -inf"],
)
def div_f64(e: Builder, a: Val, b: Val, *, rnd: str, type: str) -> Val:
    return rounded(e, "fdiv", [a, b], rnd)


@instruction(
    "rcp.rnd{.ftz}.type  d, a",
    form=ResultForm.RECIPROCAL, work=InstructionWork(expands={"f32": 6}),
    manual="floating-point-instructions-rcp",
    rnd=_ROUNDING, ftz="ftz", type="f32", nans=Nan.RAW,
    vectors=["rcp.rn.f32  3.0 -> 0x3eaaaaab", "rcp.rn.ftz.f32  0x00000001 -> inf"],
)  # fmt: skip
def rcp_f32(e: Builder, a: Val, *, rnd: str, ftz: str, type: str) -> Val:
    # Rounded correctly, a reciprocal is the quotient of 1.
    return _f32(e, "fdiv", [e.const("float", 1.0), a], rnd, ftz)


@instruction(
    "rcp.rnd.type  d, a",
    form=ResultForm.RECIPROCAL,
    work=InstructionWork(expands={"f64": 14}),
    manual="floating-point-instructions-rcp",
    rnd=_ROUNDING,
    type="f64",
    vectors=["rcp.rn.f64  4.0 -> 0.25"],
)
def rcp_f64(e: Builder, a: Val, *, rnd: str, type: str) -> Val:
    return rounded(e, "fdiv", [e.const("double", 1.0), a], rnd)


@instruction(
    "sqrt.rnd{.ftz}.type  d, a",
    form=ResultForm.ROOT, work=InstructionWork(expands={"f32": 9}),
    manual="floating-point-instructions-sqrt",
    rnd=_ROUNDING, ftz="ftz", type="f32", nans=Nan.RAW,
    vectors=["sqrt.rn.f32  2.0 -> 0x3fb504f3", "sqrt.rp.f32  -1.0 -> 0x7fffffff"],
)  # fmt: skip
def sqrt_f32(e: Builder, a: Val, *, rnd: str, ftz: str, type: str) -> Val:
    return _f32(e, "sqrt", [a], rnd, ftz)


@instruction(
    "sqrt.rnd.type  d, a",
    form=ResultForm.ROOT,
    work=InstructionWork(expands={"f64": 20}),
    manual="floating-point-instructions-sqrt",
    rnd=_ROUNDING,
    type="f64",
    vectors=["sqrt.rn.f64  2.25 -> 1.5", "sqrt.rn.f64  -1.0 -> 0xfff8000000000000"],
)
def sqrt_f64(e: Builder, a: Val, *, rnd: str, type: str) -> Val:
    return rounded(e, "sqrt", [a], rnd)
