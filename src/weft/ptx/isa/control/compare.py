"""Comparison and selection: rows of the PTX manual's sections on set, setp, selp, slct, testp.

A comparison of floats is ordered (false when an operand is NaN) unless its name ends in `u`.
"""

from __future__ import annotations

from weft.ir import Builder, Val
from weft.ptx.isa.columns import Nan, ResultForm, WorkUnit
from weft.ptx.isa.registry import instruction

_INTS = "b16 b32 b64 u16 u32 u64 s16 s32 s64"
_INT_TESTS = "eq ne lt le gt ge lo ls hi hs"
_FLOATS = "f32 f64 f16 bf16"
_FLOAT_TESTS = "eq ne lt le gt ge equ neu ltu leu gtu geu num nan"
_PACKED = "f16x2 bf16x2"
_OPS = "and or xor"

_UNSIGNED = {"lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge", "eq": "eq", "ne": "ne"}
_FCMP = {"num": "ord", "nan": "uno", "equ": "ueq", "neu": "une"}
_LEAST_NORMAL = {"float": 2.0**-126, "half": 2.0**-14, "double": 2.0**-1022}
_TRUE = {"f32": ("float", 0x3F800000), "f16": ("half", 0x3C00), "bf16": ("i16", 0x3F80)}


def flushed(e: Builder, v: Val) -> Val:
    """A denormal as zero; its sign makes no difference to a comparison."""
    tiny = e.fcmp("olt", e.fabs(v), e.const(v.element, _LEAST_NORMAL[v.element]))
    return tiny.select(e.const(v.element, 0.0), v)


def _widened(e: Builder, v: Val) -> Val:
    """bf16 bits as the f32 they are the upper half of."""
    return e.cast("bitcast", v.zext("i32") << 16, "float")


def compare(e: Builder, cmp: str, a: Val, b: Val, type: str, ftz: str = "") -> Val:
    """a `cmp` b as i1."""
    if type == "bf16":
        a, b = _widened(e, a), _widened(e, b)
    if not a.is_float:
        return e.icmp(_UNSIGNED.get(cmp) or ("s" if type[0] == "s" else "u") + cmp, a, b)
    if ftz:
        a, b = flushed(e, a), flushed(e, b)
    pred = _FCMP.get(cmp) or ("u" + cmp[:-1] if len(cmp) == 3 else "o" + cmp)
    return e.fcmp(pred, a, b)


def _halves(e: Builder, v: Val, type: str) -> list[Val]:
    """The two elements of a packed value, low first."""
    parts = [v.trunc("i16"), (v >> 16).trunc("i16")]
    return [e.reinterpret(p, "half") for p in parts] if type == "f16x2" else parts


def _compare_halves(e: Builder, cmp: str, a: Val, b: Val, type: str, ftz: str) -> list[Val]:
    pairs = zip(_halves(e, a, type), _halves(e, b, type), strict=True)
    return [compare(e, cmp, x, y, type.removesuffix("x2"), ftz) for x, y in pairs]


def _joined(e: Builder, test: Val, op: str, c: Val | None) -> Val:
    """The test combined with the third operand, where the form has one."""
    return test if c is None else e.binary(op, test, c)


# ---- setp --------------------------------------------------------------------------------------
@instruction(
    "setp.cmp.type  p|q:pred, a, b",
    form=ResultForm.COMPARISON,
    manual="comparison-and-selection-instructions-setp",
    cmp=_INT_TESTS,
    type=_INTS,
    vectors=["setp.lt.s32  -1 1 -> 1 0", "setp.lt.u32  -1 1 -> 0 1", "setp.hs.u16  5 5 -> 1 0"],
)
@instruction(
    "setp.cmp.op.type  p|q:pred, a, b, c:pred",
    form=ResultForm.COMPARISON,
    manual="comparison-and-selection-instructions-setp",
    cmp=_INT_TESTS,
    op=_OPS,
    type=_INTS,
    vectors=["setp.eq.and.b64  3 3 0 -> 0 0", "setp.ne.xor.s16  3 3 1 -> 1 0"],
)
@instruction(
    "setp.cmp{.ftz}.type  p|q:pred, a, b",
    form=ResultForm.COMPARISON,
    manual="comparison-and-selection-instructions-setp",
    cmp=_FLOAT_TESTS,
    ftz="ftz",
    type=_FLOATS,
    vectors=[
        "setp.lt.f32  nan 1.0 -> 0 1",
        "setp.geu.f64  nan 1.0 -> 1 0",
        "setp.eq.ftz.f32  0x00000001 -0.0 -> 1 0",
        "setp.gt.bf16  0x3f80 0xbf80 -> 1 0",
    ],
)
@instruction(
    "setp.cmp.op{.ftz}.type  p|q:pred, a, b, c:pred",
    form=ResultForm.COMPARISON,
    manual="comparison-and-selection-instructions-setp",
    cmp=_FLOAT_TESTS,
    op=_OPS,
    ftz="ftz",
    type=_FLOATS,
    vectors=["setp.num.or.f16  nan 0.0 1 -> 1 1", "setp.nan.and.f32  nan 0.0 1 -> 1 0"],
)
def setp(
    e: Builder, a: Val, b: Val, c: Val | None = None, *, cmp: str, type: str, op: str = "",
    ftz: str = "",
) -> tuple[Val, Val]:  # fmt: skip
    test = compare(e, cmp, a, b, type, ftz)
    # q is the complement of the test alone: c is combined with each of the two.
    return _joined(e, test, op, c), _joined(e, ~test, op, c)


