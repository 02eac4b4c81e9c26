"""The integer, logic and comparison rows against what an H200 answered, and against Python."""

from __future__ import annotations

import functools
import json
import operator
import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from folders import TESTS
from lanewise import UINT, run
from weft.ptx.isa import lookup

TRIED = 96
"""Operand tuples that an opcode is tried on."""
HARDWARE = TESTS / "golden" / "hardware"
FORMS: dict[str, Any] = json.loads((HARDWARE / "ops.json").read_text())
SAMPLES = np.load(HARDWARE / "scalar_samples.npz")
BASES = {
    "add", "sub", "mul", "mad", "mul24", "mad24", "sad", "div", "rem", "abs", "neg", "min", "max",
    "popc", "clz", "bfind", "fns", "brev", "bfe", "bfi", "szext", "bmsk", "dp4a", "dp2a", "shf",
    "shl", "shr", "prmt", "setp", "testp",
}  # fmt: skip
WIDTHS = pytest.mark.parametrize("lanes", [0, 32], ids=["scalar", "warp"])


# ---- recorded answers --------------------------------------------------------------------------
def recorded() -> list[str]:
    """The recorded forms of this family: integer operands, or a predicate as result."""
    mine = []
    for name, (kinds, _) in FORMS.items():
        base = name.split(".")[0]
        if base in BASES and (kinds[0] in ("i16", "i32", "i64") or base in ("setp", "testp")):
            mine.append(name)
    return mine


def operands(name: str, columns: list[np.ndarray]) -> tuple[str, list[np.ndarray]]:
    """Opcode and sources; the recorder packed position and length of bfi into one word."""
    if not name.startswith("bfi."):
        return name, columns
    a, b, packed = columns
    if name.endswith(".small"):
        bits = 6 if "b32" in name else 7
        low, high = packed & (1 << bits) - 1, packed >> bits & (1 << bits) - 1
    else:
        low, high = packed & 0xFFFF, packed >> 16
    return name.removesuffix(".small"), [a, b, low, high]


@WIDTHS
@pytest.mark.parametrize("name", recorded())
def test_recorded(name: str, lanes: int) -> None:
    kinds, _ = FORMS[name]
    columns = [SAMPLES[f"in:{'+'.join(kinds)}:{i}"] for i in range(len(kinds))]
    opcode, sources = operands(name, columns)
    got = run(opcode, sources, lanes)[0]
    np.testing.assert_array_equal(got.astype(np.uint64), SAMPLES[f"out:{name}"].astype(np.uint64))


# ---- Python's own integers ---------------------------------------------------------------------
Oracle = Callable[..., Any]
INTS = ("u16", "u32", "u64", "s16", "s32", "s64")


def number(v: int, t: str) -> int:
    """A bit pattern as the number that type `t` makes of it."""
    w = int(t[1:])
    return v - (1 << w) if t[0] == "s" and v >> (w - 1) else v


def typed(t: str, fn: Oracle) -> Oracle:
    return lambda *vs: fn(*[number(v, t) for v in vs])


