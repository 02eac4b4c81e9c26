"""Exact conversions between number formats, under every rounding mode, in portable IR.

`fptrunc` and `sitofp` round to nearest; the other modes correct its result by one unit in the last
place. The sixth mode, "odd", cuts and sets the last bit when anything was lost: a value rounded to
odd can be rounded again, to at least two bits less, as if it were exact. So a long way (f64 to f16,
i64 to f32, the exact sum of an fma) is taken in two steps, each of which both x86 and AArch64 do in
vectors.
"""

from __future__ import annotations

from weft.ir.builder import Builder
from weft.ir.value import Val

WIDTHS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
"""Bits of exponent and of mantissa."""

IR_TYPES = {"f16": "half", "bf16": "i16", "f32": "float", "f64": "double"}
INTEGRAL = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
"""The intrinsic that rounds to an integral value."""

# |x| below these (on the negative, on the positive side) is tiny after rounding to f32 with an
# unbounded exponent: 2^-126 less half a unit, 2^-126, or just above 2^-126 less a whole unit.
_TINY_RN, _TINY, _TINY_UP = 0x380FFFFFF0000000, 0x3810000000000000, 0x380FFFFFE0000001
_TINY_F32 = {
    "rn": (_TINY_RN, _TINY_RN),
    "rz": (_TINY, _TINY),
    "rm": (_TINY_UP, _TINY),
    "rp": (_TINY, _TINY_UP),
}


def infinity(kind: str) -> int:
    exponent, mantissa = WIDTHS[kind]
    return ((1 << exponent) - 1) << mantissa


def raw_bits(b: Builder, v: Val) -> Val:
    """The bit pattern, NaNs as they are: for code that replaces or discards them itself."""
    return b.cast("bitcast", v, f"i{v.bits}") if v.is_float else v


def is_nan(v: Val, kind: str) -> Val:
    """True if bits of a format are a NaN."""
    exponent, mantissa = WIDTHS[kind]
    return (v & ((1 << (exponent + mantissa)) - 1)).ugt(infinity(kind))


def flush(bits: Val, kind: str) -> Val:
    """Bits with a subnormal replaced by the zero of its sign."""
    width = 1 + sum(WIDTHS[kind])
    return (bits & infinity(kind)).eq(0).select(bits & (1 << (width - 1)), bits)


def saturate(b: Builder, bits: Val, kind: str) -> Val:
    """`.sat`: bits clamped to [+0, 1]; negative numbers and NaN become +0."""
    exponent, mantissa = WIDTHS[kind]
    one = ((1 << (exponent - 1)) - 1) << mantissa
    return bits.ugt(infinity(kind)).select(b.integer(bits.element, 0), b.umin(bits, one))


def settle(b: Builder, bits: Val, over: Val, under: Val, mode: str) -> Val:
    """Bits that were rounded to nearest, moved to the result of `mode`.

    `over` and `under` say that the number is above or below the exact one.
    """
    if mode == "rn":
        return bits
    if mode in ("rm", "rp"):
        wrong, toward = (over, -1) if mode == "rm" else (under, 1)
        unit = bits.ashr(bits.bits - 1) | 1
        return wrong.select(bits + unit if toward > 0 else bits - unit, bits)
    away = b.select(bits.slt(0), under, over)
    cut = bits - away.zext(bits.element)
    return cut if mode == "rz" else cut | (over | under).zext(bits.element)


def _narrow(b: Builder, v: Val, ty: str, mode: str) -> Val:
    """Bits of `v` in a narrower type; a NaN stays some NaN."""
    near = b.cast("fptrunc", v, ty)
    if mode == "rn":
        return raw_bits(b, near)
    # Widened again, the rounded value is compared with the exact one: the difference says whether
    # it must move by one unit.
    back = b.cast("fpext", near, v.element)
    over, under = b.fcmp("ogt", back, v), b.fcmp("olt", back, v)
    return settle(b, raw_bits(b, near), over, under, mode)


def float_from_double(b: Builder, v: Val, mode: str, *, ftz: bool = False) -> Val:
    """f64 to the bits of f32. `ftz` flushes what is tiny after rounding (not before)."""
    bits = _narrow(b, v, "float", mode)
    if not ftz:
        return bits
    below, above = (b.float_bits("double", t) for t in _TINY_F32[mode])
    # Strict bounds: a value that rounds to 2^-126 exactly is kept.
    tiny = b.fcmp("ogt", v, -below) & b.fcmp("olt", v, above)
    return tiny.select(bits & (1 << 31), bits)


def half_from_float(b: Builder, v: Val, mode: str) -> Val:
    """f32 to the bits of f16; NaN becomes 0x7fff."""
    bits = _narrow(b, v, "half", mode)
    return b.is_nan(v).select(b.integer("i16", 0x7FFF), bits)


def cut(b: Builder, bits: Val, drop: int, mode: str) -> Val:
    """Bits of a float without the last `drop` mantissa bits, rounded, shifted down.

    A carry runs into the exponent as it should, up to infinity. No case for NaN.
    """
    if mode == "odd":
        return bits >> drop | (bits & ((1 << drop) - 1)).ne(0).zext(bits.element)
    below = (1 << drop) - 1
    negative = bits.ashr(bits.bits - 1)
    extra = {
        "rn": lambda: (bits >> drop & 1) + (below >> 1),
        "rz": lambda: b.integer(bits.element, 0),
        "rm": lambda: negative & below,
        "rp": lambda: ~negative & below,
    }[mode]()
    return (bits + extra) >> drop


