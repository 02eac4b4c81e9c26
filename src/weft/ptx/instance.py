"""One copy of a function in a linked body: its names there, and its frame on the stack."""

from __future__ import annotations

from dataclasses import field, replace

from weft.ptx import isa
from weft.ptx.arguments import Lowered
from weft.ptx.isa.columns import ResultForm
from weft.ptx.model import SIZES, Imm, Instruction, Mem, Not, Operand, Pair, Reg, Sym, Vec
from weft.records import dataclass

POINTER = "stack:pointer"
"""The register that points to a thread's frame: no identifier of PTX has a colon."""
RETURN = "return:"
"""The register of a shared function with the number of the site to return to."""


@dataclass(slots=True)
class StackFrame:
    """A recursive function's place on the stack: local variables, then registers saved by calls.

    saves  by call: (register, byte offset) of what is read after it
    """

    offsets: dict[str, int]
    saves: dict[int, list[tuple[str, int]]]
    size: int


def frame_of(code: Lowered) -> StackFrame:
    """The layout of the frame that each activation of a recursive function gets."""
    offsets: dict[str, int] = {}
    end = 0
    for name, (size, align) in code.locals.items():
        offsets[name] = -(-end // align) * align
        end = offsets[name] + size
    # Frames are multiples of 16 bytes, the alignment of the stack, so each one starts aligned.
    start = size = -(-end // 16) * 16
    saves: dict[int, list[tuple[str, int]]] = {}
    for call, live in code.live_after_calls().items():
        places, at = [], start
        # A predicate is saved as 16 bits: memory has no predicates.
        widths = {name: max(2, SIZES[code.registers[name]]) for name in live} | {RETURN: 4}
        # The widest first: each register is then aligned to its size without padding.
        for name in sorted(widths, key=lambda x: -widths[x]):
            places.append((name, at))
            at += widths[name]
        saves[call] = places
        size = max(size, -(-at // 16) * 16)
    return StackFrame(offsets, saves, size)


@dataclass(slots=True)
class Instance:
    """A copy; `ids` are the numbers of functions whose address is taken, `sites` its returns."""

    code: Lowered
    prefix: str
    shared: bool
    frame: StackFrame | None
    ids: dict[str, int]
    sites: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.code.function.name

    def variable(self, name: str) -> str:
        """A variable's name: copies of a function share its variables, since only one is active."""
        return f"{self.name}:{name}" if self.prefix else name

    def scalar(self, name: str) -> Operand:
        """An argument of a call: a register, or an integer as text."""
        return Reg(self.prefix + name) if name in self.code.registers else Imm(int(name))

    def place(self, name: str, offset: int = 0, below: int = 0) -> Mem:
        """A local variable; `below` is the distance of the stack pointer from this frame."""
        if self.frame is None:
            return Mem(Sym(self.variable(name)), offset)
        return Mem(Reg(POINTER), self.frame.offsets[name] + offset - below)

    def renamed(self, ins: Instruction) -> Instruction:
        """An instruction of the function as it stands in this copy."""
        source = ins.operands[1] if isa.decode(ins).row.form is ResultForm.COPY else None
        operands = tuple(self.operand(o) for o in ins.operands)
        # The address of a local variable in a frame depends on the activation: `mov` becomes an
        # addition to the stack pointer.
        if isinstance(source, Sym) and self.frame and source.name in self.frame.offsets:
            parts = ("add", ins.parts[-1].replace("b", "u"))
            ins = replace(ins, opcode=".".join(parts), parts=parts)
            at = self.frame.offsets[source.name] + source.offset
            operands = (operands[0], Reg(POINTER), Imm(at))
        guard = self.prefix + ins.guard if ins.guard else None
        return replace(ins, operands=operands, guard=guard)

    def operand(self, operand: Operand) -> Operand:
        """An operand with the names of this copy."""
        match operand:
            case Reg(name):
                return Reg(self.prefix + name)
            case Sym(name, offset):
                return self._symbol(name, offset)
            case Mem(Sym(name, inner), offset) if name in self.code.locals:
                return self.place(name, inner + offset)
            case Mem(base, offset):
                return Mem(self.operand(base), offset)
            case Vec(items):
                return Vec(tuple(self.operand(x) for x in items))
            case Pair(a, b):
                return Pair(self.operand(a), self.operand(b))
            case Not(of):
                return Not(self.operand(of))
        return operand

    def _symbol(self, name: str, offset: int) -> Operand:
        if name in self.code.locals or name in self.code.others:
            return Sym(self.variable(name), offset)
        if name in self.code.labels:
            return Sym(self.prefix + name)
        return Imm(self.ids[name]) if name in self.ids else Sym(name, offset)
