"""Loads of shared memory that the assembler merges: neighbours of 32 bits from one base.

Loads of a basic block from the same register at offsets 0, 4, 8, 12 become one of 128 bits where
the address is known to be a multiple of 16. Two of them become one of 64 bits at a multiple of 8.
They must come in this order with no store in between, as measured on an H200. The alignment of an
address is derived from the definitions of its register.
"""

from __future__ import annotations

from collections import defaultdict

from weft.device.sim.analyse.form import trailing_zeros
from weft.device.sim.analyse.program import KernelProgram
from weft.ptx.cfg import BasicBlock
from weft.ptx.isa import decode
from weft.ptx.isa.columns import ResultForm
from weft.ptx.model import Imm, Instruction, Mem, Operand, Reg, Sym

WORDS = ("b32", "u32", "s32", "f32")
ALIGNED = 4
"""log2 of the bytes that variables of shared memory are taken to be aligned to."""
MOST = 62
SHORT = 8
"""Instructions of an `if` that is taken to be made without a branch."""


class MergedLoads:
    """The loads of a kernel that are parts of wider ones."""

    def __init__(self, program: KernelProgram) -> None:
        self.program = program
        self._defs: dict[str, list[Instruction]] = defaultdict(list)
        for block in program.graph.blocks:
            for ins in block.code:
                for name in program.defs(ins):
                    self._defs[name].append(ins)
        self._known: dict[str, int] = {}

    def widths(self, block: BasicBlock) -> dict[int, int]:
        """Instruction -> bytes of the load that it has become, or 0 for one that joined another."""
        out: dict[int, int] = {}
        if self._is_predicated(block):
            return out
        open_: dict[str, dict[int, Instruction]] = defaultdict(dict)
        for ins in block.code:
            row = decode(ins).row
            if row.writes or row.async_ is not None:
                self._close(open_, out)
            elif _is_word_load(ins):
                mem = ins.operands[1]
                assert isinstance(mem, Mem) and isinstance(mem.base, Reg)
                open_[mem.base.name].setdefault(mem.offset, ins)
            for name in self.program.defs(ins):
                if name in open_:
                    self._close({name: open_.pop(name)}, out)
        self._close(open_, out)
        return out

    def _is_predicated(self, block: BasicBlock) -> bool:
        """Return whether a short `if` becomes instructions under a guard, which stay separate."""
        after = block.successors
        return len(block.code) <= SHORT and any(
            b.last is not None and set(b.successors) == {block.index, *after} and len(after) == 1
            for b in self.program.graph.blocks
        )

    def _close(self, groups: dict[str, dict[int, Instruction]], out: dict[int, int]) -> None:
        for name, loads in groups.items():
            align = self._align(Reg(name)) if len(loads) > 1 else 0
            for width in (16, 8):
                if align >= trailing_zeros(width):
                    _join(loads, width, out)
        groups.clear()

    # ---- what divides an address ------------------------------------------------------------
    def _align(self, operand: Operand) -> int:
        """log2 of a power of two that divides the value."""
        if isinstance(operand, Imm):
            return trailing_zeros(operand.value)
        if isinstance(operand, Sym):
            return min(ALIGNED, trailing_zeros(operand.offset))
        if not isinstance(operand, Reg) or operand.name not in self._defs:
            return 0
        if operand.name not in self._known:
            self._known[operand.name] = MOST  # a value that goes round adds nothing by itself
            self._known[operand.name] = min(self._made(i) for i in self._defs[operand.name])
        return self._known[operand.name]

    def _made(self, ins: Instruction) -> int:
        zeros = [self._align(o) for o in ins.operands[1:]]
        last = ins.operands[-1]
        match decode(ins).row.form:
            case ResultForm.COPY | ResultForm.CONVERSION | ResultForm.ADDRESS:
                return zeros[0]
            case (
                ResultForm.SUM
                | ResultForm.DIFFERENCE
                | ResultForm.OR
                | ResultForm.XOR
                | ResultForm.SELECTION
            ):
                return min(zeros[:2])
            case ResultForm.PRODUCT | ResultForm.WIDE_PRODUCT:
                return min(MOST, zeros[0] + zeros[1])
            case ResultForm.PRODUCT_SUM | ResultForm.WIDE_PRODUCT_SUM:
                return min(zeros[0] + zeros[1], zeros[2])
            case ResultForm.LEFT_SHIFT if isinstance(last, Imm):
                return min(MOST, zeros[0] + last.value)
            case ResultForm.AND:
                return max(zeros)
        return 0


def _is_word_load(ins: Instruction) -> bool:
    d = decode(ins)
    plain = d.row.is_load and d.space == "shared" and len(d.parts) == 3
    if not plain or d.type not in WORDS or ins.guard is not None:
        return False
    mem = ins.operands[1]
    return isinstance(mem, Mem) and isinstance(mem.base, Reg)


def _join(loads: dict[int, Instruction], width: int, out: dict[int, int]) -> None:
    """Merge whole runs of `width` bytes into one load; their members are removed."""
    for start in sorted(loads):
        run = range(start, start + width, 4)
        if start % width == 0 and all(at in loads for at in run):
            members = [loads.pop(at).index for at in run]
            if members == sorted(members):
                out |= dict.fromkeys(members, 0) | {members[0]: width}
