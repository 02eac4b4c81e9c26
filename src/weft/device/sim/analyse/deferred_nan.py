"""Which registers may hold the host's NaNs for a while: making them canonical can wait."""

from __future__ import annotations

from weft.device.sim.analyse.program import Program
from weft.ptx.model import FloatImm, Imm, Instruction, Operand, Reg, Sym


def find(program: Program) -> None:
    """Registers that hold only results of f32 arithmetic: their NaNs are made canonical late.

    A register that may also hold bits from elsewhere (a load, an integer) must keep them as they
    are, so everything written to it is made canonical first.
    """
    kinds = program.function.registers
    defs: dict[str, list[Instruction]] = {}
    for b in program.graph.blocks:
        for ins in b.code:
            for r in program.defs(ins):
                defs.setdefault(r, []).append(ins)
    raw = {r for r, k in kinds.items() if k in ("f32", "b32") and r in defs}
    arithmetic = {r for r in raw if any(program.decoded[i.index].row.raw_nan for i in defs[r])}
    changed = True
    while changed:
        changed = False
        for r in sorted(raw):
            if not all(_raw_source(program, i, raw) for i in defs[r]):
                raw.discard(r)
                changed = True
    moved = True
    while moved:  # a copy of an arithmetic result is one too; a register of constants is not
        moved = False
        for r in sorted(raw - arithmetic):
            for i in defs[r]:
                source = i.operands[1] if i.parts[0] in ("mov", "selp", "shfl") else None
                if isinstance(source, Reg) and source.name in arithmetic:
                    arithmetic.add(r)
                    moved = True
    program.raw_nan = raw & arithmetic


def _raw_source(program: Program, ins: Instruction, raw: set[str]) -> bool:
    copies = ins.parts[0] == "mov" or ins.parts == ("cvt", "f32", "f32")
    if copies and isinstance(ins.operands[0], Reg):
        return _raw_operand(ins.operands[1], raw)
    if ins.parts[0] == "shfl":
        return _raw_operand(ins.operands[1], raw)
    if ins.parts[0] in ("selp", "slct"):  # they hand bits on
        return all(_raw_operand(o, raw) for o in ins.operands[1:3])
    return program.decoded[ins.index].row.raw_nan and ins.parts[-1] == "f32"


def _raw_operand(operand: Operand, raw: set[str]) -> bool:
    match operand:
        case Reg(name):
            return name in raw
        case FloatImm(bits, width):
            return width == 32 and (bits & 0x7FFFFFFF) <= 0x7F800000
        case Imm(value):
            return (value & 0x7FFFFFFF) <= 0x7F800000
        case Sym():
            return False
    return False
