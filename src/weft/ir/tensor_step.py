"""One tensor-core step on floats: D = A*B + C for 8 columns, bit for bit as the hardware sums.

All K products and c are aligned to the largest exponent `top`, each magnitude is cut to a multiple
of 2^(top-fraction), the sum is exact, and the result is cut (f32) or rounded once (f16).

The common path works on a row of 8 outputs at a time. Products are exact in f32, so scaling by
2^(fraction-top) and converting to an integer toward zero is the cut. Tiles with operands that are
not finite go to `tensor_special`, sums so small or large that f32 could not hold a term exactly to
`tensor_slow`.

Exponents are biased here: `top` carries twice the operand bias, so that sums need no correction.
"""

from __future__ import annotations

from weft.ir.builder import BITS, Builder, Val
from weft.ir.tensor_format import FORMATS, NOTHING, exponent, magnitude, to_float
from weft.ir.tensor_operand import (
    Columns,
    N,
    Step,
    load_accumulator,
    load_columns,
    load_rows,
    splats,
    store_accumulator,
)
from weft.ir.tensor_special import call_special

FLOOR = {"f32": -133, "f16": -21}
"""The least exponent that a sum is aligned to, by accumulator."""

LOWEST, HIGHEST = -100, 120
"""Range of `top` where f32 holds every product that counts, both scales and the result."""


def call_step(b: Builder, step: Step, *fragments: Val, fast: bool = False) -> None:
    """Calls the step's function on A, B, C and D in memory; `fast` is a chain of FMAs.

    A sparse step has a fifth pointer: its table of rows of B.
    """
    body = _fma_body if fast else _exact_body
    name, params = step.name + (".fast" if fast else ""), [("ptr", 0)] * len(fragments)
    fn = b.helper(name, params, None, lambda inner, ps: body(inner, step, *ps))
    fn(*fragments)


def _accumulator(step: Step) -> str:
    return "half" if step.accumulator == "f16" else "float"


def _fma_body(
    b: Builder, step: Step, a: Val, bt: Val, c: Val, d: Val, picks: Val | None = None
) -> None:
    fmt, ty, runs_of_b = step.format, _accumulator(step), step.runs_of_b
    values = b.array("float", runs_of_b.count * runs_of_b.width * N)
    for k, bits in enumerate(load_columns(b, bt, runs_of_b)):
        b.store(to_float(b, bits, fmt), b.at(values, k * N * 4), 16)
    columns = Columns(values, "float", N * 4, picks)
    with b.loop(step.rows) as m:
        # Two chains halve the latency: fast math keeps no order of summation.
        chains = [b.cast("fpext", load_accumulator(b, ty, c, m), "float"), b.zero("float", N)]
        runs = [to_float(b, v, fmt) for v in load_rows(b, a, m, step.rows, step.runs)]
        for k, x in enumerate(splats(b, runs)):
            y = columns.load(b, k, m)
            chains[k % 2] = b.fma(x, y, chains[k % 2])
        acc = b.cast("fptrunc", chains[0] + chains[1], ty)
        store_accumulator(b, b.canonical(acc), d, m)


def _exact_body(
    b: Builder, step: Step, a: Val, bt: Val, c: Val, d: Val, picks: Val | None = None
) -> None:
    """Three loops over rows, so that the latencies of one row hide behind the next."""
    ty, shift, runs_of_b = _accumulator(step), 2 * step.format.bias, step.runs_of_b
    rows = b.array("float", step.rows * step.depth)
    values = b.array("float", runs_of_b.count * runs_of_b.width * N)
    columns = Columns(values, "float", N * 4, picks)
    tops, scales, totals = (b.array(t, step.rows * N) for t in ("i16", "i32", "i32"))
    unusual = _operands(b, step, a, bt, rows, columns, tops)
    high, low = _Peak(b, "smax", "i16", N, NOTHING), _Peak(b, "smin", "i16", N, -NOTHING)
    sums = _Peak(b, "umax", "i32", N)
    # An f32 sum below LOWEST goes to the slow path, which alone reaches down to FLOOR.
    floor = LOWEST if ty == "float" else FLOOR["f16"]
    with b.loop(step.rows) as m:
        acc = load_accumulator(b, ty, c, m)
        top = b.smax(_row_of(b, "i16", tops, m), _EXPONENT[ty](b, b.bits(acc), shift))
        high.see(top)
        low.see(top)
        scale = _power(b, 127 + step.fraction + shift - b.smax(top, floor + shift))
        b.store(scale, _row_at(b, "i32", scales, m), 16)
        first = b.cast("fpext", acc, "float") * b.reinterpret(scale, "float")
        b.store(b.cast("fptosi", first, "i32"), _row_at(b, "i32", totals, m), 16)
    with b.loop(step.rows) as m:
        _sum(b, step, rows, columns, scales, totals, m)
    with b.loop(step.rows) as m:
        total = _row_of(b, "i32", totals, m)
        size = b.intrinsic("abs", [total], extra="false")
        sums.see(size)
        # The reciprocal of a power of two: the two exponent fields add up to 254.
        back = b.reinterpret((254 << 23) - _row_of(b, "i32", scales, m), "float")
        store_accumulator(b, _PACK[ty](b, step, total, size, back), d, m)
    bad = unusual | sums.any("uge", 0x7FFFFFFF) | high.any("sgt", HIGHEST + shift)
    if ty == "float":
        # An output whose terms are all zero looks small too; it needs no slow path.
        small = low.any("slt", LOWEST + shift)
        no = b.integer("i1", 0)
        bad = bad | b.either(small, lambda: _terms_are_small(b, step, c, tops), lambda: no)
    # The whole tile is computed again, so what is in D by now does not matter.
    with b.when(bad, rare=True):
        more = [] if picks is None else [picks]
        call_special(b, step, FLOOR[step.accumulator], call_step, a, bt, c, d, *more)