@instruction(
    "setp.cmp{.ftz}.type  p|q:pred, a, b",
    form=ResultForm.COMPARISON,
    manual="half-precision-comparison-instructions-setp",
    cmp=_FLOAT_TESTS,
    ftz="ftz",
    type=_PACKED,
    vectors=["setp.lt.f16x2  0x3c000000 0x00003c00 -> 1 0"],
)
@instruction(
    "setp.cmp.op{.ftz}.type  p|q:pred, a, b, c:pred",
    form=ResultForm.COMPARISON,
    manual="half-precision-comparison-instructions-setp",
    cmp=_FLOAT_TESTS,
    op=_OPS,
    ftz="ftz",
    type=_PACKED,
    vectors=["setp.eq.xor.bf16x2  0x3f800000 0x3f803f80 1 -> 1 0"],
)
def setp_packed(
    e: Builder, a: Val, b: Val, c: Val | None = None, *, cmp: str, type: str, ftz: str, op: str = ""
) -> tuple[Val, Val]:
    low, high = _compare_halves(e, cmp, a, b, type, ftz)
    # With packed types q is the test of the upper half, not the complement of p.
    return _joined(e, low, op, c), _joined(e, high, op, c)


# ---- set ---------------------------------------------------------------------------------------
@instruction(
    "set.cmp.dtype.type  d:dtype, a, b",
    manual="comparison-and-selection-instructions-set",
    cmp=_INT_TESTS,
    dtype="u32 s32 f32 f16 bf16",
    type=_INTS,
    vectors=["set.lt.u32.s32  -1 1 -> 0xffffffff", "set.lt.f32.u32  1 2 -> 1.0"],
)
@instruction(
    "set.cmp.op.dtype.type  d:dtype, a, b, c:pred",
    manual="comparison-and-selection-instructions-set",
    cmp=_INT_TESTS,
    op=_OPS,
    dtype="u32 s32 f32 f16 bf16",
    type=_INTS,
    vectors=["set.eq.and.s32.b64  3 3 1 -> -1", "set.eq.xor.f16.b16  3 3 1 -> 0.0"],
)
@instruction(
    "set.cmp{.ftz}.dtype.type  d:dtype, a, b",
    manual="comparison-and-selection-instructions-set",
    cmp=_FLOAT_TESTS,
    ftz="ftz",
    dtype="u32 s32 f32 f16 bf16 u16 s16",
    type=_FLOATS,
    vectors=["set.gt.f32.f32  2.0 1.0 -> 1.0", "set.neu.u16.f16  nan 1.0 -> 0xffff"],
)
@instruction(
    "set.cmp.op{.ftz}.dtype.type  d:dtype, a, b, c:pred",
    manual="comparison-and-selection-instructions-set",
    cmp=_FLOAT_TESTS,
    op=_OPS,
    ftz="ftz",
    dtype="u32 s32 f32 f16 bf16 u16 s16",
    type=_FLOATS,
    vectors=["set.num.or.u32.f64  nan 1.0 1 -> 0xffffffff"],
)
def set_(
    e: Builder, a: Val, b: Val, c: Val | None = None, *, cmp: str, dtype: str, type: str,
    op: str = "", ftz: str = "",
) -> Val:  # fmt: skip
    test = _joined(e, compare(e, cmp, a, b, type, ftz), op, c)
    if dtype not in _TRUE:
        return test.sext(f"i{dtype[1:]}")
    ty, one = _TRUE[dtype]
    return test.select(e.like(e.zero(ty, 0), one), 0)


