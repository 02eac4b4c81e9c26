"""The approximate functions: `.approx` and `.full` rows, as sequences around the table functions.

Without `.ftz` a denormal argument is scaled up first and the result brought back; that part is
left to a function off the path.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.ir import Builder, Val
from weft.ir.flush import least, rarely, raw_bits
from weft.ir.rounding import rounded
from weft.ptx.isa.columns import InstructionWork, Nan, ResultForm, WorkUnit
from weft.ptx.isa.registry import instruction


def mufu(b: Builder, name: str, x: Val) -> Val:
    """A table function of the GPU."""
    from weft.ir.mufu import mufu  # its tables: a first launch does without

    return mufu(b, name, x)


# The least denormal, 2^-149, becomes a normal number.
_UP = 2.0**24
_BITS_OF_64 = 0x42800000


def _denormal(e: Builder, x: Val) -> Val:
    """0 < |x| < 2^-126."""
    return ((raw_bits(e, x) << 1) - 2).ult(2 * 0x7FFFFF)


def _huge(e: Builder, x: Val) -> Val:
    """|x| > 2^126, not NaN."""
    return ((raw_bits(e, x) << 1) - 2 * 0x7E800001).ule(2 * (0x7F800000 - 0x7E800001))


def _scaled(e: Builder, name: str, x: Val, undo: Callable[[Builder, Val], Val]) -> Val:
    """The function, and for denormals undo(function(x * 2^24))."""

    def fix(b: Builder, x: Val, r: Val) -> Val:
        return b.select(_denormal(b, x), undo(b, mufu(b, name, x * b.const("float", _UP))), r)

    r = mufu(e, name, x)
    odd = e.any(_denormal(e, x))
    return rarely(e, odd, r, lambda: e.lanewise(f"{name}.denormal", [x, r], "float", fix))


@instruction(
    "ex2.approx{.ftz}.type  d, a",
    work=WorkUnit.SPECIAL,
    manual="floating-point-instructions-ex2",
    ftz="ftz", type="f32",
    vectors=["ex2.approx.ftz.f32  3.0 -> 8.0", "ex2.approx.f32  -149.0 -> 0x00000001",
             "ex2.approx.ftz.f32  -149.0 -> 0.0", "ex2.approx.f32  0.5 -> 0x3fb504f3"],
)  # fmt: skip
def ex2(e: Builder, a: Val, *, ftz: str, type: str) -> Val:
    r = mufu(e, "ex2", a)
    if ftz:
        return r

    def low(b: Builder, x: Val) -> Val:  # from -254 down the square is zero as well
        top, end = b.const("float", -126.0), b.const("float", -254.0)
        return b.fcmp("olt", x, top) & b.fcmp("ogt", x, end)

    def fix(b: Builder, x: Val, r: Val) -> Val:
        # The special function unit flushes a denormal result; the square of the root is rounded by
        # the multiplier, which keeps it.
        root = mufu(b, "ex2", x * b.const("float", 0.5))
        return b.select(low(b, x), root * root, r)

    # The same by the distance from the middle, -190: exact near both ends, and large for a NaN. The
    # least of many is found faster than whether one of many comparisons holds.
    distance = raw_bits(e, e.fabs(a - e.const("float", -190.0)))
    odd = least(e, distance).ult(_BITS_OF_64)
    return rarely(e, odd, r, lambda: e.lanewise("ex2.denormal", [a, r], "float", fix))


@instruction(
    "lg2.approx{.ftz}.type  d, a",
    work=WorkUnit.SPECIAL,
    manual="floating-point-instructions-lg2",
    ftz="ftz", type="f32", nans=Nan.RAW,
    vectors=["lg2.approx.f32  8.0 -> 3.0", "lg2.approx.ftz.f32  0x00000001 -> -inf",
             "lg2.approx.f32  0x00000001 -> -149.0"],
)  # fmt: skip
def lg2(e: Builder, a: Val, *, ftz: str, type: str) -> Val:
    if ftz:
        return mufu(e, "lg2", a)
    return _scaled(e, "lg2", a, lambda b, r: r - b.const("float", 24.0))


@instruction(
    "rsqrt.approx{.ftz}.type  d, a",
    work=WorkUnit.SPECIAL,
    manual="floating-point-instructions-rsqrt",
    ftz="ftz",
    type="f32",
    nans=Nan.RAW,
    vectors=["rsqrt.approx.f32  4.0 -> 0.5", "rsqrt.approx.ftz.f32  -0.0 -> -inf"],
)
def rsqrt(e: Builder, a: Val, *, ftz: str, type: str) -> Val:
    if ftz:
        return mufu(e, "rsqrt", a)
    # The argument was scaled by 2^24, so the result is 2^-12 of what it should be.
    return _scaled(e, "rsqrt", a, lambda b, r: r * b.const("float", 2.0**12))


@instruction(
    "sqrt.approx{.ftz}.type  d, a",
    form=ResultForm.ROOT, work=WorkUnit.SPECIAL,
    manual="floating-point-instructions-sqrt",
    ftz="ftz", type="f32", nans=Nan.RAW,
    vectors=["sqrt.approx.f32  4.0 -> 2.0", "sqrt.approx.ftz.f32  -1.0 -> 0x7fffffff"],
)  # fmt: skip
def sqrt(e: Builder, a: Val, *, ftz: str, type: str) -> Val:
    if ftz:
        return mufu(e, "sqrt", a)
    return _scaled(e, "sqrt", a, lambda b, r: r * b.const("float", 2.0**-12))


@instruction(
    "sin.approx{.ftz}.type  d, a",
    work=WorkUnit.SPECIAL,
    manual="floating-point-instructions-sin",
    ftz="ftz",
    type="f32",
    vectors=["sin.approx.f32  -0.0 -> -0.0", "sin.approx.ftz.f32  inf -> 0x7fffffff"],
    notes="`.ftz` changes nothing: the argument in turns is not flushed.",
)
def sin(e: Builder, a: Val, *, ftz: str, type: str) -> Val:
    return mufu(e, "sin", a)


@instruction(
    "cos.approx{.ftz}.type  d, a",
    work=WorkUnit.SPECIAL,
    manual="floating-point-instructions-cos",
    ftz="ftz",
    type="f32",
    vectors=["cos.approx.f32  0.0 -> 1.0"],
    notes="`.ftz` changes nothing: the argument in turns is not flushed.",
)
def cos(e: Builder, a: Val, *, ftz: str, type: str) -> Val:
    return mufu(e, "cos", a)


@instruction(
    "tanh.approx.type  d, a",
    work=WorkUnit.SPECIAL,
    manual="floating-point-instructions-tanh",
    type="f32",
    vectors=["tanh.approx.f32  0x80000001 -> 0x80000001", "tanh.approx.f32  -9.0 -> -1.0"],
)
def tanh(e: Builder, a: Val, *, type: str) -> Val:
    return mufu(e, "tanh", a)


@instruction(
    "rcp.approx{.ftz}.type  d, a",
    form=ResultForm.RECIPROCAL, work=WorkUnit.SPECIAL,
    manual="floating-point-instructions-rcp",
    ftz="ftz", type="f32", nans=Nan.RAW,
    vectors=["rcp.approx.ftz.f32  4.0 -> 0.25", "rcp.approx.f32  0x7f000000 -> 0x00400000",
             "rcp.approx.ftz.f32  0x7f000000 -> 0.0"],
)  # fmt: skip
def rcp(e: Builder, a: Val, *, ftz: str, type: str) -> Val:
    r = mufu(e, "rcp", a)
    if ftz:
        return r

    def fix(b: Builder, x: Val) -> Val:
        k = _factor(b, x, _SCALES)
        return mufu(b, "rcp", x * k) * k

    return rarely(e, _beyond(e, a, _SCALES), r, lambda: e.lanewise("rcp.x", [a], "float", fix))


Scales = tuple[tuple[Callable[[Builder, Val], Val], float], ...]
_SCALES: Scales = ((_denormal, _UP), (_huge, 0.25))
"""Scales that bring a divisor into the range of the table function."""


def _factor(b: Builder, y: Val, scales: Scales) -> Val:
    k = b.const("float", 1.0)
    for test, factor in scales:
        k = b.select(test(b, y), b.const("float", factor), k)
    return k


def _beyond(e: Builder, y: Val, scales: Scales) -> Val:
    """True at run time if any lane needs a factor."""
    odd = scales[0][0](e, y)
    for test, _ in scales[1:]:
        odd = odd | test(e, y)
    return e.any(odd)


_DIV_SCALES: dict[tuple[str, str], Scales] = {
    # By the manual, `div.approx` gives 0 for divisors above 2^126; only `div.full` scales them.
    ("approx", "ftz"): (),
    ("approx", ""): _SCALES[:1],
    ("full", "ftz"): _SCALES[1:],
    ("full", ""): _SCALES,
}
"""The divisors for which both operands are scaled first."""


@instruction(
    "div.kind{.ftz}.type  d, a, b",
    form=ResultForm.QUOTIENT, work=InstructionWork(expands={"full": 4}),
    manual="floating-point-instructions-div",
    kind="approx full", ftz="ftz", type="f32", nans=Nan.RAW,
    vectors=["div.full.f32  6.0 4.0 -> 1.5", "div.approx.f32  1.0 0x7f000000 -> 0.0",
             "div.full.f32  1.0 0x7f000000 -> 0x00400000"],
)  # fmt: skip
def div(e: Builder, a: Val, b: Val, *, kind: str, ftz: str, type: str) -> Val:
    scales, flushed = _DIV_SCALES[kind, ftz], bool(ftz)

    def fix(b: Builder, x: Val, y: Val) -> Val:
        k = _factor(b, y, scales)
        x, y = (rounded(b, "fmul", [v, k], ftz=flushed) for v in (x, y))
        return rounded(b, "fmul", [x, mufu(b, "rcp", y)], ftz=flushed)

    r = rounded(e, "fmul", [a, mufu(e, "rcp", b)], ftz=flushed)
    if not scales:
        return r
    odd = _beyond(e, b, scales)
    return rarely(e, odd, r, lambda: e.lanewise(f"div.{kind}{ftz}", [a, b], "float", fix))


@instruction(
    "rcp.approx.ftz.type  d, a",
    form=ResultForm.RECIPROCAL,
    work=WorkUnit.SPECIAL,
    manual="floating-point-instructions-rcp-approx-ftz-f64",
    type="f64",
    vectors=["rcp.approx.ftz.f64  4.0 -> 0.25", "rcp.approx.ftz.f64  0.0 -> inf"],
)
def rcp_f64(e: Builder, a: Val, *, type: str) -> Val:
    return _high_word(e, "rcp64", a)


@instruction(
    "rsqrt.approx.ftz.type  d, a",
    work=WorkUnit.SPECIAL,
    manual="floating-point-instructions-rsqrt-approx-ftz-f64",
    type="f64",
    vectors=["rsqrt.approx.ftz.f64  4.0 -> 0.5"],
)
def rsqrt_ftz_f64(e: Builder, a: Val, *, type: str) -> Val:
    return _high_word(e, "rsqrt64", a)


def _high_word(e: Builder, name: str, a: Val) -> Val:
    """A function of the upper halves; the lower half of the result is zero."""
    high = (e.bits(a) >> 32).trunc("i32")
    return e.reinterpret(mufu(e, name, high).zext("i64") << 32, "double")


@instruction(
    "rsqrt.approx.type  d, a",
    work=WorkUnit.SPECIAL,
    manual="floating-point-instructions-rsqrt",
    type="f64",
    vectors=["rsqrt.approx.f64  4.0 -> 0.5", "rsqrt.approx.f64  -1.0 -> 0xfff8000000000000"],
)
def rsqrt_f64(e: Builder, a: Val, *, type: str) -> Val:
    return e.lanewise("rsqrt.approx.f64", [a], "double", _rsqrt_f64)


def _rsqrt_f64(b: Builder, x: Val) -> Val:
    """One cubic step from the table's 20 bits; denormals times 2^54."""
    one, infinity = b.const("double", 1.0), 0x7FF0000000000000
    bits = b.bits(x)
    small = (bits & infinity).eq(0)
    x = x * b.select(small, b.const("double", 2.0**54), one)
    y = _high_word(b, "rsqrt64", x)
    err = b.fma(x, -(y * y), one)
    step = b.fma(err, b.const("double", 0.375), b.const("double", 0.5))
    r = b.fma(step, y * err, y) * b.select(small, b.const("double", 2.0**27), one)
    out = bits.sge(0).select(raw_bits(b, r), 0xFFF8000000000000)
    out = bits.ne(infinity).select(out, 0)
    out = (bits << 1).eq(0).select(bits | infinity, out)
    out = (bits << 1).ugt(infinity << 1).select(bits | (1 << 51), out)
    return b.reinterpret(out, "double")
