"""The element that a deadlocked warp waits for, and its value, for the message.

The address is computed again from what is known after the launch: parameters, the block's index and
the thread's. Where it depends on memory or on a loop, the message omits it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from weft.device.base import Allocation
from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.run import elements
from weft.ptx.isa import decode
from weft.ptx.isa.columns import ResultForm
from weft.ptx.model import SIZES, Imm, Instruction, Mem, Operand, Reg, Special, Sym

_DEEP = 24
"""The maximum length of the chain of instructions that is followed back from an address."""

_OPERATIONS: Mapping[ResultForm, Callable[[Sequence[int]], int]] = {
    ResultForm.COPY: lambda v: v[0],
    ResultForm.CONVERSION: lambda v: v[0],
    ResultForm.ADDRESS: lambda v: v[0],
    ResultForm.SUM: lambda v: v[0] + v[1],
    ResultForm.DIFFERENCE: lambda v: v[0] - v[1],
    ResultForm.NEGATION: lambda v: -v[0],
    ResultForm.PRODUCT: lambda v: v[0] * v[1],
    ResultForm.WIDE_PRODUCT: lambda v: v[0] * v[1],
    ResultForm.PRODUCT_SUM: lambda v: v[0] * v[1] + v[2],
    ResultForm.WIDE_PRODUCT_SUM: lambda v: v[0] * v[1] + v[2],
    # PTX gives 0 for larger amounts; without the bound, Python would build a huge number.
    ResultForm.LEFT_SHIFT: lambda v: v[0] << min(v[1], 64),
    ResultForm.AND: lambda v: v[0] & v[1],
    ResultForm.OR: lambda v: v[0] | v[1],
}
_FLOATS = ("f16", "f32", "f64")
_WIDEST = 8
"""Bytes of the largest number that NumPy can show."""


class Thread(NamedTuple):
    """One thread of a launch.

    special    special register -> its value: "ctaid.x" and the like
    params     the address of the launch's parameters
    variables  name -> address of the module's own
    """

    special: Mapping[str, int]
    params: int
    variables: Mapping[str, int]


def awaited_value(
    program: KernelProgram, ins: Instruction, thread: Thread, memory: Sequence[Allocation]
) -> str:
    """`flag[0] of 1 int32 holds 0`; "" where the address or its memory is not known."""
    mem = next((x for x in ins.operands if isinstance(x, Mem)), None)
    kind = next((p for p in reversed(ins.parts) if p in SIZES), "")
    address = None if mem is None else _Evaluation(program, thread).value(mem, _DEEP)
    if address is None or not kind or SIZES[kind] > _WIDEST:
        return ""
    # Only memory of the launch is read: any other address may not be mapped.
    inside = (a for a in memory if a.address <= address <= a.address + a.nbytes - SIZES[kind])
    array = next(inside, None)
    if array is None:
        return ""
    raw = ctypes.string_at(address, SIZES[kind])
    value = np.frombuffer(raw, _dtype(array, kind))[0]
    return f"{elements.element(array, address, SIZES[kind])} holds {value}"


def _dtype(array: Allocation, kind: str) -> np.dtype[np.generic]:
    """The array's own dtype, if NumPy has it and one element is accessed; else the access's."""
    name = str(array.dtype).removeprefix("torch.")
    if name in np.sctypeDict and np.dtype(name).itemsize == SIZES[kind]:
        return np.dtype(name)
    letter = "f" if kind in _FLOATS else "u" if kind[0] == "u" else "i"
    return np.dtype(f"{letter}{SIZES[kind]}")


class _Evaluation:
    """Values of registers that are written in one place."""

    def __init__(self, program: KernelProgram, thread: Thread) -> None:
        self.program, self.thread = program, thread
        self._offsets = {p.name: p.offset for p in program.function.params}
        self._definitions: dict[str, list[Instruction]] = {}
        for block in program.graph.blocks:
            for ins in block.code:
                for name in program.defs(ins):
                    self._definitions.setdefault(name, []).append(ins)

    def value(self, operand: Operand, depth: int) -> int | None:
        match operand:
            case Imm(value):
                return value
            case Special(name):
                return self.thread.special.get(name)
            case Sym(name, offset) if name in self.thread.variables:
                return self.thread.variables[name] + offset
            case Mem(base, offset):
                start = self.value(base, depth)
                return None if start is None else start + offset
            case Reg(name):
                made = self._definitions.get(name, [])
                # With several definitions, the value depends on the path that the thread took.
                if len(made) == 1 and made[0].guard is None and depth:
                    return self._result(made[0], name, depth - 1)
        return None

    def _result(self, ins: Instruction, name: str, depth: int) -> int | None:
        if not isinstance(ins.operands[0], Reg):
            return None
        d = decode(ins)
        form = d.row.form
        if form is ResultForm.LOADED and d.space == "param":
            return self._param(ins)
        operation = _OPERATIONS.get(form)
        if operation is None or (form is ResultForm.ADDRESS and d.space != "global"):
            return None
        values = [self.value(x, depth) for x in ins.operands[1:]]
        operands = [v for v in values if v is not None]
        if len(operands) < len(values) or d.type not in SIZES:
            return None
        bits = 8 * SIZES[self.program.function.registers[name]]
        return operation(_read(operands, ins)) % (1 << bits)

    def _param(self, ins: Instruction) -> int | None:
        mem = ins.operands[1]
        if not isinstance(mem, Mem) or not isinstance(mem.base, Sym):
            return None
        offset = self._offsets.get(mem.base.name)
        kind = decode(ins).type
        if offset is None or kind not in SIZES:
            return None
        at = self.thread.params + offset + mem.base.offset + mem.offset
        return int.from_bytes(ctypes.string_at(at, SIZES[kind]), "little")


def _read(values: Sequence[int], ins: Instruction) -> list[int]:
    """Operands as the instruction's type reads them; what a wide product adds to is wider."""
    d = decode(ins)
    kind = d.type
    bits, signed = 8 * SIZES[kind], kind[0] == "s"
    low = [v % (1 << bits) for v in values]
    out = [v - (1 << bits) if signed and v >> (bits - 1) else v for v in low]
    return [*out[:2], values[2]] if d.wide and len(out) == 3 else out
