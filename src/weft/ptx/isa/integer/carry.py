"""Extended-precision arithmetic: the rows that read or write the carry flag.

`cc` as the second of a pair is the flag written, as the last source the flag read. As on an H200,
a subtraction adds the complement: it leaves 0 where it borrows, so that `addc` after `sub.cc`,
which the manual leaves open, is the hardware's.
"""

from __future__ import annotations

from weft.ir import Builder, Val
from weft.ptx.isa.columns import InstructionWork
from weft.ptx.isa.integer.integer import product
from weft.ptx.isa.registry import instruction

_TYPES = "u32 s32 u64 s64"


def _add(a: Val, b: Val) -> tuple[Val, Val]:
    """Sum and carry out."""
    total = a + b
    return total, total.ult(b)


def _add_carry(a: Val, b: Val, cc: Val) -> tuple[Val, Val]:
    part, first = _add(a, b)
    total, second = _add(part, cc.zext(a.element))
    return total, first | second


@instruction(
    "add.cc.type  d|cc, a, b",
    manual="extended-precision-arithmetic-instructions-add-cc",
    type=_TYPES,
    vectors=["add.cc.u32  0xffffffff 1 -> 0 1", "add.cc.s64  -2 1 -> -1 0"],
)
def add_cc(e: Builder, a: Val, b: Val, *, type: str) -> tuple[Val, Val]:
    return _add(a, b)


@instruction(
    "addc.type  d, a, b, cc:pred",
    manual="extended-precision-arithmetic-instructions-addc",
    type=_TYPES,
    vectors=["addc.u32  1 2 1 -> 4", "addc.u64  1 2 0 -> 3"],
)
def addc(e: Builder, a: Val, b: Val, cc: Val, *, type: str) -> Val:
    return _add_carry(a, b, cc)[0]


@instruction(
    "addc.cc.type  d|cc, a, b, cc:pred",
    manual="extended-precision-arithmetic-instructions-addc",
    type=_TYPES,
    vectors=["addc.cc.u32  0xffffffff 0 1 -> 0 1", "addc.cc.u32  -1 -1 1 -> -1 1"],
)
def addc_cc(e: Builder, a: Val, b: Val, cc: Val, *, type: str) -> tuple[Val, Val]:
    return _add_carry(a, b, cc)


@instruction(
    "sub.cc.type  d|cc, a, b",
    manual="extended-precision-arithmetic-instructions-sub-cc",
    type=_TYPES,
    vectors=["sub.cc.u32  0 1 -> -1 0", "sub.cc.u64  5 5 -> 0 1"],
)
def sub_cc(e: Builder, a: Val, b: Val, *, type: str) -> tuple[Val, Val]:
    return a - b, a.uge(b)


@instruction(
    "subc.type  d, a, b, cc:pred",
    manual="extended-precision-arithmetic-instructions-subc",
    type=_TYPES,
    vectors=["subc.u32  5 2 0 -> 2", "subc.s64  5 2 1 -> 3"],
)
def subc(e: Builder, a: Val, b: Val, cc: Val, *, type: str) -> Val:
    return _add_carry(a, ~b, cc)[0]


@instruction(
    "subc.cc.type  d|cc, a, b, cc:pred",
    manual="extended-precision-arithmetic-instructions-subc",
    type=_TYPES,
    vectors=["subc.cc.u32  5 5 0 -> -1 0", "subc.cc.u32  0 0xffffffff 0 -> 0 0"],
)
def subc_cc(e: Builder, a: Val, b: Val, cc: Val, *, type: str) -> tuple[Val, Val]:
    return _add_carry(a, ~b, cc)


@instruction(
    "mad.mode.cc.type  d|cc, a, b, c",
    work=InstructionWork(operations=2),
    manual="extended-precision-arithmetic-instructions-mad-cc",
    mode="lo hi",
    type=_TYPES,
    vectors=["mad.lo.cc.u32  0x10000 0x10000 7 -> 7 0", "mad.lo.cc.u32  3 5 -15 -> 0 1"],
)
def mad_cc(e: Builder, a: Val, b: Val, c: Val, *, mode: str, type: str) -> tuple[Val, Val]:
    return _add(product(e, a, b, mode, type), c)


@instruction(
    "madc.mode.type  d, a, b, c, cc:pred",
    work=InstructionWork(operations=2),
    manual="extended-precision-arithmetic-instructions-madc",
    mode="lo hi",
    type=_TYPES,
    vectors=["madc.hi.u32  0x10000 0x10000 7 1 -> 9", "madc.lo.s64  -1 5 6 1 -> 2"],
)
def madc(e: Builder, a: Val, b: Val, c: Val, cc: Val, *, mode: str, type: str) -> Val:
    return _add_carry(product(e, a, b, mode, type), c, cc)[0]


@instruction(
    "madc.mode.cc.type  d|cc, a, b, c, cc:pred",
    work=InstructionWork(operations=2),
    manual="extended-precision-arithmetic-instructions-madc",
    mode="lo hi",
    type=_TYPES,
    vectors=["madc.hi.cc.u32  0x10000 0x10000 -2 1 -> 0 1", "madc.lo.cc.u64  2 3 4 0 -> 10 0"],
)
def madc_cc(
    e: Builder, a: Val, b: Val, c: Val, cc: Val, *, mode: str, type: str
) -> tuple[Val, Val]:
    return _add_carry(product(e, a, b, mode, type), c, cc)
