"""One tensor-core step on floats: D = A*B + C for 8 columns, bit for bit as the hardware sums.

All K products and c are aligned to the largest exponent `top`, each magnitude is cut to a multiple
of 2^(top-fraction), the sum is exact, and the result is cut (f32) or rounded once (f16).

The common path works on rows of 8 outputs. Products are exact in f32, so scaling by
2^(fraction-top) and converting to an integer toward zero is the cut. The sum, an integer, is
converted back under the rounding mode toward zero: that cuts the result. Tiles with operands that
are not finite go to `tensor_special`, sums so small or large that f32 could not hold a term exactly
to `tensor_slow`.

Exponents are biased here: `top` carries twice the operand bias, so that sums need no correction.
"""

from __future__ import annotations

from weft.ir.builder import BITS, Builder, Val
from weft.ir.tensor_format import FORMATS, NOTHING, exponent, magnitude, to_float
from weft.ir.tensor_layout import N
from weft.ir.tensor_operand import (
    Columns,
    TensorStep,
    load_accumulator,
    load_columns,
    load_rows,
    splats,
    store_accumulator,
)
from weft.ir.tensor_prepare import (
    PAIR,
    Peak,
    places_of_columns,
    places_of_rows,
    prepare_columns,
    prepare_rows,
)
from weft.ir.tensor_special import call_special
from weft.records import dataclass

FLOOR = {"f32": -133, "f16": -21}
"""The least exponent that a sum is aligned to, by accumulator."""

LOWEST, HIGHEST = -100, 120
"""Range of `top` where f32 holds every product that counts, both scales and the result."""


def call_step(b: Builder, step: TensorStep, *fragments: Val, fast: bool = False) -> None:
    """Call the step's function on A, B, C and D in memory; `fast` is a chain of FMAs.

    A sparse step has a fifth pointer: its table of rows of B.
    """
    body = _fma_body if fast else _exact_body
    name, params = step.name + (".fast" if fast else ""), [("ptr", 0)] * len(fragments)
    fn = b.helper(name, params, None, lambda inner, ps: body(inner, step, *ps))
    fn(*fragments)


def _accumulator(step: TensorStep) -> str:
    return "half" if step.accumulator == "f16" else "float"


def _fma_body(
    b: Builder, step: TensorStep, a: Val, bt: Val, c: Val, d: Val, picks: Val | None = None
) -> None:
    fmt, ty, runs_of_b = step.format, _accumulator(step), step.runs_of_b
    values = b.array("float", runs_of_b.count * runs_of_b.width * N)
    for k, bits in enumerate(load_columns(b, bt, runs_of_b)):
        b.store(to_float(b, bits, step.format_of_b), b.at(values, k * N * 4), 16)
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
    b: Builder, step: TensorStep, a: Val, bt: Val, c: Val, d: Val, picks: Val | None = None
) -> None:
    rows = b.array("i8", places_of_rows(step).size)
    columns = b.array("i8", places_of_columns(step).size)
    prepare_rows(b, step, a, rows)
    prepare_columns(b, step, bt, columns)
    more = [] if picks is None else [picks]
    call_prepared(b, step, (a, rows), (bt, columns), c, d, *more)


def call_prepared(
    b: Builder,
    step: TensorStep,
    a: tuple[Val, Val],
    bt: tuple[Val, Val],
    c: Val,
    d: Val,
    *picks: Val,
) -> None:
    """Call the function that sums, on A and B as they are and prepared."""
    params = [*a, *bt, c, d, *picks]
    fn = b.helper(
        step.name + ".sum",
        [("ptr", 0)] * len(params),
        None,
        lambda inner, ps: _checked(inner, step, *ps),
    )
    fn(*params)


def _checked(
    b: Builder,
    step: TensorStep,
    a: Val,
    rows: Val,
    bt: Val,
    columns: Val,
    c: Val,
    d: Val,
    *picks: Val,
) -> None:
    """The sums under the rounding mode toward zero, and then the rare tiles that need more."""
    odd = [
        b.load("i32", 0, b.at(rows, places_of_rows(step).odd)),
        b.load("i32", 0, b.at(columns, places_of_columns(step).odd)),
    ]
    sums = d if step.accumulator == "f32" else b.array("float", step.rows * N)
    params = [rows, columns, c, sums, *picks]
    fn = b.helper(
        step.name + ".rows",
        [("ptr", 0)] * len(params),
        ("i1", 0),
        lambda inner, ps: _all_rows(inner, step, *ps),
    )
    # Out of line: nothing of this function runs under that mode.
    b.module.declarations["@llvm.set.rounding"] = "declare void @llvm.set.rounding(i32)"
    b.emit("call void @llvm.set.rounding(i32 0)")
    unusual = fn(*params)
    b.emit("call void @llvm.set.rounding(i32 1)")
    if step.accumulator == "f16":
        _round_to_half(b, step, sums, d)
    # The whole tile is computed again, so what is in D by now does not matter.
    with b.when(unusual | (odd[0] | odd[1]).ne(0), rare=True):
        call_special(b, step, FLOOR[step.accumulator], call_step, a, bt, c, d, *picks)


