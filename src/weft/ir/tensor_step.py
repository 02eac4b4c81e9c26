"""One tensor-core step on floats: D = A*B + C for 8 columns, bit for bit as the hardware sums.

All K products and c are aligned to the largest exponent `top`, each magnitude is cut to a multiple
of 2^(top-fraction), the sum is exact, and the result is cut (f32) or rounded once (f16).

The common path works on a row of 8 outputs at a time. Products are exact in f32, so scaling by
2^(fraction-top) and converting to an integer toward zero is the cut. Operands that are not finite,
and sums so small or large that f32 could not hold a term exactly, go to `tensor_slow`.

Operands stay as the fragments that `mma` holds: with every register stored as 32 lanes, A is
[K/width][M][width], B is [K/width][8][width], and an accumulator row is 8 neighbours (f16) or two
runs of 4 that interleave (f32).
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.ir.builder import Builder, Val
from weft.ir.tensor_format import FORMATS, ZERO, Format, exponent, magnitude, to_float
from weft.ir.tensor_slow import call_slow

N = 8
"""Columns of one step."""

FLOOR = {"f32": -133, "f16": -21}
"""The least exponent that a sum is aligned to, by accumulator."""

LOWEST, HIGHEST = -100, 120
"""Range of `top` where f32 holds every product that counts, both scales and the result."""


@dataclass(frozen=True)
class Step:
    """What one step computes: operand and accumulator formats, rows, depth, and the adder."""

    operand: str
    accumulator: str
    rows: int
    depth: int
    width: int = 0
    fraction: int = 25
    out_mantissa: int = 23

    @property
    def format(self) -> Format:
        return FORMATS[self.operand]

    @property
    def block(self) -> int:
        """Neighbouring k in one stored row: four lanes of one 32-bit register, or as given."""
        return self.width or 4 * 32 // self.format.bits

    @property
    def name(self) -> str:
        tail = f".w{self.width}" if self.width else ""
        tail += f".c{self.fraction}.{self.out_mantissa}" if self.fraction != 25 else ""
        return f"tensor.{self.operand}.{self.accumulator}.m{self.rows}k{self.depth}{tail}"


def call_step(
    b: Builder, step: Step, a: Val, bt: Val, c: Val, d: Val, *, fast: bool = False
) -> None:
    """Calls the step's function on four pointers; `fast` is a chain of FMAs instead."""
    body = _fma_body if fast else _exact_body
    name = step.name + (".fast" if fast else "")
    fn = b.helper(name, [("ptr", 0)] * 4, None, lambda inner, ps: body(inner, step, *ps))
    fn(a, bt, c, d)


