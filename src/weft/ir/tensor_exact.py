"""Tensor-core steps that are plain arithmetic: integers, single bits and f64.

Fragments lie in memory as `tensor_operand` says; a step covers 8 columns.
"""

from __future__ import annotations

from weft.ir.builder import Builder, Val
from weft.ir.rounding import rounded
from weft.ir.tensor_layout import N
from weft.ir.tensor_operand import (
    Columns,
    OperandRuns,
    doubled,
    load_accumulator,
    load_columns,
    load_rows,
    splats,
    store_accumulator,
)
from weft.records import dataclass


@dataclass(frozen=True)
class IntegerStep:
    """Products of s8, u8, s4 or u4 summed in s32, which wraps or saturates once at the end."""

    a: str
    b: str
    rows: int
    depth: int
    saturate: bool = False
    sparse: bool = False

    @property
    def name(self) -> str:
        tail = (".sat" if self.saturate else "") + (".sp" if self.sparse else "")
        return f"tensor.{self.a}.{self.b}.m{self.rows}k{self.depth}{tail}"

    @property
    def runs(self) -> OperandRuns:
        """The layout in bytes, of which one holds two 4-bit numbers."""
        size = self.depth * int(self.a[1:]) // 8
        return OperandRuns("i8", 16, size // 16)


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
    def runs(self) -> OperandRuns:
        return OperandRuns("i32", 4, self.depth // 128)


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
    def runs(self) -> OperandRuns:
        return OperandRuns("i64", 4, self.depth // 4)


def call_integer(b: Builder, step: IntegerStep, *fragments: Val) -> None:
    """Call the step's function on A, B, C and D in memory; a sparse one has a table besides."""

    def body(b: Builder, ps: list[Val]) -> None:
        a, bt, c, d, *picks = ps
        runs_of_b = doubled(step.runs) if step.sparse else step.runs
        numbers = [x for v in load_columns(b, bt, runs_of_b) for x in _numbers(v, step.b)]
        # i16 holds signed and unsigned bytes alike, so one multiplication serves all four pairs.
        columns = Columns(b.array("i16", len(numbers) * N), "i16", N * 2, *picks)
        for k, x in enumerate(numbers):
            b.store(x, b.at(columns.base, k * N * 2), 16)
        with b.loop(step.rows) as m:
            # The products of one step never overflow s32: only the addition of c can wrap or
            # saturate.
            total = b.zero("i32", N)
            runs = load_rows(b, a, m, step.rows, step.runs)
            for k, x in enumerate(_in_order(b, [_numbers(v, step.a) for v in runs])):
                y = columns.load(b, k, m)
                total = total + x.sext("i32") * y.sext("i32")
            acc = load_accumulator(b, "i32", c, m)
            if step.saturate:
                store_accumulator(b, b.intrinsic("sadd.sat", [total, acc]), d, m)
            else:
                store_accumulator(b, total + acc, d, m)

    b.helper(step.name, [("ptr", 0)] * len(fragments), None, body)(*fragments)


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
    """Call the step's function on four fragments in memory."""

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
    """Call the step's function on four fragments in memory."""
    body = _plain_chains if step.mode == "rn" else _exact_chains
    fn = b.helper(step.name, [("ptr", 0)] * 4, None, lambda inner, ps: body(inner, step, *ps))
    fn(a, bt, c, d)


def _store_columns(b: Builder, step: DoubleStep, bt: Val) -> Val:
    columns = b.array("double", step.depth * N)
    for k, x in enumerate(load_columns(b, bt, step.runs)):
        b.store(b.reinterpret(x, "double"), b.at(columns, k * N * 8), 16)
    return columns


def _plain_chains(b: Builder, step: DoubleStep, a: Val, bt: Val, c: Val, d: Val) -> None:
    """Run the processor's FMAs; a NaN at the end means that one occurred, with wrong bits."""
    columns, odd = _store_columns(b, step, bt), b.alloca("i1", N)
    b.store(b.zero("i1", N), odd)
    with b.loop(step.rows) as m:
        acc = load_accumulator(b, "double", c, m)
        runs = load_rows(b, a, m, step.rows, step.runs)
        for k, x in enumerate(splats(b, [b.reinterpret(v, "double") for v in runs])):
            acc = b.fma(x, b.load("double", N, b.at(columns, k * N * 8), 16), acc)
        b.store(b.load("i1", N, odd) | b.is_nan(acc), odd)
        store_accumulator(b, acc, d, m)
    with b.when(b.any(b.load("i1", N, odd)), rare=True):
        name, params = step.name + ".nan", [("ptr", 0)] * 4
        again = b.helper(
            name, params, None, lambda inner, ps: _exact_chains(inner, step, *ps), attrs="#2"
        )
        again(a, bt, c, d)


def _exact_chains(b: Builder, step: DoubleStep, a: Val, bt: Val, c: Val, d: Val) -> None:
    """FMAs in any rounding mode and with the hardware's NaNs, one by one."""
    columns, acc = _store_columns(b, step, bt), b.alloca("double", N, 16)
    with b.loop(step.rows) as m:
        b.store(load_accumulator(b, "double", c, m), acc, 16)
        with b.loop(step.depth) as k:
            index = ((k >> 2) * step.rows + m) * 4 + (k & 3)
            x = b.splat(b.load("double", 0, b.at(a, (index * 8).zext("i64"))), N)
            y = b.load("double", N, b.at(columns, (k * (N * 8)).zext("i64")), 16)
            b.store(rounded(b, "fma", [x, y, b.load("double", N, acc, 16)], step.mode), acc, 16)
        store_accumulator(b, b.load("double", N, acc, 16), d, m)
