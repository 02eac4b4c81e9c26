"""The tensor-core step on tiles with infinities or NaNs: in A, in B, or in sums that overflowed.

A term that is not finite decides its output alone: an infinity, or the hardware's NaN. The outputs
without such a term are those of the same tile with zeros in the place of what is not finite, which
the common path computes.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.ir.builder import Builder, Val
from weft.ir.tensor_format import FORMATS, Format, magnitude
from weft.ir.tensor_layout import N
from weft.ir.tensor_operand import TensorStep, element, load_accumulator, picked, store_accumulator
from weft.ir.tensor_slow import call_slow


def call_special(
    b: Builder, step: TensorStep, floor: int, again: Callable[..., None], *fragments: Val
) -> None:
    """Call the function of a whole tile; `again` calls the step itself, for finite tiles.

    A tile that is finite needs the slow path: that is why the common path did not take it.
    """
    fn = b.helper(
        step.name + ".special",
        [("ptr", 0)] * len(fragments),
        None,
        lambda inner, ps: _tile(inner, step, floor, again, *ps),
        attrs="#2",
    )
    fn(*fragments)


def _tile(
    b: Builder, step: TensorStep, floor: int, again: Callable[..., None],
    a: Val, bt: Val, c: Val, d: Val, *picks: Val,
) -> None:  # fmt: skip
    depth_of_b = step.runs_of_b.width * step.runs_of_b.count
    finite_a, odd_a = _finite(b, a, step.format, step.rows * step.depth)
    finite_b, odd_b = _finite(b, bt, step.format_of_b, N * depth_of_b)
    finite_c, odd_c = _finite(b, c, FORMATS[step.accumulator], N * step.rows)

    def special() -> None:
        kinds = _kinds(b, step, a, bt, c, *picks)
        again(b, step, finite_a, finite_b, finite_c, d, *picks)
        ty = "half" if step.accumulator == "f16" else "float"
        with b.loop(step.rows) as m:
            kind = b.load("float", N, b.at(kinds, (m * (4 * N)).zext("i64")), 16)
            result = b.cast("fptrunc", kind, ty) if ty == "half" else kind
            # x - x is a NaN exactly where x is not finite.
            odd = b.is_nan(kind - kind)
            kept = load_accumulator(b, ty, d, m)
            store_accumulator(b, b.select(odd, b.canonical(result), kept), d, m)

    b.either(odd_a | odd_b | odd_c, special, lambda: call_slow(b, step, floor, a, bt, c, d, *picks))


def _finite(b: Builder, source: Val, fmt: Format, count: int) -> tuple[Val, Val]:
    """A copy of a fragment with zeros for what is not finite, and whether there is any."""
    per = 128 // fmt.bits
    copy, most = b.array(fmt.container, count), b.alloca(fmt.container, per, 16)
    b.store(b.zero(fmt.container, per), most, 16)
    with b.loop(count // per) as i:
        place = (i * 16).zext("i64")
        bits = b.load(fmt.container, per, b.at(source, place), 16)
        mag = magnitude(bits, fmt)
        b.store(b.umax(b.load(fmt.container, per, most, 16), mag), most, 16)
        zero = b.zero(fmt.container, per)
        b.store(mag.uge(fmt.special).select(zero, bits), b.at(copy, place), 16)
    return copy, b.any(b.load(fmt.container, per, most, 16).uge(fmt.special))


def _kinds(b: Builder, step: TensorStep, a: Val, bt: Val, c: Val, *picks: Val) -> Val:
    """For each output a float that is infinite or NaN like the output, or any finite one.

    A sum of products in which each finite factor is 0 or 1 with its sign: such a sum is finite,
    and infinity times 0 or minus another infinity is a NaN.
    """
    depth_of_b = step.runs_of_b.width * step.runs_of_b.count
    columns, kinds = b.array("float", depth_of_b * N), b.array("float", step.rows * N)
    with b.loop(depth_of_b) as k, b.loop(N) as n:
        kind = _kind(b, element(b, step, bt, N, n, k), step.format_of_b)
        b.store(kind, b.at(columns, ((k * N + n) * 4).zext("i64")))
    acc = FORMATS[step.accumulator]
    ty, total = "half" if acc.name == "f16" else "float", b.alloca("float", N, 16)
    with b.loop(step.rows) as m:
        b.store(_kind(b, _pattern(b, load_accumulator(b, ty, c, m)), acc), total, 16)
        with b.loop(step.depth) as k:
            x = b.splat(_kind(b, element(b, step, a, step.rows, m, k), step.format), N)
            row = picked(b, picks[0], k, m) if picks else k
            y = b.load("float", N, b.at(columns, (row * (4 * N)).zext("i64")), 16)
            b.store(b.canonical(x * y + b.load("float", N, total, 16)), total, 16)
        b.store(b.load("float", N, total, 16), b.at(kinds, (m * (4 * N)).zext("i64")), 16)
    return kinds


def _pattern(b: Builder, v: Val) -> Val:
    """The bits of floats as they are, NaNs included."""
    return b.cast("bitcast", v, f"i{v.bits}")


def _kind(b: Builder, bits: Val, fmt: Format) -> Val:
    """0 or 1 with the sign of a finite number, else the infinity or a NaN, as f32."""
    mag = b.resize(magnitude(bits, fmt), "i32")
    sign = b.resize(bits >> (fmt.bits - 1), "i32") << 31

    def constant(value: int) -> Val:
        number = b.integer("i32", value)
        return b.splat(number, bits.lanes) if bits.lanes else number

    one, inf, nan = constant(0x3F800000), constant(0x7F800000), constant(0x7FFFFFFF)
    size = mag.eq(0).select(mag, mag.ult(fmt.special).select(one, inf))
    size = (mag.uge if fmt.only_nan else mag.ugt)(fmt.special).select(nan, size)
    return b.reinterpret(size | sign, "float")
