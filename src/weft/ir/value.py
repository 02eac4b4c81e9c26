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
    """An SSA value or constant: `element` type, number of `lanes` (0: scalar), its spelling `ref`.

    Integer and float operators pick the instruction by type; a Python int on either side is a
    constant of the same type (for a float type: use `Builder.const`). `>>` is a logical shift.
    `raw_nan` marks a float whose NaNs may carry a payload that the hardware would not give;
    `Builder.bits` makes them canonical.
    """

    __slots__ = ("builder", "element", "lanes", "raw_nan", "ref")

    def __init__(
        self, builder: Arithmetic, element: str, lanes: int, ref: str, raw_nan: bool = False
    ) -> None:
        self.builder, self.element, self.lanes = builder, element, lanes
        self.ref, self.raw_nan = ref, raw_nan

    @property
    def type(self) -> str:
        """The LLVM type."""
        return f"<{self.lanes} x {self.element}>" if self.lanes else self.element

    @property
    def typed(self) -> str:
        """Type and spelling, as an operand is written."""
        if self.lanes:
            return f"<{self.lanes} x {self.element}> {self.ref}"
        return f"{self.element} {self.ref}"

    @property
    def bits(self) -> int:
        return BITS[self.element]

    @property
    def is_float(self) -> bool:
        return self.element in FLOATS

    @property
    def is_const(self) -> bool:
        return not self.ref.startswith("%")

    def _two(self, op: str, other: Operandish, *, swap: bool = False) -> Val:
        o = self.builder.like(self, other)
        a, c = (o, self) if swap else (self, o)
        return self.builder.binary(("f" if self.is_float else "") + op, a, c)

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
        return self.builder.binary("and", self, self.builder.like(self, o))

    def __or__(self, o: Operandish) -> Val:
        return self.builder.binary("or", self, self.builder.like(self, o))

    def __xor__(self, o: Operandish) -> Val:
        return self.builder.binary("xor", self, self.builder.like(self, o))

    def __invert__(self) -> Val:
        return self ^ -1

    def __lshift__(self, o: Operandish) -> Val:
        return self.builder.binary("shl", self, self.builder.like(self, o))

    def __rshift__(self, o: Operandish) -> Val:
        return self.builder.binary("lshr", self, self.builder.like(self, o))

    def ashr(self, o: Operandish) -> Val:
        return self.builder.binary("ashr", self, self.builder.like(self, o))

    def __neg__(self) -> Val:
        return self.builder.fneg(self) if self.is_float else 0 - self

    def eq(self, o: Operandish) -> Val:
        return self.builder.icmp("eq", self, o)

    def ne(self, o: Operandish) -> Val:
        return self.builder.icmp("ne", self, o)

    def ult(self, o: Operandish) -> Val:
        return self.builder.icmp("ult", self, o)

    def ule(self, o: Operandish) -> Val:
        return self.builder.icmp("ule", self, o)

    def ugt(self, o: Operandish) -> Val:
        return self.builder.icmp("ugt", self, o)

    def uge(self, o: Operandish) -> Val:
        return self.builder.icmp("uge", self, o)

    def slt(self, o: Operandish) -> Val:
        return self.builder.icmp("slt", self, o)

    def sle(self, o: Operandish) -> Val:
        return self.builder.icmp("sle", self, o)

    def sgt(self, o: Operandish) -> Val:
        return self.builder.icmp("sgt", self, o)

    def sge(self, o: Operandish) -> Val:
        return self.builder.icmp("sge", self, o)

    def zext(self, ty: str) -> Val:
        return self.builder.cast("zext", self, ty)

    def sext(self, ty: str) -> Val:
        return self.builder.cast("sext", self, ty)

    def trunc(self, ty: str) -> Val:
        return self.builder.cast("trunc", self, ty)

    def select(self, a: Val, c: Operandish) -> Val:
        """This i1 ? a : c."""
        return self.builder.select(self, a, self.builder.like(a, c))


Operandish: TypeAlias = Val | int
