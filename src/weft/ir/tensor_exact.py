"""Tensor-core steps that are plain arithmetic: integers, single bits and f64.

Fragments lie in memory as `tensor_operand` says; a step covers 8 columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.ir.builder import Builder, Val
from weft.ir.rounding import rounded
from weft.ir.tensor_operand import (
    N,
    Runs,
    load_accumulator,
    load_columns,
    load_rows,
    splats,
    store_accumulator,
)


@dataclass(frozen=True)
class IntegerStep:
    """Products of s8, u8, s4 or u4 summed in s32, which wraps or saturates once at the end."""

    a: str
    b: str
    rows: int
    depth: int
    saturate: bool = False

    @property
    def name(self) -> str:
        tail = ".sat" if self.saturate else ""
        return f"tensor.{self.a}.{self.b}.m{self.rows}k{self.depth}{tail}"

    @property
    def runs(self) -> Runs:
        """In bytes, of which one holds two 4-bit numbers."""
        size = self.depth * int(self.a[1:]) // 8
        return Runs("i8", 16, size // 16)


@dataclass(frozen=True)
class BitStep:
    """Counts of the ones in `op` (xor, and) of a row of A and a column of B."""

    op: str
    rows: int
    depth: int

    @property
    def name(self) -> str:
        return f"tensor.b1.{self.op}.m{self.rows}k{self.depth}"

    @property
    def runs(self) -> Runs:
        return Runs("i32", 4, self.depth // 128)


@dataclass(frozen=True)
class DoubleStep:
    """A chain of f64 FMAs over ascending k, starting from c."""

    rows: int
    depth: int
    mode: str = "rn"

    @property
    def name(self) -> str:
        return f"tensor.f64.{self.mode}.m{self.rows}k{self.depth}"

    @property
    def runs(self) -> Runs:
        return Runs("i64", 4, self.depth // 4)


def call_integer(b: Builder, step: IntegerStep, a: Val, bt: Val, c: Val, d: Val) -> None:
    """Calls the step's function on four fragments in memory."""

    def body(b: Builder, ps: list[Val]) -> None:
        a, bt, c, d = ps
        columns = b.array("i16", step.depth * N)
        numbers = [x for v in load_columns(b, bt, step.runs) for x in _numbers(v, step.b)]
        for k, x in enumerate(numbers):
            b.store(x, b.at(columns, k * N * 2), 16)
        with b.loop(step.rows) as m:
            total = b.zero("i32", N)
            runs = load_rows(b, a, m, step.rows, step.runs)
            for k, x in enumerate(_in_order(b, [_numbers(v, step.a) for v in runs])):
                y = b.load("i16", N, b.at(columns, k * N * 2), 16)
                total = total + x.sext("i32") * y.sext("i32")
            acc = load_accumulator(b, "i32", c, m)
            if step.saturate:
                store_accumulator(b, b.intrinsic("sadd.sat", [total, acc]), d, m)
            else:
                store_accumulator(b, total + acc, d, m)

    b.helper(step.name, [("ptr", 0)] * 4, None, body)(a, bt, c, d)


def _numbers(v: Val, kind: str) -> list[Val]:
    """Bytes as i16 numbers: one vector, or one of the low and one of the high nibbles."""
    if kind[1:] == "8":
        return [v.sext("i16") if kind == "s8" else v.zext("i16")]
    if kind == "s4":
        return [(v << 4).ashr(4).sext("i16"), v.ashr(4).sext("i16")]
    return [(v & 15).zext("i16"), (v >> 4).zext("i16")]


def _in_order(b: Builder, runs: list[list[Val]]) -> list[Val]:
    """The elements of A's runs in ascending k, each in all lanes."""
    out: list[Val] = []
    for parts in runs:
        spread = [splats(b, [p]) for p in parts]
        out += [part[i] for i in range(len(spread[0])) for part in spread]
    return out


def call_bits(b: Builder, step: BitStep, a: Val, bt: Val, c: Val, d: Val) -> None:
    """Calls the step's function on four fragments in memory."""

    def body(b: Builder, ps: list[Val]) -> None:
        a, bt, c, d = ps
        columns = b.array("i32", step.depth // 32 * N)
        for k, x in enumerate(load_columns(b, bt, step.runs)):
            b.store(x, b.at(columns, k * N * 4), 16)
        with b.loop(step.rows) as m:
            total = load_accumulator(b, "i32", c, m)
            for k, x in enumerate(splats(b, load_rows(b, a, m, step.rows, step.runs))):
                y = b.load("i32", N, b.at(columns, k * N * 4), 16)
                total = total + b.intrinsic("ctpop", [b.binary(step.op, x, y)])
            store_accumulator(b, total, d, m)

    b.helper(step.name, [("ptr", 0)] * 4, None, body)(a, bt, c, d)


def call_double(b: Builder, step: DoubleStep, a: Val, bt: Val, c: Val, d: Val) -> None:
    """Calls the step's function on four fragments in memory."""

    def body(b: Builder, ps: list[Val]) -> None:
        a, bt, c, d = ps
        columns = b.array("double", step.depth * N)
        for k, x in enumerate(load_columns(b, bt, step.runs)):
            b.store(b.reinterpret(x, "double"), b.at(columns, k * N * 8), 16)
        with b.loop(step.rows) as m:
            acc = load_accumulator(b, "double", c, m)
            runs = load_rows(b, a, m, step.rows, step.runs)
            terms = [
                (x, b.load("double", N, b.at(columns, k * N * 8), 16))
                for k, x in enumerate(splats(b, [b.reinterpret(v, "double") for v in runs]))
            ]
            store_accumulator(b, _chain(b, step.mode, terms, acc), d, m)

    b.helper(step.name, [("ptr", 0)] * 4, None, body)(a, bt, c, d)


def _chain(b: Builder, mode: str, terms: list[tuple[Val, Val]], acc: Val) -> Val:
    """The FMAs one after another; a NaN at the end means one on the way, so look again then."""

    def exactly() -> Val:
        out = acc
        for x, y in terms:
            out = rounded(b, "fma", [x, y, out], mode)
        return out

    if mode != "rn":
        return exactly()
    result = acc
    for x, y in terms:
        result = b.fma(x, y, result)
    return b.choose(b.any(b.is_nan(result)), exactly, lambda: result)
