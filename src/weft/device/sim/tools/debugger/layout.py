"""The memory in which debugged code leaves its state: one area per warp, one control block.

Debugged code stores every result a second time, in the area of its warp: registers can then be
read while the launch is stopped, after a fault, and when the code itself needs them no more.
"""

from __future__ import annotations

from weft.device.sim.analyse.form import AFFINE, UNIFORM, Form
from weft.device.sim.analyse.program import CARRY, KernelProgram
from weft.ir import BITS
from weft.ptx.isa import llvm_type
from weft.records import dataclass


class WarpFields:
    """The start of a warp's area.

    PLACE   the instruction at which the warp was last noted, plus 1; 0 before it starts
    MASK    the lanes that run
    DONE    the lanes that have returned
    BLOCKS  for each lane, the basic block that it entered last, plus 1
    """

    PLACE, MASK, DONE = 0, 4, 8
    BLOCKS = 64
    REGISTERS = 192


class ControlFields:
    """The control block of a launch: words of 64 bits, then a byte of `Arm` per instruction."""

    HOST = 0
    ENTERED = 8
    """Basic blocks that warps have entered: with an instruction, the time in a launch."""
    TARGET = 16
    """The value of ENTERED at which the host is called, whatever is armed."""
    SLOT, WARP = 24, 32
    """The warp for which STEP is armed."""
    TABLE = 64


class Arm:
    """Bits of an instruction in the table: when its execution calls the host."""

    ALWAYS, STEP, CONDITION = 1, 2, 4


class Reason:
    """The argument of a call of the host: why it was called."""

    ARMED, TARGET, NAN = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Stored:
    """A register in the area of a warp: 32 lanes, or one scalar and a constant for each lane."""

    offset: int
    bits: int
    scalar: bool
    form: Form


class ShadowLayout:
    """The places of a kernel's registers in the area of a warp.

    constants  registers whose value is known in the code, and stored nowhere
    """

    def __init__(self, program: KernelProgram) -> None:
        self.registers: dict[str, Stored] = {}
        self.constants: dict[str, int] = {}
        written = {
            name
            for block in program.graph.blocks
            for ins in block.code
            for name in program.defs(ins)
        }
        at = WarpFields.REGISTERS
        for name in sorted(written - {CARRY}):
            form, bits = program.forms[name], BITS[llvm_type(program.function.registers[name])]
            if form.const is not None:
                self.constants[name] = form.const
                continue
            scalar = form.kind in (UNIFORM, AFFINE) and bits > 1
            size = 8 if scalar or bits == 1 else 4 * bits
            at = -(-at // min(size, 64)) * min(size, 64)
            self.registers[name] = Stored(at, bits, scalar, form)
            at += size
        self.warp_bytes = -(-at // 64) * 64
        self.warps = program.warps

    @property
    def slot_bytes(self) -> int:
        """Bytes of the areas of a block."""
        return self.warp_bytes * self.warps