def bfloat_from_float(b: Builder, v: Val, mode: str) -> Val:
    """f32 to the bits of bf16; NaN becomes 0x7fff."""
    bits = cut(b, raw_bits(b, v), 16, mode).trunc("i16")
    return b.is_nan(v).select(b.integer("i16", 0x7FFF), bits)


def float_from_bfloat(b: Builder, v: Val) -> Val:
    """bf16 to f32: a plain shift."""
    return b.reinterpret(v.zext("i32") << 16, "float")


def move_nan(b: Builder, bits: Val, source: str, dest: str) -> Val:
    """A NaN in another format: sign and upper payload kept, quiet bit set."""
    shift = WIDTHS[source][1] - WIDTHS[dest][1]
    width = 1 + sum(WIDTHS[dest])
    wide = b.resize(bits, "i64")
    sign = (wide >> sum(WIDTHS[source]) & 1) << (width - 1)
    payload = wide >> shift if shift > 0 else wide << -shift
    quiet = infinity(dest) | 1 << (WIDTHS[dest][1] - 1)
    kept = payload & ((1 << WIDTHS[dest][1]) - 1)
    return b.resize(sign | kept | quiet, f"i{width}")


def keep_nan(b: Builder, result: Val, bits: Val, source: str, dest: str) -> Val:
    """`result`, with what `move_nan` says where the source is a NaN: a rare branch."""
    nan = is_nan(bits, source)
    return b.either(
        b.any(nan), lambda: nan.select(move_nan(b, bits, source, dest), result), lambda: result
    )


def two_sum(x: Val, y: Val) -> tuple[Val, Val]:
    """x + y rounded to nearest, and the exact remainder (NaN after an overflow)."""
    total = x + y
    from_y = total - x
    return total, (x - (total - from_y)) + (y - from_y)


def odd_sum(b: Builder, x: Val, y: Val) -> Val:
    """Bits of x + y rounded to odd."""
    total, rest = two_sum(x, y)
    zero = b.const(x.element, 0.0)
    over, under = b.fcmp("olt", rest, zero), b.fcmp("ogt", rest, zero)
    return settle(b, raw_bits(b, total), over, under, "odd")


def _double_from_long(b: Builder, v: Val, mode: str, *, signed: bool) -> Val:
    """Bits of f64 from a 64-bit integer, summed from two exact halves."""
    op = "sitofp" if signed else "uitofp"
    high = b.cast(op, (v >> 32).trunc("i32"), "double") * b.const("double", 2.0**32)
    low = b.cast("uitofp", v.trunc("i32"), "double")
    total = high + low
    rest = low - (total - high)  # exact: |high| is 0 or at least 2^32
    zero = b.const("double", 0.0)
    over, under = b.fcmp("olt", rest, zero), b.fcmp("ogt", rest, zero)
    return settle(b, raw_bits(b, total), over, under, mode)


def _float_from_int(b: Builder, v: Val, mode: str, *, signed: bool) -> Val:
    """Bits of f32."""
    op = "sitofp" if signed else "uitofp"
    if v.bits < 32 or (v.bits == 32 and mode == "rn"):
        return raw_bits(b, b.cast(op, v, "float"))
    wide = (
        b.cast(op, v, "double")
        if v.bits == 32
        else b.reinterpret(_double_from_long(b, v, "odd", signed=signed), "double")
    )
    return float_from_double(b, wide, mode)


def _half_from_int(b: Builder, v: Val, mode: str, *, signed: bool) -> Val:
    """Bits of f16. A value above 2^17 overflows like 2^17, and up to there f32 is exact."""
    if v.bits > 16:
        v = b.smin(b.smax(v, -(1 << 17)), 1 << 17) if signed else b.umin(v, 1 << 17)
        v = b.resize(v, "i32")
    return half_from_float(b, b.cast("sitofp" if signed else "uitofp", v, "float"), mode)


def float_from_int(b: Builder, v: Val, dest: str, mode: str, *, signed: bool) -> Val:
    """An integer of any width to the bits of a float format."""
    if dest == "f16":
        return _half_from_int(b, v, mode, signed=signed)
    if dest == "bf16":
        exact = b.reinterpret(_float_from_int(b, v, "odd", signed=signed), "float")
        return bfloat_from_float(b, exact, mode)
    if dest == "f32":
        return _float_from_int(b, v, mode, signed=signed)
    if v.bits < 64 or mode == "rn":
        return raw_bits(b, b.cast("sitofp" if signed else "uitofp", v, "double"))
    return _double_from_long(b, v, mode, signed=signed)


def int_from_float(b: Builder, v: Val, mode: str, width: int, *, signed: bool) -> Val:
    """f32 or f64 to an integer that saturates.

    NaN gives 0, but the top bit alone when either side has 64 bits: so the hardware does.
    """
    whole = v if mode == "rzi" else b.intrinsic(INTEGRAL[mode], [v])
    ty = f"i{max(width, 32)}"
    out = b.intrinsic("fptosi.sat" if signed else "fptoui.sat", [whole], ty)
    if width < 32:
        top = (1 << (width - signed)) - 1
        out = b.smax(b.smin(out, top), -top - 1) if signed else b.umin(out, top)
        out = out.trunc(f"i{width}")
    if v.element == "double" or width == 64:
        out = b.is_nan(v).select(b.integer(out.element, 1 << (width - 1)), out)
    return out
