"""Runs one `mma` or `wmma.mma` row on matrices, without a kernel around it.

Matrices are placed in registers by `fragment_layout`, so a run also checks that table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from lanewise import compile_ir
from weft.ir import Builder, IrFunction, IrModule, Val
from weft.ir.tensor_layout import (
    WIDTH,
    Fragment,
    fragment_layout,
    packed,
    quad_pair_layout,
    shape_of,
)
from weft.ir.tensor_operand import TensorStep
from weft.ir.tensor_prepare import Fragments
from weft.ir.tensor_step import call_step
from weft.ptx.isa import llvm_type, lookup
from weft.ptx.model import Instruction, Operand, Reg


@dataclass
class Memory:
    """A warp whose registers are arrays: what a row needs of the device, and nothing else."""

    b: Builder
    counts: dict[str, int]
    fast_math: bool = False
    written: list[Val] = field(default_factory=list)
    fragments: Fragments = field(default_factory=Fragments)

    def contents(self, operand: Operand) -> None:
        """One product alone has nothing to share."""

    def contents_written(self, operand: Operand) -> None:
        """Nor has it anything to keep."""

    def read_vector(self, operand: Operand, ptx_type: str) -> list[Val]:
        assert isinstance(operand, Reg)
        p, ty = Val(self.b, "ptr", 0, f"%{operand.name}"), llvm_type(ptx_type)
        size = 256 if ty == "double" else 128
        return [
            self.b.load(ty, 32, self.b.at(p, i * size), 1) for i in range(self.counts[operand.name])
        ]

    def write_vector(self, operand: Operand, values: Sequence[Val]) -> None:
        assert isinstance(operand, Reg)
        for i, v in enumerate(values):
            p = Val(self.b, "ptr", 0, f"%{operand.name}")
            self.b.store(self.b.bits(v), self.b.at(p, i * 32 * v.bits // 8), 1)


@dataclass(frozen=True)
class Kind:
    """Shape and types of an opcode, and how each of its matrices lies in registers."""

    opcode: str

    @property
    def words(self) -> dict[str, str]:
        decoded = lookup(self.opcode.split("."))
        assert decoded is not None, f"no row for {self.opcode}"
        parts = self.opcode.split(".")
        types = [p for p in parts if p in WIDTH]
        if len(types) == 2:  # wmma on f16 names only d and c
            types = [types[0], "f16", "f16", types[1]]
        found = dict(zip("dabc", types, strict=True))
        layouts = [p for p in parts if p in ("row", "col")]
        shape = next(p for p in parts if p[0] == "m" and p[1].isdigit())
        return {**found, "shape": shape, "la": layouts[0], "lb": layouts[1]}

    @property
    def quad_pairs(self) -> bool:
        return self.words["shape"] == "m8n8k4" and self.words["a"] == "f16"

    def layout(self, matrix: str) -> Fragment:
        w = self.words
        if self.quad_pairs:
            return quad_pair_layout(matrix, w[matrix], {"a": w["la"], "b": w["lb"]}.get(matrix, ""))
        found = fragment_layout(matrix, w["shape"], w[matrix])
        if self.opcode.startswith("mma") and matrix in "ab":
            m, n, k = shape_of(w["shape"])
            need = (m if matrix == "a" else n) * k // 32
            return found[:need]
        return found


@cache
def compiled(opcode: str, fast: bool) -> tuple[Any, object]:
    """`run(d, a, b, c)` on arrays of registers."""
    decoded = lookup(opcode.split("."))
    assert decoded is not None
    kind, module, fn = Kind(opcode), IrModule(), IrFunction("run", [], "void", "#0")
    b = Builder(module, fn)
    counts = {m: len(kind.layout(m)) // packed(kind.words[m]) for m in "abc"}
    operands = tuple(Reg(m) for m in "dabc")
    ins = Instruction(opcode, tuple(opcode.split(".")), operands, None, False, 0, opcode, None)
    decoded.row.function(Memory(b, counts, fast), ins, **decoded.words)
    b.emit("ret void")
    fn.params = [Val(b, "ptr", 0, f"%{m}") for m in "dabc"]
    module.functions["run"] = fn.text().replace("define internal", "define")
    return compile_ir(module.text(), "run", 4)


def run(
    opcode: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, *, fast: bool = False
) -> np.ndarray:
    """D of matrices of bit patterns A [m,k], B [k,n], C [m,n] (quad pairs: four of each)."""
    kind = Kind(opcode)
    fn, _ = compiled(opcode, fast)
    regs = [pack(kind, m, x) for m, x in zip("abc", (a, b, c), strict=True)]
    out = np.zeros(len(kind.layout("d")) // packed(kind.words["d"]) * 32, _word(kind.words["d"]))
    fn(*[x.ctypes.data for x in (out, *regs)])
    return unpack(kind, out, c.shape)


@cache
def _compiled_step(step: TensorStep) -> tuple[Any, object]:
    module, fn = IrModule(), IrFunction("run", [], "void", "#0")
    b = Builder(module, fn)
    fn.params = [Val(b, "ptr", 0, f"%{m}") for m in "abcd"]
    call_step(b, step, *fn.params)
    b.emit("ret void")
    module.functions["run"] = fn.text().replace("define internal", "define")
    return compile_ir(module.text(), "run", 4)


def run_step(step: TensorStep, a: np.ndarray, bt: np.ndarray, c: np.ndarray) -> np.ndarray:
    """D of one step on bit patterns A [m,k], B transposed [8,k], C [m,8]."""

    def blocks(x: np.ndarray) -> np.ndarray:
        rows = x.reshape(len(x), step.runs.count, step.runs.width)
        return np.ascontiguousarray(rows.transpose(1, 0, 2))

    half = step.accumulator == "f16"
    split = c if half else c.reshape(-1, 8, 4, 2).transpose(0, 3, 1, 2)
    regs = [blocks(a), blocks(bt), np.ascontiguousarray(split)]
    d = np.zeros_like(regs[2])
    fn, _ = _compiled_step(step)
    fn(*[x.ctypes.data for x in (*regs, d)])
    return d if half else d.transpose(0, 2, 3, 1).reshape(c.shape)


def _word(kind: str) -> type[np.unsignedinteger[Any]]:
    return np.uint64 if kind == "f64" else np.uint32


def _places(kind: Kind, matrix: str) -> tuple[np.ndarray, ...]:
    """For every slot and lane: product, row, column, register word and bit position."""
    layout, width = np.array(kind.layout(matrix)), WIDTH[kind.words[matrix]]
    per = packed(kind.words[matrix])
    slots, lanes = np.mgrid[0 : len(layout), 0:32]
    product = lanes % 16 // 4 if kind.quad_pairs else lanes * 0
    return product, layout[..., 0], layout[..., 1], slots // per * 32 + lanes, slots % per * width


def pack(kind: Kind, matrix: str, x: np.ndarray) -> np.ndarray:
    """A matrix of bit patterns as registers."""
    word = _word(kind.words[matrix])
    product, row, col, place, shift = _places(kind, matrix)
    out = np.zeros(int(place.max()) + 1, word)
    values = x.reshape(-1, *x.shape[-2:])[product, row, col].astype(word)
    np.bitwise_or.at(out, place.ravel(), (values << shift.astype(word)).ravel())
    return out


def unpack(kind: Kind, regs: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Registers as a matrix of bit patterns."""
    product, row, col, place, shift = _places(kind, "d")
    out = np.zeros((4 if kind.quad_pairs else 1, *shape[-2:]), regs.dtype)
    mask = (1 << WIDTH[kind.words["d"]]) - 1
    out[product, row, col] = (regs[place] >> shift.astype(regs.dtype)) & regs.dtype.type(mask)
    return out.reshape(shape)
