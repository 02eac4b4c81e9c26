"""Sets of lanes: as bits, as `<32 x i1>`, as a loop over them; constants of each lane."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence

from weft.ir import Builder, Val


def lanes_of(b: Builder, bits: Val) -> Val:
    """Bits as `<32 x i1>`."""
    weights = b.lanes("i32", [1 << i for i in range(32)])
    return (b.splat(bits, 32) & weights).ne(0)


def lane_bits(b: Builder, args: list[Val]) -> Val:
    """`<32 x i1>` as bits; a sum of weights compiles better than a cast on most hosts."""
    weights = b.lanes("i32", [1 << i for i in range(32)])
    picked = b.select(args[0], weights, b.zero("i32", 32))
    fn = "@llvm.vector.reduce.add.v32i32"
    b.module.declarations[fn] = f"declare i32 {fn}(<32 x i32>)"
    return b.val("i32", 0, f"call i32 {fn}({picked.typed})")


def each_lane(b: Builder, lanes: Val, body: Callable[[Val], None]) -> None:
    """`body(lane)` for every set bit, lowest first."""

    def one(left: Val) -> Val:
        # `true`: undefined for 0, which ends the loop before.
        body(b.intrinsic("cttz", [left], extra="true"))
        return left & (left - 1)

    b.while_(lanes, lambda left: left.ne(0), one)


def spread(base: Val, offsets: Sequence[int]) -> Val:
    """base + offsets[lane], as lanes."""
    b = base.builder
    base = b.bits(base)  # a register that is declared as a float may hold such a number
    return base + b.lanes(base.element, offsets)


def lane_table(b: Builder, ty: str, values: tuple[int, ...]) -> Val:
    """A constant per lane, in memory."""
    return b.table(f"lanes_{ty}_{_digest(values)}", ty, values)


@functools.lru_cache(1024)
def _digest(values: tuple[int, ...]) -> str:
    """Equal tables have equal names, and so are in the code once."""
    return hashlib.sha256(repr(values).encode()).hexdigest()[:12]


def reduction(op: str, signed: bool) -> str:
    """The name of a reduction in the IR."""
    return ("s" if signed else "u") + op if op in ("min", "max") else op


def reduce_lanes(b: Builder, op: str, v: Val) -> Val:
    """All lanes of an integer vector by one operation: `add`, `or`, `smin`, ...."""
    fn = f"@llvm.vector.reduce.{op}.v{v.lanes}{v.element}"
    b.module.declarations[fn] = f"declare {v.element} {fn}({v.type})"
    return b.val(v.element, 0, f"call {v.element} {fn}({v.typed})")
