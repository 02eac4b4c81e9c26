"""The expressions that random programs are made of: one row for each kind of operation.

A row is written once for all its result types. In its text `{T}` is the result's type, `{W}` the
unsigned type that its arithmetic is done in (signed overflow is undefined), `{M}` its width minus
one, and `{0}`, `{1}`, … are the operands. CUDA C++ and the host compile the same text:
`device.h` and `host.h` give the intrinsics on each side.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from weft.fuzz.nodes import BITS, BOOL, FLOATS, INTEGERS, NUMBERS, SIGNED, UNSIGNED, Node

WIDE = ("i32", "u32", "i64", "u64")


@dataclass(frozen=True)
class Op:
    """One operation on operands of known types."""

    name: str
    type: str
    operands: tuple[str, ...]
    text: str
    weight: float


def _rows() -> list[tuple[str, tuple[str, ...], str, str, float]]:
    """Name, result types, operand types, text, weight; an operand `T` has the result's type."""
    same = [
        ("add", "({T})(({W}){0} + ({W}){1})", 3.0),
        ("sub", "({T})(({W}){0} - ({W}){1})", 2.0),
        ("mul", "({T})(({W}){0} * ({W}){1})", 2.0),
        ("and", "({T})({0} & {1})", 2.0),
        ("or", "({T})({0} | {1})", 1.0),
        ("xor", "({T})({0} ^ {1})", 1.5),
        ("div", "div_of<{T}>({0}, {1})", 0.3),
        ("rem", "rem_of<{T}>({0}, {1})", 0.3),
        ("min", "min_of<{T}>({0}, {1})", 1.0),
        ("max", "max_of<{T}>({0}, {1})", 1.0),
        ("mad", "({T})(({W}){0} * ({W}){1} + ({W}){2})", 0.7),
    ]
    words = [
        ("popc", "__popc((u32){0})", "u32", 1), ("clz", "__clz((i32){0})", "u32", 1),
        ("ffs", "__ffs((i32){0})", "u32", 1), ("brev", "__brev({0})", "u32", 1),
        ("byte_perm", "__byte_perm({0}, {1}, {2} & 0x7777)", "u32", 3),
        ("funnel_l", "__funnelshift_l({0}, {1}, {2})", "u32", 3),
        ("funnel_r", "__funnelshift_r({0}, {1}, {2})", "u32", 3),
        ("funnel_lc", "__funnelshift_lc({0}, {1}, {2} & 63)", "u32", 3),
        ("funnel_rc", "__funnelshift_rc({0}, {1}, {2} & 63)", "u32", 3),
        ("umulhi", "__umulhi({0}, {1})", "u32", 2), ("mulhi", "__mulhi({0}, {1})", "i32", 2),
        # The compiler may assume that a signed product fits: 24 bits times 7 do.
        ("mul24", "__mul24({0}, {1} >> 25)", "i32", 2), ("umul24", "__umul24({0}, {1})", "u32", 2),
        ("sad", "__sad({0} >> 1, {1} >> 1, 7u)", "i32", 2),
        ("usad", "__usad({0}, {1}, {2})", "u32", 3),
        ("hadd", "__hadd({0}, {1})", "i32", 2), ("rhadd", "__rhadd({0}, {1})", "i32", 2),
        ("uhadd", "__uhadd({0}, {1})", "u32", 2), ("urhadd", "__urhadd({0}, {1})", "u32", 2),
        ("dp4a", "__dp4a((i32){0}, (i32){1}, (i32){2})", "u32", 3),
        ("udp4a", "__dp4a({0}, {1}, {2})", "u32", 3),
        ("dp2a", "__dp2a_lo((i32){0}, (i32){1}, (i32){2})", "u32", 3),
        ("vadd4", "__vadd4({0}, {1})", "u32", 2), ("vsub2", "__vsub2({0}, {1})", "u32", 2),
        ("vmaxs4", "__vmaxs4({0}, {1})", "u32", 2), ("vminu2", "__vminu2({0}, {1})", "u32", 2),
        ("vabsdiffu4", "__vabsdiffu4({0}, {1})", "u32", 2),
        ("vcmpgts2", "__vcmpgts2({0}, {1})", "u32", 2),
        ("vcmpeq4", "__vcmpeq4({0}, {1})", "u32", 2),
        ("popcll", "__popcll({0})", "u64", 1), ("clzll", "__clzll((i64){0})", "u64", 1),
        ("ffsll", "__ffsll((i64){0})", "u64", 1),
    ]  # fmt: skip
    longs = [
        ("brevll", "__brevll({0})", ("u64",)),
        ("umul64hi", "__umul64hi({0}, {1})", ("u64", "u64")),
        ("mul64hi", "(u64)__mul64hi((i64){0}, (i64){1})", ("u64", "u64")),
        ("mul_wide", "((u64){0} * {1})", ("u32", "u32")),
        ("mul_wide_s", "(u64)((i64){0} * {1})", ("i32", "i32")),
        ("join", "(((u64){0} << 32) | {1})", ("u32", "u32")),
        ("join_bytes", "bytes_of({0}, {1}, {2})", ("u8", "u16", "u32")),
    ]
    floats = [
        ("fadd", "({0} + {1})", 2, 3.0), ("fsub", "({0} - {1})", 2, 2.0),
        ("fmul", "({0} * {1})", 2, 3.0), ("fdiv", "({0} / {1})", 2, 0.7),
        ("sqrt", "sqrt_of({0})", 1, 0.7), ("fma", "fma_of({0}, {1}, {2})", 3, 1.0),
        ("fneg", "(-{0})", 1, 1.0), ("fabs", "abs_of({0})", 1, 1.0),
        # Of zeros of both signs either may be the larger one: + 0 makes them equal.
        ("fmin", "(fmin_of({0}, {1}) + 0)", 2, 1.0), ("fmax", "(fmax_of({0}, {1}) + 0)", 2, 1.0),
        ("floor", "floor_of({0})", 1, 0.5), ("ceil", "ceil_of({0})", 1, 0.5),
        ("trunc", "trunc_of({0})", 1, 0.5), ("rint", "rint_of({0})", 1, 0.5),
    ]  # fmt: skip
    rows = [
        *((n, INTEGERS, " ".join("T" * (3 if n == "mad" else 2)), t, w) for n, t, w in same),
        ("neg", INTEGERS, "T", "({T})(0 - ({W}){0})", 0.7),
        ("not", INTEGERS, "T", "({T})~{0}", 0.7),
        ("abs", SIGNED, "T", "({T})({0} < 0 ? 0 - ({W}){0} : ({W}){0})", 0.7),
        ("shl", INTEGERS, "T u32", "({T})(({W}){0} << ({1} & {M}))", 1.5),
        ("shr", INTEGERS, "T u32", "({T})({0} >> ({1} & {M}))", 2.0),
        ("shr_23", ("u32",), "u32", "({0} >> 23)", 0.5),
        ("rotl", UNSIGNED, "T u32", "rotate_of<{T}>({0}, {1})", 0.5),
        ("low", WIDE, "T", "({0} & 255)", 1.0),
        ("small", ("i32",), "i32 i32", "(({0} & 1023) * 3 - ({1} & 511))", 0.7),
        ("from_bool", INTEGERS, "bool", "({T}){0}", 0.5),
        ("byte_at", ("u8",), "u64 u32", "byte_at({0}, {1})", 0.7),
        ("half_at", ("u16",), "u64 u32", "half_at({0}, {1})", 0.7),
        ("float_bits", ("u32",), "f32", "{pun}({0})", 2.5),
        ("double_bits", ("u64",), "f64", "{pun}({0})", 2.5),
        ("bits_float", ("f32",), "u32", "__uint_as_float({0})", 1.0),
        ("bits_double", ("f64",), "u64", "__longlong_as_double((i64){0})", 1.0),
        ("select", (*NUMBERS, BOOL), "bool T T", "({0} ? {1} : {2})", 2.0),
        ("logic_and", (BOOL,), "bool bool", "({0} && {1})", 1.0),
        ("logic_or", (BOOL,), "bool bool", "({0} || {1})", 1.0),
        ("logic_not", (BOOL,), "bool", "(!{0})", 0.5),
        ("bit", (BOOL,), "u32 u32", "((({0} >> ({1} & 31)) & 1u) != 0)", 1.0),
        *((n, (t,), " ".join([t] * k), f"({t}){text}", 0.25) for n, text, t, k in words
          if t != "u64"),
        *((n, ("i32",), t, text, 0.7) for n, text, t, k in words if t == "u64"),
        *((n, ("u64",), " ".join(kinds), text, 0.5) for n, text, kinds in longs),
        *((n, FLOATS, " ".join("T" * k), text, w) for n, text, k, w in floats),
    ]  # fmt: skip
    pairs = [(a, b) for a, b in itertools.permutations(NUMBERS, 2)]
    for a, b in pairs:
        into_integer = a in FLOATS and b in INTEGERS
        text = "integer_of<{T}>({0})" if into_integer else "({T}){0}"
        weight = 1.2 if b in FLOATS and a in INTEGERS else 0.5
        rows.append((f"from_{a}", (b,), a, text, weight))
    for kind in NUMBERS:
        for name, sign in (("lt", "<"), ("le", "<="), ("eq", "=="), ("ne", "!=")):
            rows.append((f"{name}_{kind}", (BOOL,), f"{kind} {kind}", f"({{0}} {sign} {{1}})", 0.3))
    return rows