@instruction(
    "set.cmp{.ftz}.dtype.type  d:dtype, a, b",
    manual="half-precision-comparison-instructions-set",
    cmp=_FLOAT_TESTS,
    ftz="ftz",
    dtype="u32 s32 f16x2 bf16x2",
    type=_PACKED,
    vectors=[
        "set.lt.f16x2.f16x2  0x3c000000 0x00003c00 -> 0x00003c00",
        "set.ge.u32.bf16x2  0x3f800000 0x00003f80 -> 0xffff0000",
    ],
)
@instruction(
    "set.cmp.op{.ftz}.dtype.type  d:dtype, a, b, c:pred",
    manual="half-precision-comparison-instructions-set",
    cmp=_FLOAT_TESTS,
    op=_OPS,
    ftz="ftz",
    dtype="u32 s32 f16x2 bf16x2",
    type=_PACKED,
    vectors=["set.eq.xor.bf16x2.bf16x2  0 0x3f80 1 -> 0x00003f80"],
)
def set_packed(
    e: Builder, a: Val, b: Val, c: Val | None = None, *, cmp: str, dtype: str, type: str, ftz: str,
    op: str = "",
) -> Val:  # fmt: skip
    # An integer result has sixteen ones in each half that passes.
    one = _TRUE[dtype.removesuffix("x2")][1] if dtype.endswith("x2") else 0xFFFF
    low, high = (_joined(e, t, op, c) for t in _compare_halves(e, cmp, a, b, type, ftz))
    return low.select(e.integer("i32", one), 0) | high.select(e.integer("i32", one << 16), 0)


# ---- selection and class -----------------------------------------------------------------------
def _either(e: Builder, first: Val, a: Val, b: Val) -> Val:
    """a or b. Beside bits that must stay as they are, a NaN of the host is made canonical first."""
    bits = b if a.raw_nan else a
    number = bits.is_const and "bitcast" not in bits.ref  # which only constants that are NaN have
    if a.raw_nan != b.raw_nan and not number:
        a, b = e.canonical(a), e.canonical(b)
    return first.select(a, b)


@instruction(
    "selp.type  d, a, b, c:pred",
    form=ResultForm.SELECTION,
    work=WorkUnit.MOVE,
    manual="comparison-and-selection-instructions-selp",
    nans=Nan.COPIED,
    type=_INTS + " f32 f64",
    vectors=["selp.b32  5 7 1 -> 5", "selp.f32  1.5 -2.0 0 -> -2.0"],
)
def selp(e: Builder, a: Val, b: Val, c: Val, *, type: str) -> Val:
    return _either(e, c, a, b)


@instruction(
    "slct.type.s32  d, a, b, c:s32",
    form=ResultForm.SELECTION,
    work=WorkUnit.MOVE,
    manual="comparison-and-selection-instructions-slct",
    nans=Nan.COPIED,
    type=_INTS + " f32 f64",
    vectors=["slct.u32.s32  5 7 0 -> 5", "slct.f32.s32  1.0 2.0 -1 -> 2.0"],
)
def slct(e: Builder, a: Val, b: Val, c: Val, *, type: str) -> Val:
    return _either(e, c.sge(0), a, b)


@instruction(
    "slct{.ftz}.type.f32  d, a, b, c:f32",
    form=ResultForm.SELECTION,
    work=WorkUnit.MOVE,
    manual="comparison-and-selection-instructions-slct",
    nans=Nan.COPIED,
    ftz="ftz",
    type=_INTS + " f32 f64",
    vectors=[
        "slct.b64.f32  5 7 -0.0 -> 5",
        "slct.s32.f32  5 7 nan -> 7",
        "slct.ftz.f32.f32  1.0 2.0 0x80000001 -> 1.0",
        "slct.f32.f32  1.0 2.0 0x80000001 -> 2.0",
    ],
)
def slct_float(e: Builder, a: Val, b: Val, c: Val, *, type: str, ftz: str) -> Val:
    sign = flushed(e, c) if ftz else c
    # Ordered: a NaN selects b. -0 is not below zero and selects a.
    return _either(e, e.fcmp("oge", sign, e.const("float", 0.0)), a, b)


@instruction(
    "testp.kind.type  p:pred, a",
    manual="floating-point-instructions-testp",
    kind="finite infinite number notanumber normal subnormal",
    type="f32 f64",
    notes="zero counts as normal",
    vectors=[
        "testp.finite.f32  inf -> 0",
        "testp.normal.f32  0.0 -> 1",
        "testp.subnormal.f64  0x8000000000000001 -> 1",
        "testp.notanumber.f64  nan -> 1",
    ],
)
def testp(e: Builder, a: Val, *, kind: str, type: str) -> Val:
    if kind in ("number", "notanumber"):
        return e.fcmp("ord" if kind == "number" else "uno", a, a)
    size, least = e.fabs(a), e.const(a.element, _LEAST_NORMAL[a.element])
    zero, inf = e.const(a.element, 0.0), e.const(a.element, float("inf"))
    if kind == "infinite":
        return e.fcmp("oeq", size, inf)
    finite = e.fcmp("olt", size, inf)
    if kind == "finite":
        return finite
    subnormal = e.fcmp("olt", size, least) & e.fcmp("une", size, zero)
    return subnormal if kind == "subnormal" else finite & ~subnormal
