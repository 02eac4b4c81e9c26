"""Deferred NaNs: finds registers whose NaNs need not be made canonical at every write."""

from __future__ import annotations

from weft.device.sim.analyse.program import KernelProgram
from weft.ptx.isa.columns import Nan
from weft.ptx.model import FloatImm, Imm, Instruction, Operand, Reg, Sym, Vec


def find(program: KernelProgram) -> None:
    """Find registers that hold results of f32 arithmetic alone.

    The host's arithmetic gives NaNs that a GPU does not. In these registers they are made canonical
    when their bits are read. A register that may also hold bits from elsewhere (a load, an integer)
    must keep those, so every arithmetic result is made canonical before it is written there.
    """
    kinds = program.function.registers
    defs: dict[str, list[Instruction]] = {}
    for b in program.graph.blocks:
        for ins in b.code:
            for r in program.defs(ins):
                defs.setdefault(r, []).append(ins)
    raw = {r for r, k in kinds.items() if k in ("f32", "b32") and r in defs}
    arithmetic = {r for r in raw if _some(program, defs[r], Nan.RAW)}
    # From all candidates down, so that registers that copy each other in a loop stay. Only where
    # one is copied can it matter which others stay.
    checked = raw
    while checked:
        gone = {r for r in checked if not _all_raw(program, defs[r], raw)}
        raw = raw - gone
        copied = {r for r in raw if _some(program, defs[r], Nan.COPIED)}
        checked = copied if gone else set()
    moved = True
    while moved:  # a copy of an arithmetic result is one too; a register of constants is not
        moved = False
        for r in sorted(raw - arithmetic):
            copies = [i for i in defs[r] if _nans(program, i) is Nan.COPIED]
            sources = {s for i in copies for s in _copied(program, i)}
            if any(isinstance(s, Reg) and s.name in arithmetic for s in sources):
                arithmetic.add(r)
                moved = True
    program.raw_nan = raw & arithmetic


def _nans(program: KernelProgram, ins: Instruction) -> Nan:
    return program.decoded[ins.index].row.nans


def _some(program: KernelProgram, code: list[Instruction], nans: Nan) -> bool:
    """Return whether one of these registers has such results; most are written once."""
    for ins in code:  # noqa: SIM110
        if program.decoded[ins.index].row.nans is nans:
            return True
    return False


def _all_raw(program: KernelProgram, code: list[Instruction], raw: set[str]) -> bool:
    for ins in code:  # noqa: SIM110
        if not _raw_source(program, ins, raw):
            return False
    return True


def _copied(program: KernelProgram, ins: Instruction) -> list[Operand]:
    """The sources whose bits a copying instruction hands on: those of its result's type."""
    dest, *sources = program.decoded[ins.index].row.operands
    return [
        operand
        for spec, operand in zip(sources, ins.operands[1:], strict=False)
        if spec.type == dest.type
    ]


def _raw_source(program: KernelProgram, ins: Instruction, raw: set[str]) -> bool:
    """Return whether an instruction writes only results of f32 arithmetic to its register."""
    nans = _nans(program, ins)
    if nans is Nan.COPIED and not isinstance(ins.operands[0], Vec):
        return all(_raw_operand(o, raw) for o in _copied(program, ins))
    return nans is Nan.RAW and program.decoded[ins.index].type == "f32"


def _raw_operand(operand: Operand, raw: set[str]) -> bool:
    match operand:
        case Reg(name):
            return name in raw
        case FloatImm(bits, width):
            # A NaN literal keeps its payload, so it is not made canonical later.
            return width == 32 and (bits & 0x7FFFFFFF) <= 0x7F800000
        case Imm(value):
            return (value & 0x7FFFFFFF) <= 0x7F800000
        case Sym():
            return False
    return False