def _operation(name: str, type: str, operands: str, text: str, weight: float) -> Op:
    kinds = tuple(type if kind == "T" else kind for kind in operands.split())
    return Op(name, type, kinds, text, weight)


OPS: dict[tuple[str, str], Op] = {
    (name, type): _operation(name, type, operands, text, weight)
    for name, types, operands, text, weight in _rows()
    for type in types
}
BY_TYPE: dict[str, tuple[Op, ...]] = {
    kind: tuple(op for (_, type), op in OPS.items() if type == kind) for kind in (*NUMBERS, BOOL)
}
WEIGHTS = {kind: [op.weight for op in ops] for kind, ops in BY_TYPE.items()}
_KEEPS_NUMBERS = frozenset({"fneg", "fabs", "floor", "ceil", "trunc", "rint"})


def never_nan(node: Node) -> bool:
    """Return whether this float is never a NaN, so that its bits are defined."""
    if node.op == "const":
        return True
    if node.op.startswith("from_"):
        return node.op.removeprefix("from_") in (*INTEGERS, BOOL) or never_nan(node.kids[0])
    if node.op == "select":
        return all(never_nan(kid) for kid in node.kids[1:])
    if node.op in ("fmin", "fmax"):
        return any(never_nan(kid) for kid in node.kids)
    return node.op in _KEEPS_NUMBERS and never_nan(node.kids[0])


def operation_text(node: Node, operands: list[str]) -> str:
    """The C++ of an operation with these operands."""
    row = OPS[node.op, node.type]
    names = {"T": node.type, "pun": ""}
    if node.type in INTEGERS:
        wide = "u64" if BITS[node.type] == 64 else "u32"
        names |= {"W": wide, "M": str(BITS[node.type] - 1)}
    if "{pun}" in row.text:
        names["pun"] = "raw_bits" if never_nan(node.kids[0]) else "bits_of"
    return row.text.format(*operands, **names)
