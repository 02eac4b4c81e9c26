"""Smaller, larger, and the sign of f32 and f64: min, max, abs, neg, copysign."""

from __future__ import annotations

from weft.ir import Builder, Val
from weft.ir.flush import flush, from_bits
from weft.ir.rounding import nan64
from weft.ptx.isa.columns import Nan, ResultForm
from weft.ptx.isa.registry import instruction

_SIGN = 0x80000000


@instruction(
    "min{.ftz}{.nan}{.xorsign}{.abs}.type  d, a, b",
    form=ResultForm.MINIMUM,
    manual="floating-point-instructions-min",
    ftz="ftz", nan="NaN", xorsign="xorsign", abs="abs", type="f32", nans=Nan.RAW,
    vectors=[
        "min.f32  0.0 -0.0 -> -0.0",
        "min.f32  nan 1.0 -> 1.0",
        "min.NaN.f32  nan 1.0 -> 0x7fffffff",
        "min.xorsign.abs.f32  -1.0 3.0 -> -1.0",
    ],
)  # fmt: skip
def min_f32(
    e: Builder, a: Val, b: Val, *, ftz: str, nan: str, xorsign: str, abs: str, type: str
) -> Val:
    return _extreme(e, "minimum", a, b, ftz, nan, xorsign)


@instruction(
    "max{.ftz}{.nan}{.xorsign}{.abs}.type  d, a, b",
    form=ResultForm.MAXIMUM,
    manual="floating-point-instructions-max",
    ftz="ftz", nan="NaN", xorsign="xorsign", abs="abs", type="f32", nans=Nan.RAW,
    vectors=[
        "max.f32  0.0 -0.0 -> 0.0",
        "max.f32  1.0 0x7f800001 -> 1.0",
        "max.ftz.f32  0x00000001 -0.0 -> 0.0",
        "max.xorsign.abs.f32  -1.0 3.0 -> -3.0",
    ],
)  # fmt: skip
def max_f32(
    e: Builder, a: Val, b: Val, *, ftz: str, nan: str, xorsign: str, abs: str, type: str
) -> Val:
    return _extreme(e, "maximum", a, b, ftz, nan, xorsign)


def _extreme(e: Builder, which: str, a: Val, b: Val, ftz: str, nan: str, xorsign: str) -> Val:
    """-0 < +0; `minimumnum` passes over a single NaN, quiet or not, `minimum` does not."""
    if ftz:
        a, b = flush(e, a), flush(e, b)
    name = which if nan else which + "num"
    if not xorsign:
        r = e.intrinsic(name, [a, b])
        r.raw_nan = True
        return r
    r = e.intrinsic(name, [e.fabs(a), e.fabs(b)])
    sign = (e.bits(a) ^ e.bits(b)) & _SIGN  # of a NaN too
    return from_bits(e, (e.bits(r) & (_SIGN - 1)) | sign, raw_nan=True)


@instruction(
    "min.type  d, a, b",
    form=ResultForm.MINIMUM,
    manual="floating-point-instructions-min",
    type="f64",
    vectors=["min.f64  1.0 0x7ff0000000000001 -> 1.0", "min.f64  -0.0 0.0 -> -0.0"],
)
def min_f64(e: Builder, a: Val, b: Val, *, type: str) -> Val:
    # Where both are NaNs, the hardware returns the second one.
    return nan64(e, e.intrinsic("minimumnum", [a, b]), [b, a])


@instruction(
    "max.type  d, a, b",
    form=ResultForm.MAXIMUM,
    manual="floating-point-instructions-max",
    type="f64",
    vectors=[
        "max.f64  1.0 2.0 -> 2.0",
        "max.f64  0x7ff0000000000001 0xfff0000000000002 -> 0xfff8000000000002",
    ],
)
def max_f64(e: Builder, a: Val, b: Val, *, type: str) -> Val:
    return nan64(e, e.intrinsic("maximumnum", [a, b]), [b, a])


@instruction(
    "abs{.ftz}.type  d, a",
    manual="floating-point-instructions-abs",
    ftz="ftz",
    type="f32",
    nans=Nan.RAW,
    vectors=[
        "abs.f32  -1.5 -> 1.5",
        "abs.f32  0xffc00000 -> 0x7fffffff",
        "abs.ftz.f32  0x80000001 -> 0.0",
    ],
)
def abs_f32(e: Builder, a: Val, *, ftz: str, type: str) -> Val:
    return _added(e, a, e.fabs(flush(e, a) if ftz else a))


@instruction(
    "abs.type  d, a",
    manual="floating-point-instructions-abs",
    type="f64",
    vectors=["abs.f64  -1.5 -> 1.5", "abs.f64  0xfff0000000000001 -> 0xfff8000000000001"],
)
def abs_f64(e: Builder, a: Val, *, type: str) -> Val:
    return _added(e, a, e.fabs(a))


@instruction(
    "neg{.ftz}.type  d, a",
    form=ResultForm.NEGATION,
    manual="floating-point-instructions-neg",
    ftz="ftz",
    type="f32",
    nans=Nan.RAW,
    vectors=["neg.f32  1.5 -> -1.5", "neg.ftz.f32  0x00000001 -> -0.0"],
)
def neg_f32(e: Builder, a: Val, *, ftz: str, type: str) -> Val:
    return _added(e, a, e.fneg(flush(e, a) if ftz else a))


@instruction(
    "neg.type  d, a",
    form=ResultForm.NEGATION,
    manual="floating-point-instructions-neg",
    type="f64",
    vectors=["neg.f64  0.0 -> -0.0", "neg.f64  0x7ff8000000000001 -> 0x7ff8000000000001"],
)
def neg_f64(e: Builder, a: Val, *, type: str) -> Val:
    return _added(e, a, e.fneg(a))


def _added(e: Builder, a: Val, r: Val) -> Val:
    """The hardware adds: a NaN of f32 becomes canonical, one of f64 quiet with its sign kept."""
    r.raw_nan = True
    return nan64(e, r, [a])


@instruction(
    "copysign.type  d, a, b",
    manual="floating-point-instructions-copysign",
    type="f32 f64",
    vectors=["copysign.f32  -2.0 3.0 -> -3.0", "copysign.f64  2.0 -3.0 -> 3.0"],
)
def copysign(e: Builder, a: Val, b: Val, *, type: str) -> Val:
    sign = 1 << (a.bits - 1)
    return e.reinterpret((e.bits(b) & (sign - 1)) | (e.bits(a) & sign), a.element)
