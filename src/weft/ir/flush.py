"""Denormals to zero as the hardware does it (`.ftz`), and code off the common path."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.ir.builder import Builder, Val

_EXPONENT, _SIGN, _LEAST = 0x7F800000, 0x80000000, 0x00800000


def rarely(b: Builder, cond: Val, value: Val, fix: Callable[[], Val]) -> Val:
    """`value`, or the result of `fix` where the scalar `cond` holds."""
    return b.either(cond, fix, lambda: value, rare=True)


def raw_bits(b: Builder, v: Val) -> Val:
    """The bits of a float as they are, for tests that no NaN reaches or that any NaN passes."""
    return b.cast("bitcast", v, f"i{v.bits}")


def from_bits(b: Builder, v: Val, raw_nan: bool = False) -> Val:
    """The f32 with these bits; `raw_nan` when a NaN among them may not be canonical."""
    out = b.cast("bitcast", v, "float")
    out.raw_nan = raw_nan
    return out


def flush(b: Builder, v: Val) -> Val:
    """f32 with denormals made zeros of the same sign."""
    bits = raw_bits(b, v)
    keep = (bits & _EXPONENT).ne(0).sext("i32") | _SIGN  # a mask is cheaper than a choice
    return from_bits(b, bits & keep, v.raw_nan)


def flush_rounded(
    b: Builder, name: str, result: Val, args: Sequence[Val], scaled: Callable[..., Val]
) -> Val:
    """A rounded f32 result, flushed when tiny *after* rounding with unbounded exponent.

    That is the denormals, and those ±2^-126 that only the coarser steps of denormals rounded up:
    `scaled(builder, *args)` gives the result times 2^24, rounded likewise, to distinguish them.
    """

    def fix(b: Builder, r: Val, *args: Val) -> Val:
        bits = raw_bits(b, r)
        edge = (bits << 1).eq(_LEAST << 1)
        below = (raw_bits(b, scaled(b, *args)) << 1).ult((_LEAST + (24 << 23)) << 1)
        tiny = (bits & _EXPONENT).eq(0) | (edge & below)
        return from_bits(b, tiny.select(bits & _SIGN, bits), raw_nan=True)

    # 0 < |result| <= 2^-126 in some lane: one comparison of the least such number
    smallest = least(b, (raw_bits(b, result) << 1) - 2)
    return rarely(
        b,
        smallest.ult(_LEAST << 1),
        result,
        lambda: b.lanewise(f"ftz.{name}", [result, *args], "float", fix),
    )


def least(b: Builder, v: Val) -> Val:
    """The smallest lane, unsigned."""
    if v.lanes == 0:
        return v
    fn = f"@llvm.vector.reduce.umin.v{v.lanes}{v.element}"
    b.module.declarations[fn] = f"declare {v.element} {fn}({v.type})"
    return b.val(v.element, 0, f"call {v.element} {fn}({v.typed})")