# ---- operands ------------------------------------------------------------------------------------
def _columns(b: Builder, step: Step, bt: Val) -> list[Val]:
    """B as one vector of 8 columns' bit patterns for every k."""
    ty, per = step.format.container, 128 // step.format.bits
    out: list[Val] = []
    block_bytes = N * step.block * step.format.bits // 8
    for block in range(step.depth // step.block):
        base = b.at(bt, block * block_bytes)
        chunks = [b.load(ty, per, b.at(base, i * 16), 16) for i in range(block_bytes // 16)]
        for _ in range(3):  # each perfect shuffle moves one bit of the column below the k bits
            half = len(chunks) // 2
            lo = [i // 2 + per * (i % 2) for i in range(per)]
            hi = [i + per // 2 for i in lo]
            chunks = [
                b.shuffle(chunks[i], pick, chunks[i + half])
                for i in range(half)
                for pick in (lo, hi)
            ]
        out += _regroup(b, chunks, N)
    return out


def _regroup(b: Builder, chunks: list[Val], n: int) -> list[Val]:
    """The same elements in vectors of n."""
    per = chunks[0].n
    if per == n:
        return chunks
    if per > n:
        return [b.shuffle(c, range(i, i + n)) for c in chunks for i in range(0, per, n)]
    k = n // per
    return [b.concat(chunks[i : i + k]) for i in range(0, len(chunks), k)]


def _row(b: Builder, step: Step, a: Val, m: Val) -> list[Val]:
    """Row m of A as its stored runs of bit patterns."""
    run = step.block * step.format.bits // 8
    base = b.at(a, (m * run).zext("i64"))
    ty = step.format.container
    return [
        b.load(ty, step.block, b.at(base, i * step.rows * run), run)
        for i in range(step.depth // step.block)
    ]


def _splats(b: Builder, runs: list[Val]) -> list[Val]:
    """Every element of the runs, in all 8 lanes."""
    return [b.shuffle(v, [i] * N) for v in runs for i in range(v.n)]


def _load_row(b: Builder, step: Step, c: Val, m: Val) -> Val:
    """Row m of an accumulator, as float or half."""
    if step.accumulator == "f16":
        return b.load("half", N, b.at(c, (m * 16).zext("i64")), 16)
    base = b.at(c, ((m + (m & 8)) * 16).zext("i64"))
    even, odd = b.load("float", 4, base, 16), b.load("float", 4, b.at(base, 128), 16)
    return b.shuffle(even, [i // 2 + 4 * (i % 2) for i in range(N)], odd)


def _store_row(b: Builder, step: Step, d: Val, m: Val, v: Val) -> None:
    if step.accumulator == "f16":
        b.store(v, b.at(d, (m * 16).zext("i64")), 16)
        return
    base = b.at(d, ((m + (m & 8)) * 16).zext("i64"))
    b.store(b.shuffle(v, [0, 2, 4, 6]), base, 16)
    b.store(b.shuffle(v, [1, 3, 5, 7]), b.at(base, 128), 16)


# ---- the two bodies ------------------------------------------------------------------------------
def _fma_body(b: Builder, step: Step, a: Val, bt: Val, c: Val, d: Val) -> None:
    fmt = step.format
    values = b.array("float", step.depth * N)
    for k, bits in enumerate(_columns(b, step, bt)):
        b.store(to_float(b, bits, fmt), b.at(values, k * N * 4), 16)
    with b.loop(step.rows) as m:
        acc = b.cast("fpext", _load_row(b, step, c, m), "float")
        runs = [to_float(b, v, fmt) for v in _row(b, step, a, m)]
        for k, x in enumerate(_splats(b, runs)):
            acc = b.fma(x, b.load("float", N, b.at(values, k * N * 4), 16), acc)
        if step.accumulator == "f16":
            acc = b.cast("fptrunc", acc, "half")
        _store_row(b, step, d, m, b.canonical(acc))


def _exact_body(b: Builder, step: Step, a: Val, bt: Val, c: Val, d: Val) -> None:
    fmt = step.format
    values, exponents = b.array("float", step.depth * N), b.array("i16", step.depth * N)
    in_b, in_a = _Peak(b, fmt.container, N), _Peak(b, fmt.container, step.block)
    doubt, sums = _Peak(b, "i16", N), _Peak(b, "i32", N)
    for k, bits in enumerate(_columns(b, step, bt)):
        mag = magnitude(b, bits, fmt)
        in_b.see(mag)
        b.store(to_float(b, bits, fmt), b.at(values, k * N * 4), 16)
        b.store(exponent(b, mag, fmt), b.at(exponents, k * N * 2), 16)
    with b.loop(step.rows) as m:
        runs = _row(b, step, a, m)
        mags = [magnitude(b, v, fmt) for v in runs]
        for mag in mags:
            in_a.see(mag)
        highest = _highest(b, [exponent(b, mag, fmt) for mag in mags], exponents)
        acc = _load_row(b, step, c, m)
        top = _TOP[step.accumulator](b, step, highest, b.bits(acc), doubt)
        scale = _power(b, 127 + step.fraction + 2 * fmt.bias - top)
        back = _power(b, top + (127 - step.fraction - 2 * fmt.bias))
        first = b.cast("fptosi", b.cast("fpext", acc, "float") * scale, "i32")
        total = _sum(b, step, first, [to_float(b, v, fmt) for v in runs], values, scale)
        size = b.intrinsic("abs", [total], extra="false")
        sums.see(size)
        _store_row(b, step, d, m, _PACK[step.accumulator](b, step, total, size, back))
    unusual = in_a.reaches(fmt.special) | in_b.reaches(fmt.special)
    with b.when(unusual | doubt.reaches(1) | sums.reaches(0x7FFFFFFF), rare=True):
        call_slow(b, step, FLOOR[step.accumulator], a, bt, c, d)


class _Peak:
    """The largest value seen so far in each lane, unsigned."""

    def __init__(self, b: Builder, ty: str, n: int) -> None:
        self.b, self.ty, self.n, self.slot = b, ty, n, b.alloca(ty, n, 16)
        b.store(b.zero(ty, n), self.slot, 16)

    def see(self, v: Val) -> None:
        self.b.store(self.b.umax(self.b.load(self.ty, self.n, self.slot, 16), v), self.slot, 16)

    def reaches(self, limit: int) -> Val:
        return self.b.any(self.b.load(self.ty, self.n, self.slot, 16).uge(limit))


def _highest(b: Builder, runs: list[Val], exponents: Val) -> Val:
    """The largest product exponent of each column; two chains, for the latency."""
    best: list[Val] = []
    for k, e in enumerate(_splats(b, runs)):
        total = e + b.load("i16", N, b.at(exponents, k * N * 2), 16)
        best = [*best, total] if k < 2 else [best[1], b.smax(best[0], total)]
    return b.smax(best[0], best[1])


def _top_f32(b: Builder, step: Step, highest: Val, c: Val, doubt: _Peak) -> Val:
    """`top` plus twice the operand bias; a row the common path cannot do is put in doubt."""
    shift = 2 * step.format.bias
    field = ((c >> 16).trunc("i16") & 0x7FFF) >> 7
    top = b.smax(highest, field.eq(0).select(b.splat(b.integer("i16", ZERO), N), field + (shift - 127)))
    something = top.sgt(ZERO // 2) | (c << 1).ne(0)
    strange = top.sgt(HIGHEST + shift) | (top.slt(LOWEST + shift) & something)
    doubt.see(strange.zext("i16"))
    return b.smax(top, LOWEST + shift)


def _top_f16(b: Builder, step: Step, highest: Val, c: Val, doubt: _Peak) -> Val:
    half, shift = FORMATS["f16"], 2 * step.format.bias
    mag = magnitude(b, c, half)
    doubt.see(mag.uge(half.special).zext("i16"))
    top = b.smax(highest, exponent(b, mag, half) + (shift - half.bias))
    return b.smax(top, FLOOR["f16"] + shift)


def _power(b: Builder, field: Val) -> Val:
    """2^(field-127) from i16 fields that are a normal f32's."""
    return b.reinterpret((field << 7).zext("i32") << 16, "float")


def _sum(
    b: Builder, step: Step, first: Val, runs: list[Val], values: Val, scale: Val
) -> Val:
    """The terms cut and added; a sum past 31 bits saturates, which the caller looks for."""
    sums = [first]
    for k, x in enumerate(_splats(b, runs)):
        product = x * b.load("float", N, b.at(values, k * N * 4), 16)
        term = b.cast("fptosi", product * scale, "i32")
        if k == 8 and step.fraction == 25:  # nine terms below 2^27 fit, seventeen do not
            sums.append(term)
        else:
            sums[-1] = sums[-1] + term
    return sums[0] if len(sums) == 1 else b.intrinsic("sadd.sat", sums)


def _cut_float(b: Builder, size: Val) -> tuple[Val, Val]:
    """Bits of the f32 that is `size` cut to 24 bits, and where something was cut off."""
    near = b.cast("uitofp", size, "float")
    again = b.cast("fptoui", near, "i32")
    return b.bits(near) + again.ugt(size).sext("i32"), again.ne(size)


def _pack_f32(b: Builder, step: Step, total: Val, size: Val, back: Val) -> Val:
    bits, _ = _cut_float(b, size)
    if step.out_mantissa < 23:
        bits = bits & -(1 << (23 - step.out_mantissa))
    result = b.bits(b.reinterpret(bits, "float") * back)
    return b.reinterpret(result | (total & (1 << 31)), "float")


def _pack_f16(b: Builder, step: Step, total: Val, size: Val, back: Val) -> Val:
    bits, inexact = _cut_float(b, size)
    # The last bit stands for all that was cut off, so that rounding to half happens once.
    odd = b.reinterpret(bits | inexact.zext("i32"), "float")
    half = b.bits(b.cast("fptrunc", odd * back, "half"))
    signed = half | ((total >> 16).trunc("i16") & 0x8000)
    return b.reinterpret(half.eq(0).select(half, signed), "half")


_TOP = {"f32": _top_f32, "f16": _top_f16}
_PACK = {"f32": _pack_f32, "f16": _pack_f16}
