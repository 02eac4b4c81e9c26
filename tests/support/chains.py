"""Random chains of lane-wise instructions: each result feeds later ones.

`Chain.evaluate` says what an instruction leaves; here the rows themselves do, run one by one.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

import weft
from lanewise import run as run_row
from weft.ptx.isa import Decoded, InstructionRow, lookup, rows
from weft.ptx.model import SIZES

N = 64
LANEWISE = [row for row in rows() if not row.warp]
FUSED = {"f16", "f16x2", "f32", "f64"}
"""Types whose products without a rounding mode are fused with a sum (see ptx/contract.py)."""
FLOATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
WIDTHS = (16, 32, 64)
Column = np.ndarray


def draw(rng: random.Random, bits: int) -> int:
    """Bit patterns with something at stake in each of the formats of this width."""
    roll = rng.random()
    if roll < 0.3:
        return rng.getrandbits(bits)
    if roll < 0.5:
        return rng.choice((0, 1, 2, 31, (1 << bits) - 1, 1 << bits - 1, (1 << bits - 1) - 1))
    if roll < 0.65:
        return rng.getrandbits(bits) >> rng.randrange(bits)
    exponent, mantissa = rng.choice(
        [f for name, f in FLOATS.items() if 8 * SIZES[name] == bits or (bits == 32 and f[0] == 5)]
    )
    top = (1 << exponent) - 1
    field_ = rng.choice((0, 0, 1, top >> 1, (top >> 1) + rng.randrange(-3, 4), top, top - 1))
    fraction = rng.choice((0, 0, 1, (1 << mantissa) - 1, rng.getrandbits(mantissa)))
    return rng.getrandbits(1) << bits - 1 | field_ << mantissa | fraction


@dataclass
class Register:
    name: str
    bits: int
    values: Column


@dataclass
class Chain:
    """A kernel under construction and what each of its registers must hold."""

    rng: random.Random
    lines: list[str] = field(default_factory=list)
    registers: list[Register] = field(default_factory=list)
    carry: Column | None = None

    def new(self, bits: int, values: Column) -> Register:
        register = Register(f"%v{len(self.registers)}", bits, values.astype(np.uint64))
        self.registers.append(register)
        return register

    def of(self, bits: int) -> Register:
        return self.rng.choice([r for r in self.registers if r.bits == bits][-12:])

    # ---- inputs -----------------------------------------------------------------------------
    def inputs(self) -> np.ndarray:
        """Columns of inputs in memory, loaded per thread or from one place for all."""
        rng, columns = self.rng, []
        for k, bits in enumerate([16] * 3 + [32] * 4 + [64] * 3):
            column = np.array([draw(rng, bits) for _ in range(N)], np.uint64)
            columns.append(column)
            at = 8 * k * N
            same = rng.random() < 0.3
            base = "%in" if same else "%mine"
            register = self.new(bits, np.full(N, column[0]) if same else column)
            self.lines.append(f"ld.global.b{bits} {register.name}, [{base}+{at}];")
        for _ in range(3):
            source = self.of(32)
            bit = rng.randrange(32)
            p = self.new(1, source.values >> np.uint64(bit) & np.uint64(1))
            self.lines.append(f"and.b32 %bit, {source.name}, {1 << bit};")
            self.lines.append(f"setp.ne.u32 {p.name}, %bit, 0;")
        return np.concatenate(columns)

    # ---- one instruction --------------------------------------------------------------------
    def opcode(self) -> tuple[str, Decoded]:
        while True:
            row = self.rng.choice(LANEWISE)
            name = self._spell(row)
            decoded = lookup(name.split("."))
            if decoded is not None and decoded.row is row and (self.carry is not None or
                                                               not _reads_carry(row)):  # fmt: skip
                return name, decoded

    def _spell(self, row: InstructionRow) -> str:
        words = [row.base]
        for part, optional in row.parts:
            if not (optional and self.rng.random() < 0.5):
                choices = sorted(row.modifiers.get(part, ())) or [part]
                words.append(self.rng.choice(choices))
        return ".".join(words)

    def source(self, kind: str) -> tuple[str, Column]:
        """(text, values) of an operand of a type."""
        bits = 1 if kind == "pred" else 8 * SIZES[kind]
        if kind[0] in "us" and bits >= 16 and self.rng.random() < 0.1:
            value = draw(self.rng, bits)
            return str(value), np.full(N, value, np.uint64)
        if kind in ("f32", "f64") and self.rng.random() < 0.1:
            value = draw(self.rng, bits)
            prefix, digits = ("0f", 8) if bits == 32 else ("0d", 16)
            return f"{prefix}{value:0{digits}X}", np.full(N, value, np.uint64)
        if bits == 128:
            raise NotImplementedError(kind)
        r = self.of(bits if bits in (1, *WIDTHS) else self.rng.choice((16, 32)))
        return r.name, r.values & np.uint64((1 << bits) - 1)

    def table(self) -> tuple[str, Column]:
        """The truth table of a lop3, which is a constant."""
        value = self.rng.getrandbits(8)
        return str(value), np.full(N, value, np.uint64)

    def evaluate(self, name: str, decoded: Decoded, values: list[Column]) -> list[Column] | None:
        """The result of an instruction, or None if it is not available."""
        parts = name.split(".")
        if parts[0] == "mul" and parts[-1] in FUSED and set(parts[1:-1]) <= {"ftz", "sat"}:
            return None  # with a sum after it, it would not be rounded by itself
        try:
            return run_row(name, values)
        except weft.UnsupportedInstruction:  # words that a row has, but not together
            return None

    def step(self) -> None:
        name, decoded = self.opcode()
        texts, values = [], []
        for spec in decoded.row.operands:
            if spec.name == "cc":
                assert self.carry is not None
                values.append(self.carry)
            elif not spec.is_dest:
                kind = decoded.types[spec.name]
                text, column = self.table() if spec.name == "table" else self.source(kind)
                texts.append(text)
                values.append(column)
        results = self.evaluate(name, decoded, values)
        if results is None:
            self.step()
            return
        self.lines.append(f"{name} {', '.join([self._dest(decoded, results), *texts])};")

    def _dest(self, decoded: Decoded, results: list[Column]) -> str:
        spec = decoded.row.operands[0]
        kind = decoded.types[spec.name]
        bits = 1 if kind == "pred" else 8 * SIZES[kind]
        first = results[0].astype(np.uint64)
        if bits == 8:
            wide = first.astype(np.int8).astype(np.int32) if kind[0] == "s" else first
            return self.new(32, wide.astype(np.uint32)).name
        text = self.new(bits, first).name
        if spec.pair == "cc":
            self.carry = results[1].astype(np.uint64)
        elif spec.pair and (decoded.row.base == "lop3" or self.rng.random() < 0.6):
            text += f"|{self.new(1, results[1]).name}"
        return text

    # ---- the whole --------------------------------------------------------------------------
    def text(self) -> str:
        kinds = {1: "pred", 16: "b16", 32: "b32", 64: "b64"}
        declared = [f".reg .{kinds[r.bits]} {r.name};" for r in self.registers]
        stores = []
        for k, r in enumerate(self.registers):
            if r.bits == 1:
                stores.append(f"selp.u32 %bit, 1, 0, {r.name};")
            name = "%bit" if r.bits == 1 else r.name
            stores.append(
                f"st.global.b{max(r.bits, 32) if r.bits == 1 else r.bits} "
                f"[%out+{8 * k * N}], {name};"
            )
        return "\n".join([HEAD, *declared, *START, *self.lines, *stores, "ret; }", ""])


def _reads_carry(row: InstructionRow) -> bool:
    return any(s.name == "cc" for s in row.operands)


HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p_out, .param .u64 p_in)
{
.reg .b64 %in, %out, %mine, %i; .reg .b32 %bit, %n;"""
START = (
    "ld.param.u64 %out, [p_out];", "ld.param.u64 %in, [p_in];",
    "mad.lo.u32 %n, %ctaid.x, %ntid.x, %tid.x;", "mul.wide.u32 %i, %n, 8;",
    "add.u64 %mine, %in, %i;", "add.u64 %out, %out, %i;",
)  # fmt: skip