def _all_rows(
    b: Builder, step: TensorStep, rows: Val, columns: Val, c: Val, d: Val, picks: Val | None = None
) -> Val:
    """Compute two rows at a time; true if a sum is too small or too large for this path."""
    tile, shift = _Tile(b, step, rows, columns, c, d, picks), step.bias
    high, low = Peak(b, "smax", "i16", PAIR, NOTHING), Peak(b, "smin", "i16", PAIR, -NOTHING)
    sums = Peak(b, "umax", "i32", N)
    # An f32 sum below LOWEST goes to the slow path, which alone reaches down to FLOOR.
    floor = LOWEST if step.accumulator == "f32" else FLOOR["f16"]
    with b.loop(step.rows // 2) as i:
        addends = [tile.addend(i * 2 + row) for row in range(2)]
        top = b.smax(tile.largest(i), tile.exponents(addends))
        high.see(top)
        low.see(top)
        scales = _power(b, 127 + step.fraction + shift - b.smax(top, floor + shift))
        for row, total in enumerate(tile.totals(i, addends, scales)):
            size = b.intrinsic("abs", [total], extra="false")
            sums.see(size)
            # The reciprocal of a power of two: the two exponent fields add up to 254.
            back = b.reinterpret((254 << 23) - scales[row], "float")
            tile.store(total, back, i * 2 + row)
    bad = sums.any("uge", 0x7FFFFFFF) | high.any("sgt", HIGHEST + shift)
    if step.accumulator == "f16":
        return bad
    # An output whose terms are all zero looks small too; it needs no slow path.
    no = b.integer("i1", 0)
    small = low.any("slt", LOWEST + shift)
    return bad | b.either(small, tile.terms_are_small, lambda: no)


@dataclass(frozen=True)
class _Tile:
    """The operands of a step, A and B prepared."""

    b: Builder
    step: TensorStep
    rows: Val
    columns: Val
    c: Val
    d: Val
    picks: Val | None

    def addend(self, m: Val) -> Val:
        """Row m of C, in the order of the prepared columns."""
        b = self.b
        if self.step.accumulator == "f16":
            return load_accumulator(b, "half", self.c, m)
        base = b.at(self.c, ((m + (m & 8)) * 16).zext("i64"))
        return b.concat([b.load("float", 4, base, 16), b.load("float", 4, b.at(base, 128), 16)])

    def exponents(self, addends: list[Val]) -> Val:
        """The exponents of two rows of C, side by side."""
        return _EXPONENTS[self.step.accumulator](self.b, addends, self.step.bias)

    def largest(self, i: Val) -> Val:
        """The largest exponent among the products of each output of two rows."""
        b, step, ty = self.b, self.step, self.step.format.lane
        pair, size = f"i{2 * BITS[ty]}", PAIR * BITS[ty] // 8
        at = i * (step.depth * size // N) + places_of_rows(step).exponents
        near, per = b.at(self.rows, at.zext("i64")), 128 // BITS[pair]
        runs = [
            b.load(pair, min(per, step.depth), b.at(near, k * size // N), 8)
            for k in range(0, step.depth, per)
        ]
        base = b.at(self.columns, places_of_columns(step).exponents)
        columns = Columns(base, ty, size, self.picks, lanes=PAIR)
        best: list[Val] = []  # two chains, for the latency
        for k in range(step.depth):
            met = columns.load(b, k, i * 2)
            if step.sparse:
                other = columns.load(b, k, i * 2 + 1)
                met = b.shuffle(met, [j + j % 2 * PAIR for j in range(PAIR)], other)
            total = b.view(b.shuffle(runs[k // per], [k % per] * N), ty, PAIR) + met
            best = [*best, total] if k < 2 else [best[1], b.smax(best[0], total)]
        top = b.resize(b.smax(best[0], best[1]), "i16", signed=True)
        return top.slt(0).select(b.splat(b.integer("i16", NOTHING), PAIR), top)

    def totals(self, i: Val, addends: list[Val], scales: list[Val]) -> list[Val]:
        """c and the products cut and added; a sum past 31 bits saturates."""
        b, depth = self.b, self.step.depth
        values = Columns(self.columns, "float", N * 4, self.picks)
        factors = [b.reinterpret(scale, "float") for scale in scales]
        starts = [b.at(self.rows, ((i * 2 + row) * (4 * depth)).zext("i64")) for row in range(2)]
        firsts = [b.cast("fpext", v, "float") * f for v, f in zip(addends, factors, strict=True)]
        sums = [[b.cast("fptosi", first, "i32")] for first in firsts]
        for k in range(0, depth, 4):
            runs = [b.load("float", 4, b.at(p, 4 * k), 16) for p in starts]
            for j in range(4):
                ys = [values.load(b, k + j, i * 2 + row) for row in range(1 + self.step.sparse)]
                for row in range(2):
                    product = b.shuffle(runs[row], [j] * N) * ys[row % len(ys)]
                    term = b.cast("fptosi", product * factors[row], "i32")
                    # Nine terms below 2^27 fit, seventeen do not.
                    if k + j == 8 and self.step.fraction == 25:
                        sums[row].append(term)
                    else:
                        sums[row][-1] = sums[row][-1] + term
        return [x[0] if len(x) == 1 else b.intrinsic("sadd.sat", x) for x in sums]

    def store(self, total: Val, back: Val, m: Val) -> None:
        """Cut to 24 bits or fewer; for f16 the last bit represents all that was cut off."""
        b, step = self.b, self.step
        near = b.cast("sitofp", total, "float")
        bits = b.cast("bitcast", near, "i32")
        if step.accumulator == "f16":
            inexact = b.cast("fptosi", near, "i32").ne(total)
            odd = b.reinterpret(bits | inexact.zext("i32"), "float")
            b.store(odd * back, b.at(self.d, (m * (4 * N)).zext("i64")), 16)
            return
        if step.out_mantissa < 23:
            near = b.reinterpret(bits & -(1 << (23 - step.out_mantissa)), "float")
        result = near * back
        base = b.at(self.d, ((m + (m & 8)) * 16).zext("i64"))
        b.store(b.shuffle(result, range(4)), base, 16)
        b.store(b.shuffle(result, range(4, 8)), b.at(base, 128), 16)

    def terms_are_small(self) -> Val:
        """True if an output has a nonzero term, but none of a size for this path."""
        b, shift, found = self.b, self.step.bias, Peak(self.b, "umax", "i16", PAIR)
        with b.loop(self.step.rows // 2) as i:
            addends, products = [self.addend(i * 2 + row) for row in range(2)], self.largest(i)
            small = b.smax(products, self.exponents(addends)).slt(LOWEST + shift)
            words = [b.cast("bitcast", v, "i32") << 1 for v in addends]
            zero = b.shuffle(words[0], _SIDE_BY_SIDE, words[1]).eq(0)
            found.see((small & (products.ne(NOTHING) | ~zero)).zext("i16"))
        return found.any("ne", 0)


def _round_to_half(b: Builder, step: TensorStep, sums: Val, d: Val) -> None:
    """To nearest even, out of line for its rounding mode; a sum that underflows is +0."""

    def body(b: Builder, ps: list[Val]) -> None:
        with b.loop(step.rows) as m:
            total = b.load("float", N, b.at(ps[0], (m * (4 * N)).zext("i64")), 16)
            half = b.cast("fptrunc", total, "half") + b.const("half", 0.0)
            b.store(half, b.at(ps[1], (m * (2 * N)).zext("i64")), 16)

    b.helper(f"tensor.half.m{step.rows}", [("ptr", 0)] * 2, None, body)(sums, d)


_SIDE_BY_SIDE = [row * N + column for column in range(N) for row in range(2)]
"""The order of two rows of outputs in a vector of both."""


def _power(b: Builder, field: Val) -> list[Val]:
    """Bits of 2^(field-127) from i16 fields of two rows: the upper halves of words."""
    words = b.view(field << 7, "i32", N)
    return [words << 16, words & -(1 << 16)]


def _exponents_f32(b: Builder, rows: list[Val], shift: int) -> Val:
    """The exponents of c; zero counts as subnormal, and such small ones are looked at again."""
    halves = [b.view(b.cast("bitcast", v, "i32"), "i16", PAIR) for v in rows]
    upper = b.shuffle(
        halves[0], [i | 1 if i % 2 == 0 else i + PAIR for i in range(PAIR)], halves[1]
    )
    return ((upper & 0x7FFF) >> 7) + (shift - 127)


def _exponents_f16(b: Builder, rows: list[Val], shift: int) -> Val:
    """The exponents of c, below the floor for zero and above `HIGHEST` if c is not finite."""
    half, both = FORMATS["f16"], b.shuffle(rows[0], _SIDE_BY_SIDE, rows[1])
    mag = magnitude(b.cast("bitcast", both, "i16"), half)
    real = b.resize(exponent(b, mag, half), "i16", signed=True) + (shift - half.bias)
    return mag.uge(half.special).select(b.splat(b.integer("i16", -NOTHING), PAIR), real)


_EXPONENTS = {"f32": _exponents_f32, "f16": _exponents_f16}
