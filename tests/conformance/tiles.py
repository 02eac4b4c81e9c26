"""Tensor-core instructions on a million tiles a kind: operands are drawn inside the kernel.

A warp draws each register of A, B and C from a hash of (tile, lane, register), bends it to the
distribution at hand by masks, multiplies, and multiplies once more with A changed in a bit and
C = -D, where nearly everything cancels. What is left of a thread's tiles is one hash (functions.py
says why that is enough).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from conformance.forms import spell
from matrixwise import Kind
from weft.ir.tensor_layout import WIDTH, packed
from weft.ptx.isa import rows

FLOATS = {"f16": (5, 10), "bf16": (8, 7), "tf32": (8, 23), "f32": (8, 23), "f64": (11, 20),
          "e4m3": (4, 3), "e5m2": (5, 2)}  # fmt: skip
"""Exponent and mantissa bits; of f64 the high word's."""
BLOCK, GRID, TURNS = 128, 128, 112
"""A launch has 512 warps, each of which takes 2 * 112 tiles; of a kind that comes in four layouts,
each layout has a quarter of the blocks."""
NEVER, ALWAYS, SOMETIMES = 0xFFFFFFFF, 0, 63
"""The rarity of registers left as drawn, infinities and NaNs included: one in mask + 1."""


@dataclass(frozen=True)
class Distribution:
    """The distribution of A, B and C.

    twin  products come in pairs of opposite sign
    part  the share of blocks that it gets: one part in so many, where simulating it takes long
    """

    name: str
    a: str
    b: str
    c: str
    rare: int = NEVER
    twin: bool = False
    part: int = 1


DISTRIBUTIONS = (
    Distribution("near one", "near", "near", "near"),
    Distribution("sixteen-fold range", "mid", "mid", "mid"),
    Distribution("up to one, denormals too", "low", "low", "low", part=4),
    Distribution("all bits", "raw", "raw", "raw", ALWAYS, part=16),
    Distribution("some infinities and NaNs", "mid", "near", "mid", SOMETIMES, part=4),
    Distribution("denormal A", "denormal", "high", "tiny"),
    Distribution("tiny", "tiny", "near", "tiny", part=4),
    Distribution("twins near one", "near", "near", "tiny", twin=True),
    Distribution("twins of any size", "low", "mid", "denormal", twin=True),
    Distribution("large", "high", "near", "high"),
    Distribution("large C", "mid", "mid", "high"),
    Distribution("powers of two", "power", "power", "power"),
)


def blocks(opcode: str, d: Distribution) -> int:
    """The grid for an opcode: layouts share the million tiles of their kind."""
    words = opcode.split(".")
    fixed = any(w in words for w in ("b1", "s4", "u4"))
    quads = "m8n8k4" in words and "f16" in words
    layouts = 4 if quads or (words[0] == "wmma" and not fixed) else 1
    return GRID // (layouts * d.part)


