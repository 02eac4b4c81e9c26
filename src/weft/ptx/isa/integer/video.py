"""Video instructions: rows of the PTX manual's sections on scalar and SIMD video instructions.

Operands are whole registers in their default order: the byte and half-word selectors that may
follow a register (`r1.b0`) are not part of the operand model. Shifts are in video_shift.py. All of
them are rare and long, so every form is one out-of-line function.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from weft.ir import Builder, Val
from weft.ptx.isa.integer.integer import field
from weft.ptx.isa.registry import instruction

_TYPES = "u32 s32"
SECONDS = "add min max"
_TESTS = "eq ne lt le gt ge"


def _average(e: Builder, a: Val, b: Val) -> Val:
    """Rounded up at the half, away from zero below it."""
    total = a + b
    return (total + total.sge(0).zext(total.element)).ashr(1)


_OPERATIONS: dict[str, Callable[[Builder, Val, Val], Val]] = {
    "vadd": lambda e, a, b: a + b,
    "vsub": lambda e, a, b: a - b,
    "vabsdiff": lambda e, a, b: e.intrinsic("abs", [a - b], extra="false"),
    "vmin": lambda e, a, b: e.smin(a, b),
    "vmax": lambda e, a, b: e.smax(a, b),
    "vavrg": _average,
}
"""Each operation on signed operands so wide that nothing overflows."""


def _test(cmp: str) -> Callable[[Builder, Val, Val], Val]:
    pred = cmp if cmp in ("eq", "ne") else "s" + cmp
    return lambda e, a, b: e.icmp(pred, a, b).zext(a.element)


def _clamped(e: Builder, v: Val, bits: int, type: str) -> Val:
    """Into the range of a number of so many bits with the sign of `type`."""
    low, high = (0, (1 << bits) - 1) if type[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
    return e.smin(e.smax(v, low), high)


# ---- 32-bit scalar -----------------------------------------------------------------------------
def _wide(e: Builder, v: Val, type: str) -> Val:
    return e.resize(v, "i64", signed=type == "s32")


def out_of_line(
    op: str, e: Builder, words: dict[str, str], args: tuple[Val, ...], body: Callable[..., Val]
) -> Val:
    return e.lanewise(".".join([op, *filter(None, words.values())]), args, "i32", body)


def _scalar(
    op: str, operation: Callable[[Builder, Val, Val], Val], e: Builder, *args: Val, **words: str
) -> Val:
    """Widen, operate, clamp on demand, then the second operation with c where the form has one.

    The hardware clamps an unsigned word at zero only; a sum of 2^32 or more wraps.
    """

    def body(e: Builder, a: Val, b: Val, *c: Val) -> Val:
        value = operation(e, _wide(e, a, words["atype"]), _wide(e, b, words["btype"]))
        if words.get("sat"):
            value = _clamped(e, value, 32, "s32") if words["dtype"] == "s32" else e.smax(value, 0)
        # The assembler keeps the sum in 32 bits. Extended with its sign, a sum of 2^31 or more is
        # above every unsigned c.
        if op in ("vadd", "vsub"):
            value = value.trunc("i32").sext("i64")
        return second(e, words, value, *c)

    return out_of_line(op, e, words, args, body)


def second(e: Builder, words: dict[str, str], value: Val, *c: Val) -> Val:
    """`.add`, `.min` or `.max` of 64 bits with c, which has the sign of the result's type.

    So the assembler does it: an unsigned sum of 2^31 or more is above every c.
    """
    if not c or words["second"] == "add":
        return sum(c, value.trunc("i32"))
    signed = words.get("dtype", words["atype"])[0] == "s"
    other = e.resize(c[0], "i64", signed=signed)
    extreme = _EXTREMES[words["second"], signed]
    return e.intrinsic(extreme, [value, other]).trunc("i32")


_EXTREMES = {
    ("min", True): "smin",
    ("min", False): "umin",
    ("max", True): "smax",
    ("max", False): "umax",
}

_SCALAR_VECTORS = {
    "vadd": "vadd.s32.s32.s32.sat  0x7fffffff 1 -> 0x7fffffff",
    "vsub": "vsub.u32.u32.u32.sat  1 2 -> 0",
    "vabsdiff": "vabsdiff.u32.s32.s32  -3 4 -> 7",
    "vmin": "vmin.s32.s32.u32  -1 1 -> -1",
    "vmax": "vmax.u32.u32.u32  0xffffffff 1 -> 0xffffffff",
}
_SUM_VECTORS = {
    "vadd": "vadd.u32.u32.u32.add  1 2 3 -> 6",
    "vsub": "vsub.s32.u32.u32.add  1 2 5 -> 4",
    "vabsdiff": "vabsdiff.s32.s32.u32.add  -1 1 10 -> 12",
    "vmin": "vmin.s32.s32.s32.add  4 5 -6 -> -2",
    "vmax": "vmax.s32.s32.s32.add  4 5 1 -> 6",
}

for _op in _SCALAR_VECTORS:
    _row = partial(_scalar, _op, _OPERATIONS[_op])
    instruction(
        f"{_op}.dtype.atype.btype{{.sat}}  d:b32, a:b32, b:b32",
        manual="scalar-video-instructions-vadd-vsub-vabsdiff-vmin-vmax",
        dtype=_TYPES, atype=_TYPES, btype=_TYPES, sat="sat", vectors=[_SCALAR_VECTORS[_op]],
    )(_row)  # fmt: skip
    instruction(
        f"{_op}.dtype.atype.btype{{.sat}}.second  d:b32, a:b32, b:b32, c:b32",
        manual="scalar-video-instructions-vadd-vsub-vabsdiff-vmin-vmax",
        dtype=_TYPES, atype=_TYPES, btype=_TYPES, sat="sat", second=SECONDS,
        vectors=[_SUM_VECTORS[_op]],
    )(_row)  # fmt: skip


@instruction(
    "vset.atype.btype.cmp  d:b32, a:b32, b:b32",
    manual="scalar-video-instructions-vset",
    atype=_TYPES,
    btype=_TYPES,
    cmp=_TESTS,
    vectors=["vset.s32.u32.lt  -1 1 -> 1", "vset.u32.u32.lt  -1 1 -> 0"],
)
@instruction(
    "vset.atype.btype.cmp.second  d:b32, a:b32, b:b32, c:b32",
    manual="scalar-video-instructions-vset",
    atype=_TYPES,
    btype=_TYPES,
    cmp=_TESTS,
    second=SECONDS,
    vectors=["vset.u32.u32.eq.add  4 4 9 -> 10"],
)
def vset(e: Builder, *args: Val, **words: str) -> Val:
    return _scalar(f"vset{len(args)}", _test(words["cmp"]), e, *args, **words)


@instruction(
    "vmad.dtype.atype.btype{.po}{.scale}  d:b32, a:b32, b:b32, c:b32",
    manual="scalar-video-instructions-vmad",
    dtype=_TYPES,
    atype=_TYPES,
    btype=_TYPES,
    po="po",
    scale="shr7 shr15",
    vectors=["vmad.s32.s32.s32  -3 4 5 -> -7", "vmad.u32.u32.u32.po.shr7  100 100 27 -> 78"],
    notes="the hardware multiplies whole words as signed numbers, whatever their types",
)
@instruction(
    "vmad.dtype.s32.btype{.po}.sat{.scale}  d:b32, a:b32, b:b32, c:b32",
    manual="scalar-video-instructions-vmad",
    dtype=_TYPES,
    btype=_TYPES,
    po="po",
    sat="sat",
    scale="shr7 shr15",
    vectors=["vmad.s32.s32.s32.sat  0x10000 0x10000 0 -> 0x7fffffff"],
)
def vmad(e: Builder, *args: Val, **words: str) -> Val:
    def body(e: Builder, a: Val, b: Val, c: Val) -> Val:
        x, y, z = (_wide(e, v, "s32") for v in (a, b, c))
        value = x * y + z + (1 if words["po"] else 0)
        value = value.ashr(int(words["scale"].removeprefix("shr") or 0))
        return (_clamped(e, value, 32, "s32") if words.get("sat") else value).trunc("i32")

    return out_of_line("vmad", e, words, args, body)


# ---- two half-words, four bytes ----------------------------------------------------------------
def _simd(
    count: int,
    operation: Callable[[Builder, Val, Val], Val],
    name: str,
    e: Builder,
    *args: Val,
    **words: str,
) -> Val:
    """Element by element; joined again, or (`.add`) summed onto c."""
    width, dtype = 32 // count, words.get("dtype", "u32")

    def body(e: Builder, a: Val, b: Val, c: Val) -> Val:
        parts = []
        for i in range(count):
            x = field(e, a, i, width, words["atype"] == "s32")
            y = field(e, b, i, width, words["btype"] == "s32")
            value = operation(e, x, y)
            parts.append(_clamped(e, value, width, dtype) if words.get("sat") else value)
        if words["add"]:
            return sum(parts, c)
        out = parts[-1] << (32 - width)
        for i, part in enumerate(parts[:-1]):
            out = out | ((part & ((1 << width) - 1)) << (width * i))
        return out

    return out_of_line(f"{name}{count}", e, words, args, body)


_SIMD_VECTORS = {
    "vadd2": "vadd2.u32.u32.u32.sat  0xffff0001 0x00010002 0 -> 0xffff0003",
    "vadd4": "vadd4.u32.u32.u32  0xff010203 0x01010101 0 -> 0x00020304",
    "vsub2": "vsub2.s32.s32.s32  0x00010001 0x00020001 0 -> 0xffff0000",
    "vsub4": "vsub4.u32.u32.u32.sat  0x01020304 0x02020202 0 -> 0x00000102",
    "vavrg2": "vavrg2.u32.u32.u32  0x00030001 0x00040001 0 -> 0x00040001",
    "vavrg4": "vavrg4.s32.s32.s32  0xfe010203 0xff020203 0 -> 0xfe020203",
    "vabsdiff2": "vabsdiff2.u32.u32.u32.add  0x00030001 0x00010005 100 -> 106",
    "vabsdiff4": "vabsdiff4.u32.u32.u32.add  0x01020304 0x04030201 100 -> 108",
    "vmin2": "vmin2.s32.s32.s32  0xffff0005 0x00010004 0 -> 0xffff0004",
    "vmin4": "vmin4.u32.u32.u32  0xff010203 0x01020102 0 -> 0x01010102",
    "vmax2": "vmax2.u32.u32.u32  0xffff0005 0x00010004 0 -> 0xffff0005",
    "vmax4": "vmax4.s32.s32.s32  0xff010203 0x01020102 0 -> 0x01020203",
}

for _name, _vector in _SIMD_VECTORS.items():
    instruction(
        f"{_name}.dtype.atype.btype{{.sat}}{{.add}}  d:b32, a:b32, b:b32, c:b32",
        manual=f"simd-video-instructions-vadd{_name[-1]}-vsub{_name[-1]}-vavrg{_name[-1]}-"
        f"vabsdiff{_name[-1]}-vmin{_name[-1]}-vmax{_name[-1]}",
        dtype=_TYPES,
        atype=_TYPES,
        btype=_TYPES,
        sat="sat",
        add="add",
        vectors=[_vector],
    )(partial(_simd, int(_name[-1]), _OPERATIONS[_name[:-1]], _name[:-1]))


def _simd_set(count: int, e: Builder, *args: Val, **words: str) -> Val:
    return _simd(count, _test(words["cmp"]), "vset", e, *args, **words)


for _count, _vector in (
    (2, "vset2.s32.s32.lt  0xffff0005 0x00010004 0 -> 0x00010000"),
    (4, "vset4.u32.u32.ge.add  0xff010203 0x01020102 10 -> 13"),
):
    instruction(
        f"vset{_count}.atype.btype.cmp{{.add}}  d:b32, a:b32, b:b32, c:b32",
        manual=f"simd-video-instructions-vset{_count}",
        atype=_TYPES,
        btype=_TYPES,
        cmp=_TESTS,
        add="add",
        vectors=[_vector],
    )(partial(_simd_set, _count))