def quotient(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return -q if (a < 0) != (b < 0) else q


def carried(total: int, t: str) -> tuple[int, int]:
    w = int(t[1:])
    return total, int(total >> w != 0)


def arithmetic(t: str) -> Iterator[tuple[str, Oracle]]:
    w = int(t[1:])
    mask = (1 << w) - 1
    yield f"add.{t}", operator.add
    yield f"sub.{t}", operator.sub
    yield f"mul.lo.{t}", operator.mul
    yield f"mul.hi.{t}", typed(t, lambda a, b: a * b >> w)
    yield f"mad.lo.{t}", lambda a, b, c: a * b + c
    yield f"mad.hi.{t}", typed(t, lambda a, b, c: (a * b >> w) + c)
    yield f"sad.{t}", typed(t, lambda a, b, c: c + abs(a - b))
    yield f"div.{t}", typed(t, lambda a, b: quotient(a, b) if b else -1)
    yield f"rem.{t}", typed(t, lambda a, b: a - quotient(a, b) * b if b else -1)
    yield f"min.{t}", typed(t, min)
    yield f"max.{t}", typed(t, max)
    yield f"shr.{t}", lambda a, b: number(a, t) >> min(b, w)
    if t[0] == "s":
        yield f"abs.{t}", typed(t, abs)
        yield f"neg.{t}", typed(t, operator.neg)
    if w < 64:
        yield f"mul.wide.{t}", typed(t, operator.mul)
        yield f"mad.wide.{t}", lambda a, b, c: number(a, t) * number(b, t) + c
    if w > 16:
        yield f"add.cc.{t}", lambda a, b: carried(a + b, t)
        yield f"addc.{t}", lambda a, b, cc: a + b + cc
        yield f"addc.cc.{t}", lambda a, b, cc: carried(a + b + cc, t)
        yield f"sub.cc.{t}", lambda a, b: carried(a + (b ^ mask) + 1, t)
        yield f"subc.{t}", lambda a, b, cc: a + (b ^ mask) + cc
        yield f"subc.cc.{t}", lambda a, b, cc: carried(a + (b ^ mask) + cc, t)
        high = typed(t, lambda a, b: a * b >> w & mask)
        yield f"mad.lo.cc.{t}", lambda a, b, c: carried((a * b & mask) + c, t)
        yield f"mad.hi.cc.{t}", lambda a, b, c: carried(high(a, b) + c, t)
        yield f"madc.lo.{t}", lambda a, b, c, cc: a * b + c + cc
        yield f"madc.hi.{t}", lambda a, b, c, cc: high(a, b) + c + cc
        yield f"madc.lo.cc.{t}", lambda a, b, c, cc: carried((a * b & mask) + c + cc, t)
        yield f"madc.hi.cc.{t}", lambda a, b, c, cc: carried(high(a, b) + c + cc, t)


def clamp(v: int, t: str) -> int:
    low = number(1 << int(t[1:]) - 1, t) if t[0] == "s" else 0
    return max(low, min(v, low + (1 << int(t[1:])) - 1))


def logic() -> Iterator[tuple[str, Oracle]]:
    for t in ("b16", "b32", "b64", "pred"):
        yield f"and.{t}", operator.and_
        yield f"or.{t}", operator.or_
        yield f"xor.{t}", operator.xor
        yield f"not.{t}", operator.invert
        if t != "pred":
            yield f"cnot.{t}", lambda a: int(a == 0)
            yield f"shl.{t}", lambda a, b, w=int(t[1:]): a << min(b, w)
            yield f"shr.{t}", lambda a, b, w=int(t[1:]): a >> min(b, w)
    for t in ("b32", "b64"):
        yield f"popc.{t}", int.bit_count
        yield f"clz.{t}", lambda a, w=int(t[1:]): w - a.bit_length()
    yield "lop3.b32", table3
    yield "lop3.or.b32", lambda *v: (table3(*v[:4]), int(table3(*v[:4]) != 0) | v[4])
    yield "lop3.and.b32", lambda *v: (table3(*v[:4]), int(table3(*v[:4]) != 0) & v[4])
    for t in ("u32", "s32"):
        yield f"mul24.lo.{t}", lambda a, b, t=t: low24(a, t) * low24(b, t)
        yield f"mad24.lo.{t}", lambda a, b, c, t=t: low24(a, t) * low24(b, t) + c
        yield f"mad24.hi.{t}", lambda a, b, c, t=t: (low24(a, t) * low24(b, t) >> 16) + c
        for u in ("u32", "s32"):
            yield f"dp4a.{t}.{u}", lambda a, b, c, t=t, u=u: c + dot(a, b, t, u, 8, 0)
            yield f"dp2a.lo.{t}.{u}", lambda a, b, c, t=t, u=u: c + dot(a, b, t, u, 16, 0)
            yield f"dp2a.hi.{t}.{u}", lambda a, b, c, t=t, u=u: c + dot(a, b, t, u, 16, 2)


def table3(a: int, b: int, c: int, table: int) -> int:
    rows = (((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1) for i in range(32))
    return sum((table >> row & 1) << i for i, row in enumerate(rows))


def low24(v: int, t: str) -> int:
    return number(v & 0xFFFFFF, t[0] + "24")


def dot(a: int, b: int, t: str, u: str, width: int, first: int) -> int:
    total = 0
    for i in range(32 // width):
        x = number(a >> width * i & (1 << width) - 1, f"{t[0]}{width}")
        total += x * number(b >> 8 * (first + i) & 0xFF, u[0] + "8")
    return total


# ---- comparisons -------------------------------------------------------------------------------
ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge, "lo": operator.lt, "ls": operator.le,
    "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip
BOOL = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
TRUE = {"f16": ("f16", 0x3C00), "bf16": ("bf16", 0x3F80)}
FORMAT = {"f16": ("<e", 2, 2.0**-14), "f32": ("<f", 4, 2.0**-126), "f64": ("<d", 8, 0.0)}


def real(bits: int, t: str, ftz: bool) -> float:
    if t == "bf16":
        return real(bits << 16, "f32", ftz)
    code, size, least = FORMAT[t]
    value: float = struct.unpack(code, bits.to_bytes(size, "little"))[0]
    return 0.0 if ftz and abs(value) < least else value


def float_test(cmp: str, a: float, b: float) -> int:
    unordered = a != a or b != b
    if cmp in ("num", "nan"):
        return int(unordered == (cmp == "nan"))
    if unordered:
        return int(len(cmp) == 3)
    return int(ORDER[cmp[:2]](a, b))


def compared(cmp: str, t: str, ftz: bool = False) -> Oracle:
    if t in INTS:
        return typed(t, lambda a, b: int(ORDER[cmp](a, b)))
    return lambda a, b: float_test(cmp, real(a, t, ftz), real(b, t, ftz))


def scaled(test: Oracle, one: int) -> Oracle:
    return lambda a, b: test(a, b) * one


def setp(test: Oracle, op: str = "") -> Oracle:
    if not op:
        return lambda a, b: (test(a, b), 1 - test(a, b))
    return lambda a, b, c: (BOOL[op](test(a, b), c), BOOL[op](1 - test(a, b), c))


def setp_packed(test: Oracle, op: str = "") -> Oracle:
    def both(a: int, b: int, c: int = 0) -> tuple[int, int]:
        low, high = test(a & 0xFFFF, b & 0xFFFF), test(a >> 16, b >> 16)
        return (BOOL[op](low, c), BOOL[op](high, c)) if op else (low, high)

    return both


def comparisons() -> Iterator[tuple[str, Oracle]]:
    for t in INTS:
        for cmp in ("eq", "ne", "lt", "le", "gt", "ge", *(("lo", "hs") if t[0] == "u" else ())):
            yield f"setp.{cmp}.{t}", setp(compared(cmp, t))
            yield f"setp.{cmp}.xor.{t}", setp(compared(cmp, t), "xor")
            yield f"set.{cmp}.u32.{t}", scaled(compared(cmp, t), -1)
    floats = [*list(ORDER)[:6], "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]
    for t in ("f32", "f64", "f16", "bf16"):
        for i, cmp in enumerate(floats):
            op = ("and", "or", "xor")[i % 3]
            yield f"setp.{cmp}.{t}", setp(compared(cmp, t))
            yield f"setp.{cmp}.{op}.{t}", setp(compared(cmp, t), op)
            dtype, one = TRUE.get(t, ("f32", 0x3F800000))
            yield f"set.{cmp}.{dtype}.{t}", scaled(compared(cmp, t), one)
            if t in ("f32", "f16"):
                yield f"setp.{cmp}.ftz.{t}", setp(compared(cmp, t, True))
            if t in ("f16", "bf16"):
                yield f"setp.{cmp}.{t}x2", setp_packed(compared(cmp, t))
                yield f"setp.{cmp}.{op}.{t}x2", setp_packed(compared(cmp, t), op)
                both = setp_packed(compared(cmp, t))
                yield f"set.{cmp}.{t}x2.{t}x2", lambda a, b, f=both, one=one: joined(f(a, b), one)
                yield f"set.{cmp}.u32.{t}x2", lambda a, b, f=both: joined(f(a, b), 0xFFFF)
    for t in ("b16", "u32", "s64", "f32", "f64"):
        yield f"selp.{t}", lambda a, b, c: a if c else b
        yield f"slct.{t}.s32", lambda a, b, c: a if number(c, "s32") >= 0 else b
        yield f"slct.{t}.f32", lambda a, b, c: a if real(c, "f32", False) >= 0 else b
        yield f"slct.ftz.{t}.f32", lambda a, b, c: a if real(c, "f32", True) >= 0 else b


def joined(tests: tuple[int, int], one: int) -> int:
    return tests[0] * one | (tests[1] * one) << 16


# ---- video -------------------------------------------------------------------------------------
VIDEO: dict[str, Callable[[int, int], int]] = {
    "vadd": operator.add, "vsub": operator.sub, "vabsdiff": lambda a, b: abs(a - b),
    "vmin": min, "vmax": max, "vavrg": lambda a, b: (a + b + (a + b >= 0)) >> 1,
}  # fmt: skip


def elements(v: int, count: int, t: str) -> list[int]:
    w = 32 // count
    return [number(v >> w * i & (1 << w) - 1, f"{t[0]}{w}") for i in range(count)]


def simd(op: str, count: int, d: str, t: str, u: str, tail: str) -> Oracle:
    w = 32 // count

    def run_all(a: int, b: int, c: int) -> int:
        pairs = zip(elements(a, count, t), elements(b, count, u), strict=True)
        values = [VIDEO[op](x, y) for x, y in pairs]
        if tail == ".add":
            return c + sum(values)
        values = [clamp(v, f"{d[0]}{w}") for v in values] if tail else values
        return sum((v & (1 << w) - 1) << w * i for i, v in enumerate(values))

    return run_all


def video() -> Iterator[tuple[str, Oracle]]:
    for op in VIDEO:
        for d, t, u in (("u32", "u32", "u32"), ("s32", "s32", "s32"), ("s32", "u32", "s32")):
            for count in (2, 4):
                for tail in ("", ".sat", ".add"):
                    yield f"{op}{count}.{d}.{t}.{u}{tail}", simd(op, count, d, t, u, tail)
            if op == "vavrg":
                continue
            whole = lambda a, b, f=VIDEO[op], t=t, u=u: f(number(a, t), number(b, u))  # noqa: E731
            yield f"{op}.{d}.{t}.{u}", whole
            if d == "s32":  # an unsigned word wraps at the top
                yield f"{op}.{d}.{t}.{u}.sat", lambda a, b, f=whole: clamp(f(a, b), "s32")
            else:
                yield f"{op}.{d}.{t}.{u}.sat", lambda a, b, f=whole: max(f(a, b), 0)
            yield f"{op}.{d}.{t}.{u}.add", lambda a, b, c, f=whole: f(a, b) + c


# ---- one test body -----------------------------------------------------------------------------
ORACLES = dict([*(x for t in INTS for x in arithmetic(t)), *logic(), *comparisons(), *video()])


SPECIAL = {
    16: [0x3C00, 0x7C00, 0x7E00, 0x7F80, 0x7FC0],
    32: [0x3F800000, 0x7F800000, 0x7FC00000, 0x3C003C00, 0x7F807FC0],
    64: [0x3FF << 52, 0x7FF << 52, 0xFFF8 << 48],
}


@functools.cache
def edges(width: int) -> list[int]:
    """Ends of ranges, powers of two and float specials."""
    top = 1 << width - 1
    known = [0, 1, 2, 3, 7, 31, 32, 63, 64, 255, 256, top - 1, top, top + 1, 2 * top - 1]
    known += [1 << i for i in range(0, width, 5)]
    known += SPECIAL.get(width, [])
    return sorted({k % (2 * top) for k in known})


def draw(rng: random.Random, width: int) -> int:
    """Any bit pattern, with a liking for edges and for small numbers."""
    if rng.random() < 0.5:
        return rng.choice(edges(width))
    return rng.getrandbits(width) >> rng.choice((0, 0, rng.randrange(width)))


def widths(opcode: str) -> list[int]:
    decoded = lookup(opcode.split("."))
    assert decoded is not None, f"no row for {opcode}"
    kinds = [decoded.types[s.name] for s in decoded.row.operands if not s.is_dest]
    packed = {"pred": 1, "f16x2": 32, "bf16x2": 32, "bf16": 16}
    return [packed.get(k) or int(k[1:]) for k in kinds]


@pytest.mark.parametrize("opcode", sorted(ORACLES))
def test_against_python(opcode: str, seed: str) -> None:
    rng, kinds = random.Random(f"{seed} {opcode}"), widths(opcode)
    lanes = [tuple(draw(rng, w) for w in kinds) for _ in range(TRIED)]
    columns = [np.array(column, np.uint64) for column in zip(*lanes, strict=True)]
    wanted = [ORACLES[opcode](*lane) for lane in lanes]
    for width in (0, 32):
        got = run(opcode, columns, width)
        for i, column in enumerate(got):
            mask = 1 if _is_predicate(opcode, i) else (1 << 8 * column.itemsize) - 1
            expected = [(w[i] if isinstance(w, tuple) else w) & mask for w in wanted]
            np.testing.assert_array_equal(column, np.array(expected, UINT[8 * column.itemsize]))


def _is_predicate(opcode: str, index: int) -> bool:
    return index == 1 or opcode.startswith("setp") or opcode.endswith(".pred")