def count(opcode: str) -> int:
    """Tiles that an opcode is judged on."""
    return sum(2 * TURNS * blocks(opcode, d) * BLOCK // 32 for d in DISTRIBUTIONS)


def opcodes() -> Iterator[str]:
    """Every mma and wmma.mma but the sparse ones, which have tiles of their own."""
    for row in rows():
        if row.syntax.startswith(("mma.sync", "wmma.mma")):
            yield from spell(row)


def masks(kind: str, how: str) -> tuple[int, int]:
    """(and, or) for a 32-bit register of elements of a type."""
    if kind not in FLOATS:
        return {"near": (0x80808080, 0x7F7F7F7F), "high": (0x800000FF, 0x7FFFFF00)}.get(
            how, (0xFFFFFFFF, 0)
        )
    exponent, mantissa = FLOATS[kind]
    bits = 1 + exponent + mantissa
    sign, fraction, field = 1 << bits - 1, (1 << mantissa) - 1, (1 << exponent) - 1
    bias, top = field >> 1, 1 << exponent - 1
    keep, force = {
        "raw": (field, 0),
        "near": (1, bias & ~1),
        "mid": (3, bias & ~3),
        "low": (field ^ top, 0),
        "denormal": (0, 0),
        "tiny": (1, 0),
        "high": (field ^ (top >> 1), top),
        "power": (3, bias & ~3),
    }[how]
    kept = sign | keep << mantissa | (0 if how == "power" else fraction)
    repeat = sum(1 << i for i in range(0, 32, bits))
    return kept * repeat, (force << mantissa) * repeat


def parameters(opcode: str, d: Distribution) -> np.ndarray:
    """The kernel's inputs for a distribution: and, or for each of A, B, C; rarity; twins."""
    words = Kind(opcode).words
    pairs = [masks(words[m], how) for m, how in zip("abc", (d.a, d.b, d.c), strict=True)]
    flat = [x for pair in pairs for x in pair]
    return np.array([*flat, d.rare, 0xFFFFFFFF if d.twin else 0], np.uint32)


def kernel(name: str, opcode: str) -> str:
    """PTX of `name(out, parameters, first)`."""
    kind = Kind(opcode)
    regs = {m: _registers(kind, m) for m in "abcd"}
    lines = [HEAD.format(name=name)]
    for m, (count, bits, _) in regs.items():
        lines.append(f".reg .b{bits} %{m}<{count}>;")
    lines += [START]
    salt = 0
    for m in "abc":
        count, bits, distinct = regs[m]
        for i in range(count):
            salt += 1
            lines += _draw(kind, m, i, count, bits, distinct, salt)
    names = {m: "{" + ", ".join(f"%{m}{i}" for i in range(regs[m][0])) + "}" for m in "abcd"}
    run = f"{opcode} {names['d']}, {names['a']}, {names['b']}, {names['c']};"
    lines += [run, *_hash(regs["d"])]
    if regs["c"] == regs["d"] and kind.words["c"] == kind.words["d"]:
        lines += [
            f"xor.b{regs['c'][1]} %c{i}, %d{i}, {_signs(kind, 'c')};" for i in range(regs["c"][0])
        ]
    lines += [f"xor.b{regs['a'][1]} %a0, %a0, 1;", run, *_hash(regs["d"]), END]
    return "\n".join(lines)


def _registers(kind: Kind, matrix: str) -> tuple[int, int, int]:
    """The number and width of registers, and how many of them are not copies of others."""
    layout, element = kind.layout(matrix), kind.words[matrix]
    per = packed(element)
    distinct = len(dict.fromkeys(layout)) // per
    return len(layout) // per, 64 if WIDTH[element] == 64 else 32, distinct


def _signs(kind: Kind, matrix: str) -> str:
    width = WIDTH[kind.words[matrix]]
    if width == 64:
        return "0x8000000000000000"
    return str(sum(1 << i for i in range(width - 1, 32, width)) if width > 4 else 0x88888888)


def _draw(kind: Kind, m: str, i: int, count: int, bits: int, distinct: int, salt: int) -> list[str]:
    if i >= distinct:
        return [f"mov.b{bits} %{m}{i}, %{m}{i - distinct};"]
    keep, force = {"a": ("%m0", "%m1"), "b": ("%m2", "%m3"), "c": ("%m4", "%m5")}[m]
    lines = _mixed("%x", salt)
    lines += [
        f"and.b32 %y, %x, {keep}; or.b32 %y, %y, {force};",
        "mul.lo.u32 %z, %x, 0x2C1B3C6D; shr.u32 %z, %z, 7; and.b32 %z, %z, %m6;",
        "setp.eq.u32 %q, %z, 0; selp.b32 %x, %x, %y, %q;",
    ]
    half = distinct // 2
    if bits == 64:
        lines += [*_mixed("%y", salt + 1000), f"mov.b64 %{m}{i}, {{%y, %x}};"]
    else:
        lines.append(f"mov.b32 %{m}{i}, %x;")
    if m != "c" and distinct % 2 == 0 and i >= half:  # under `twin` a copy, of other sign in A
        sign = _signs(kind, m) if m == "a" else "0"
        lines += [
            f"xor.b{bits} %{'v' if bits == 64 else 'y'}, %{m}{i - half}, {sign};",
            "setp.ne.u32 %q, %m7, 0;",
            f"selp.b{bits} %{m}{i}, %{'v' if bits == 64 else 'y'}, %{m}{i}, %q;",
        ]
    return lines


def _mixed(register: str, salt: int) -> list[str]:
    return [
        f"add.u32 {register}, %s, {salt * 0x632BE5AB & 0xFFFFFFFF};"
        f"shr.u32 %w, {register}, 16; xor.b32 {register}, {register}, %w;"
        f"mul.lo.u32 {register}, {register}, 0x7FEB352D;"
        f"shr.u32 %w, {register}, 15; xor.b32 {register}, {register}, %w;"
        f"mul.lo.u32 {register}, {register}, 0x846CA68B;"
        f"shr.u32 %w, {register}, 16; xor.b32 {register}, {register}, %w;"
    ]


def _hash(results: tuple[int, int, int]) -> list[str]:
    out = []
    for i in range(results[0]):
        if results[1] == 64:
            out.append(
                f"mov.b64 {{%x, %y}}, %d{i}; mad.lo.u32 %h, %h, 0x9E3779B1, %x;"
                "mad.lo.u32 %h, %h, 0x9E3779B1, %y;"
            )
        else:
            out.append(f"mad.lo.u32 %h, %h, 0x9E3779B1, %d{i};")
    return out


HEAD = """.visible .entry {name}(.param .u64 p_out, .param .u64 p_how, .param .u32 p_first) {{
.reg .b32 %i, %block, %size, %s, %n, %h, %k, %w, %x, %y, %z, %m<8>; .reg .b64 %at, %v;
.reg .pred %p, %q;"""
START = f"""mov.u32 %i, %tid.x; mov.u32 %block, %ctaid.x; mov.u32 %size, %ntid.x;
mad.lo.u32 %i, %block, %size, %i;
ld.param.u64 %at, [p_how];
ld.global.v4.u32 {{%m0, %m1, %m2, %m3}}, [%at];
ld.global.v4.u32 {{%m4, %m5, %m6, %m7}}, [%at+16];
ld.param.u32 %n, [p_first];
mad.lo.u32 %n, %n, {GRID * BLOCK}, %i;
mov.u32 %h, 0; mov.u32 %k, 0;
AGAIN:
mul.lo.u32 %s, %n, 0x9E3779B1;"""
END = f"""add.u32 %n, %n, {GRID * BLOCK};
add.u32 %k, %k, 1;
setp.lt.u32 %p, %k, {TURNS};
@%p bra AGAIN;
ld.param.u64 %at, [p_out];
mad.wide.u32 %at, %i, 4, %at;
st.global.u32 [%at], %h;
ret; }}
"""