def _row_at(b: Builder, ty: str, array: Val, m: Val) -> Val:
    return b.at(array, (m * (N * BITS[ty] // 8)).zext("i64"))


def _row_of(b: Builder, ty: str, array: Val, m: Val) -> Val:
    return b.load(ty, N, _row_at(b, ty, array, m), 16)


class _Peak:
    """The most extreme value seen so far in each lane."""

    def __init__(self, b: Builder, op: str, ty: str, n: int, start: int = 0) -> None:
        self.b, self.op, self.ty, self.n, self.slot = b, op, ty, n, b.alloca(ty, n, 16)
        b.store(b.splat(b.integer(ty, start), n), self.slot, 16)

    def see(self, v: Val) -> None:
        seen = self.b.load(self.ty, self.n, self.slot, 16)
        self.b.store(self.b.intrinsic(self.op, [seen, v]), self.slot, 16)

    def any(self, compare: str, limit: int) -> Val:
        seen = self.b.load(self.ty, self.n, self.slot, 16)
        return self.b.any(self.b.icmp(compare, seen, limit))


def _operands(
    b: Builder, step: Step, a: Val, bt: Val, rows: Val, columns: Columns, tops: Val
) -> Val:
    """Values of A and B, every output's largest product exponent; is an operand not finite?"""
    fmt, lane, runs_of_b = step.format, step.format.lane, step.runs_of_b
    pair = 2 * N * int(lane[1:]) // 8
    exponents = b.array(lane, runs_of_b.count * runs_of_b.width * 2 * N)
    in_a, in_b = (_Peak(b, "umax", fmt.container, n) for n in (2 * step.runs.width, N))
    of_row = Columns(exponents, lane, pair, columns.picks)
    for k, bits in enumerate(load_columns(b, bt, runs_of_b)):
        mag = magnitude(bits, fmt)
        in_b.see(mag)
        b.store(to_float(b, bits, fmt), b.at(columns.base, k * N * 4), 16)
        # Twice, because the loop below handles two rows of A in one vector.
        b.store(b.concat([exponent(b, mag, fmt)] * 2), b.at(exponents, k * pair), 16)
    with b.loop(step.rows // 2) as i:  # two rows fill a vector of bytes
        runs = load_rows(b, a, i * 2, step.rows, step.runs, 2)
        for j, run in enumerate(runs):
            place = b.at(rows, (i * (8 * step.depth) + 8 * step.runs.width * j).zext("i64"))
            b.store(to_float(b, run, fmt), place, 16)
        mags = [magnitude(v, fmt) for v in runs]
        for mag in mags:
            in_a.see(mag)
        best: list[Val] = []  # two chains, for the latency
        for k, e in enumerate(splats(b, [exponent(b, mag, fmt) for mag in mags], 2)):
            if step.sparse:
                of_b = b.concat([of_row.load(b, k, i * 2), of_row.load(b, k, i * 2 + 1)])
            else:
                of_b = b.load(lane, 2 * N, b.at(exponents, k * pair), 16)
            total = e + of_b
            best = [*best, total] if k < 2 else [best[1], b.smax(best[0], total)]
        top = b.resize(b.smax(best[0], best[1]), "i16", signed=True)
        nothing = b.splat(b.integer("i16", NOTHING), 2 * N)
        b.store(top.slt(0).select(nothing, top), b.at(tops, (i * 32).zext("i64")), 16)
    return in_a.any("uge", fmt.special) | in_b.any("uge", fmt.special)


def _exponent_f32(b: Builder, c: Val, shift: int) -> Val:
    """The exponent of c; zero counts as subnormal, and such small ones are looked at again."""
    return (((c >> 16).trunc("i16") & 0x7FFF) >> 7) + (shift - 127)


def _exponent_f16(b: Builder, c: Val, shift: int) -> Val:
    """The exponent of c, below the floor for zero and above `HIGHEST` if c is not finite."""
    half = FORMATS["f16"]
    mag = magnitude(c, half)
    real = b.resize(exponent(b, mag, half), "i16", signed=True) + (shift - half.bias)
    return mag.uge(half.special).select(b.splat(b.integer("i16", -NOTHING), N), real)


def _power(b: Builder, field: Val) -> Val:
    """Bits of 2^(field-127) from i16 fields: their upper halves beside zeros."""
    spread = [i // 2 + (0 if i % 2 else N) for i in range(2 * N)]
    return b.view(b.shuffle(field << 7, spread, b.zero("i16", N)), "i32", N)


def _sum(
    b: Builder, step: Step, rows: Val, columns: Columns, scales: Val, totals: Val, m: Val
) -> None:
    """The products cut and added; a sum past 31 bits saturates, which the caller looks for."""
    factor, sums = _row_of(b, "float", scales, m), [_row_of(b, "i32", totals, m)]
    width, count = step.runs.width, step.runs.count
    # As `_operands` left them: the runs of two rows side by side.
    base = b.at(rows, ((m >> 1) * (8 * step.depth) + (m & 1) * (4 * width)).zext("i64"))
    runs = [b.load("float", width, b.at(base, 8 * width * j), 16) for j in range(count)]
    for k, x in enumerate(splats(b, runs)):
        product = x * columns.load(b, k, m)
        term = b.cast("fptosi", product * factor, "i32")
        if k == 8 and step.fraction == 25:  # nine terms below 2^27 fit, seventeen do not
            sums.append(term)
        else:
            sums[-1] = sums[-1] + term
    total = sums[0] if len(sums) == 1 else b.intrinsic("sadd.sat", sums)
    b.store(total, _row_at(b, "i32", totals, m), 16)


def _terms_are_small(b: Builder, step: Step, c: Val, tops: Val) -> Val:
    """Is there an output with a term that is not zero, but none of a size for the common path?"""
    shift, largest = 2 * step.format.bias, _Peak(b, "umax", "i16", N)
    with b.loop(step.rows) as m:
        acc, products = b.bits(load_accumulator(b, "float", c, m)), _row_of(b, "i16", tops, m)
        small = b.smax(products, _exponent_f32(b, acc, shift)).slt(LOWEST + shift)
        largest.see((small & (products.ne(NOTHING) | (acc << 1).ne(0))).zext("i16"))
    return largest.any("ne", 0)


def _cut_float(b: Builder, size: Val) -> tuple[Val, Val]:
    """Bits of the f32 that is `size` cut to 24 bits, and where something was cut off."""
    near = b.cast("uitofp", size, "float")
    again = b.cast("fptoui", near, "i32")
    return b.bits(near) + again.ugt(size).sext("i32"), again.ne(size)


def _pack_f32(b: Builder, step: Step, total: Val, size: Val, back: Val) -> Val:
    bits, _ = _cut_float(b, size)
    if step.out_mantissa < 23:
        bits = bits & -(1 << (23 - step.out_mantissa))
    # Never NaN where the result is kept, so the bits are taken as they are.
    result = b.cast("bitcast", b.reinterpret(bits, "float") * back, "i32")
    return b.reinterpret(result | (total & (1 << 31)), "float")


def _pack_f16(b: Builder, step: Step, total: Val, size: Val, back: Val) -> Val:
    bits, inexact = _cut_float(b, size)
    # The last bit represents all that was cut off, so that rounding to half happens once.
    odd = b.reinterpret(bits | inexact.zext("i32"), "float")
    half = b.cast("bitcast", b.cast("fptrunc", odd * back, "half"), "i16")
    signed = half | ((total >> 16).trunc("i16") & 0x8000)
    return b.reinterpret(half.eq(0).select(half, signed), "half")


_EXPONENT = {"float": _exponent_f32, "half": _exponent_f16}
_PACK = {"float": _pack_f32, "half": _pack_f16}
