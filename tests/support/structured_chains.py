"""Chains whose inputs have forms of the lattice: constants, bounds, lanes a constant apart.

Half of their instructions are of rows that have a rule of their own there.
"""

from __future__ import annotations

import numpy as np

from chains import LANEWISE, WIDTHS, Chain, N, Register, draw
from weft.device.sim.analyse.lattice import TABLE
from weft.ptx.isa import Decoded, lookup
from weft.ptx.isa.columns import ResultForm

RULED = [row for row in LANEWISE if row.form in {ResultForm.CONVERSION, *TABLE}]
"""Rows of which more is derived than whether the lanes agree."""


class StructuredChain(Chain):
    """A chain of which more is known at compile time."""

    def inputs(self) -> np.ndarray:
        data = super().inputs()
        thread = np.arange(N, dtype=np.uint64)
        place = self.new(32, thread)
        self.lines.append(f"and.b32 {place.name}, %n, 63;")
        for bits in WIDTHS:
            value = draw(self.rng, bits)
            self.lines.append(f"mov.b{bits} {self.new(bits, np.full(N, value)).name}, {value};")
        for _ in range(2):
            step, start = draw(self.rng, 32), self.of(32)
            total = thread * np.uint64(step) + start.values
            moved = self.new(32, total & np.uint64(0xFFFFFFFF))
            self.lines.append(f"mad.lo.u32 {moved.name}, {place.name}, {step}, {start.name};")
            self._widened(self.rng.choice((moved, place, start)))
            bound = self.rng.choice((draw(self.rng, 32), (1 << self.rng.randrange(32)) - 1))
            below = self.new(32, start.values & np.uint64(bound))
            self.lines.append(f"and.b32 {below.name}, {start.name}, {bound};")
        return data

    def _widened(self, narrow: Register) -> None:
        """A 64-bit register made from a 32-bit one, with its sign or without, times a constant."""
        scale, sign = self.rng.choice((1, 2, 4, 12)), self.rng.choice("us")
        values = narrow.values.astype(np.uint32)
        whole = values.astype(np.int32) if sign == "s" else values
        wide = self.new(64, (whole.astype(np.int64) * scale).view(np.uint64))
        self.lines.append(f"mul.wide.{sign}32 {wide.name}, {narrow.name}, {scale};")

    def of(self, bits: int) -> Register:
        found = [r for r in self.registers if r.bits == bits]
        return self.rng.choice(found if self.rng.random() < 0.4 else found[-12:])

    def opcode(self) -> tuple[str, Decoded]:
        while self.rng.random() < 0.5:
            row = self.rng.choice(RULED)
            name = self._spell(row)
            decoded = lookup(name.split("."))
            reads = any(s.name == "cc" for s in row.operands)
            if decoded is not None and decoded.row is row and (self.carry is not None or not reads):
                return name, decoded
        return super().opcode()
