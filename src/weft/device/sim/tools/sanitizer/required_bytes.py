"""Bytes that a read needs to be initialised: those that a result is computed from.

A value that is only copied may have holes, such as the padding of a structure.
"""

from __future__ import annotations

from weft.device.sim.analyse.program import KernelProgram
from weft.ptx.cfg import registers
from weft.ptx.isa import decode
from weft.ptx.isa.columns import ResultForm
from weft.ptx.model import Instruction, Mem

_DEEP = 4
"""The maximum number of consecutive moves through which a copy is followed."""


class RequiredBytes:
    """The uses of a kernel's registers."""

    def __init__(self, program: KernelProgram) -> None:
        self.program = program
        self.users: dict[str, list[Instruction]] = {}
        for block in program.graph.blocks:
            for ins in block.code:
                for name in program.uses(ins):
                    self.users.setdefault(name, []).append(ins)

    def of(self, ins: Instruction, nbytes: int) -> int:
        """The bytes, as bits, that must be initialised in what an instruction reads."""
        every = (1 << nbytes) - 1
        # Atomics and matrix loads count as using all that they read.
        if not decode(ins).row.is_load:
            return every
        names = registers(ins.operands[0])
        size = nbytes // max(1, len(names))
        needed = [self._computes(name, _DEEP) for name in names]
        bits = sum(((1 << size) - 1) << size * i for i, used in enumerate(needed) if used)
        return bits & every

    def _computes(self, name: str, depth: int) -> bool:
        """Return whether anything is computed from all of a register."""
        return any(self._by(ins, name, depth) for ins in self.users.get(name, ()))

    def _by(self, ins: Instruction, name: str, depth: int) -> bool:
        row = decode(ins).row
        if row.is_store:
            address = next((o for o in ins.operands if isinstance(o, Mem)), None)
            return address is not None and name in registers(address)
        if row.form is ResultForm.COPY and depth:
            return all(self._computes(part, depth - 1) for part in self.program.defs(ins))
        return True
