"""A typed IR value, scalar or vector, that reads like arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

BITS = {
    "i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "i128": 128,
    "half": 16, "float": 32, "double": 64, "ptr": 64,
}  # fmt: skip
"""Width of each element type."""

FLOATS = {"half": 16, "float": 32, "double": 64}


class Arithmetic(Protocol):
    """The operations that a value uses of its builder; `Builder` implements them."""

    def like(self, a: Val, o: Operandish) -> Val: ...
    def binary(self, op: str, a: Val, c: Val) -> Val: ...
    def icmp(self, pred: str, a: Val, c: Operandish) -> Val: ...
    def cast(self, op: str, v: Val, ty: str) -> Val: ...
    def select(self, cond: Val, a: Val, c: Val) -> Val: ...
    def fneg(self, v: Val) -> Val: ...
    def umax(self, a: Val, c: Operandish) -> Val: ...
    def bits(self, v: Val) -> Val: ...
    def splat(self, v: Val, n: int) -> Val: ...
    def lanes(self, ty: str, values: Sequence[int]) -> Val: ...


class Val:
    """An SSA value or constant: element type `ty`, `n` lanes (0: scalar), its spelling `ref`.

    Integer and float operators pick the instruction by type; a Python int on either side is a
    constant of the same type (for a float type: use `Builder.const`). `>>` is a logical shift.
    `raw_nan` marks a float whose NaNs may carry a payload that the hardware would not give;
    `Builder.bits` makes them canonical.
    """

    __slots__ = ("b", "n", "raw_nan", "ref", "ty")

    def __init__(self, b: Arithmetic, ty: str, n: int, ref: str, raw_nan: bool = False) -> None:
        self.b, self.ty, self.n, self.ref, self.raw_nan = b, ty, n, ref, raw_nan

    @property
    def t(self) -> str:
        """The LLVM type."""
        return f"<{self.n} x {self.ty}>" if self.n else self.ty

    @property
    def tref(self) -> str:
        """Type and spelling, as an operand is written."""
        return f"{self.t} {self.ref}"

    @property
    def bits(self) -> int:
        return BITS[self.ty]

    @property
    def is_float(self) -> bool:
        return self.ty in FLOATS

    @property
    def is_const(self) -> bool:
        return not self.ref.startswith("%")

    def _two(self, op: str, other: Operandish, *, swap: bool = False) -> Val:
        o = self.b.like(self, other)
        a, c = (o, self) if swap else (self, o)
        return self.b.binary(("f" if self.is_float else "") + op, a, c)

    def __add__(self, o: Operandish) -> Val:
        return self._two("add", o)

    def __radd__(self, o: int) -> Val:
        return self._two("add", o, swap=True)

    def __sub__(self, o: Operandish) -> Val:
        return self._two("sub", o)

    def __rsub__(self, o: int) -> Val:
        return self._two("sub", o, swap=True)

    def __mul__(self, o: Operandish) -> Val:
        return self._two("mul", o)

    def __rmul__(self, o: int) -> Val:
        return self._two("mul", o, swap=True)

    def __and__(self, o: Operandish) -> Val:
        return self.b.binary("and", self, self.b.like(self, o))

    def __or__(self, o: Operandish) -> Val:
        return self.b.binary("or", self, self.b.like(self, o))

    def __xor__(self, o: Operandish) -> Val:
        return self.b.binary("xor", self, self.b.like(self, o))

    def __invert__(self) -> Val:
        return self ^ -1

    def __lshift__(self, o: Operandish) -> Val:
        return self.b.binary("shl", self, self.b.like(self, o))

    def __rshift__(self, o: Operandish) -> Val:
        return self.b.binary("lshr", self, self.b.like(self, o))

    def ashr(self, o: Operandish) -> Val:
        return self.b.binary("ashr", self, self.b.like(self, o))

    def __neg__(self) -> Val:
        return self.b.fneg(self) if self.is_float else 0 - self

    def eq(self, o: Operandish) -> Val:
        return self.b.icmp("eq", self, o)

    def ne(self, o: Operandish) -> Val:
        return self.b.icmp("ne", self, o)

    def ult(self, o: Operandish) -> Val:
        return self.b.icmp("ult", self, o)

    def ule(self, o: Operandish) -> Val:
        return self.b.icmp("ule", self, o)

    def ugt(self, o: Operandish) -> Val:
        return self.b.icmp("ugt", self, o)

    def uge(self, o: Operandish) -> Val:
        return self.b.icmp("uge", self, o)

    def slt(self, o: Operandish) -> Val:
        return self.b.icmp("slt", self, o)

    def sle(self, o: Operandish) -> Val:
        return self.b.icmp("sle", self, o)

    def sgt(self, o: Operandish) -> Val:
        return self.b.icmp("sgt", self, o)

    def sge(self, o: Operandish) -> Val:
        return self.b.icmp("sge", self, o)

    def zext(self, ty: str) -> Val:
        return self.b.cast("zext", self, ty)

    def sext(self, ty: str) -> Val:
        return self.b.cast("sext", self, ty)

    def trunc(self, ty: str) -> Val:
        return self.b.cast("trunc", self, ty)

    def select(self, a: Val, c: Operandish) -> Val:
        """This i1 ? a : c."""
        return self.b.select(self, a, self.b.like(a, c))


Operandish: TypeAlias = Val | int
