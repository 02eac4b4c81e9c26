"""A product of the program, and the record of one that has been issued."""

from __future__ import annotations

from weft.errors import PtxError
from weft.ptx.isa.matrix.warpgroup import form_of
from weft.ptx.isa.matrix.warpgroup_form import REGISTER, WarpgroupForm
from weft.ptx.model import Instruction, Operand, Reg, Vec
from weft.records import dataclass


class Issued:
    """The record of a product that has been issued."""

    NUMBER, OF_GROUP, ADDS, FIRST, LEFT, RIGHT = 0, 4, 8, 12, 16, 24
    """Index of the instruction, group, whether the accumulators are added, number of the warp's
    first 8 rows, descriptors."""
    METADATA = 64
    REGISTERS = METADATA + REGISTER
    """A's registers, if A is not in shared memory."""
    SIZE = REGISTERS + 4 * REGISTER


@dataclass(frozen=True)
class Product:
    """A product of the program: its form, and the registers of D and A."""

    ins: Instruction
    form: WarpgroupForm
    d: tuple[str, ...]
    a: Operand | None

    @property
    def left(self) -> list[str]:
        """The names of A's registers."""
        items = self.a.items if isinstance(self.a, Vec) else ()
        return [x.name for x in items if isinstance(x, Reg)]


def product_of(ins: Instruction) -> Product:
    """The form and the registers of a product; their numbers follow from its shape."""
    form = form_of(ins)
    d, a = ins.operands[:2]
    for what, given, count in (("D", d, form.registers), ("A", a, 0 if form.left else 4)):
        items = given.items if isinstance(given, Vec) else ()
        if len(items) != count:
            raise PtxError(
                f"{ins.opcode}: {what} has {len(items)} registers",
                allowed=f"{count} for this shape",
            )
    assert isinstance(d, Vec)
    names = tuple(x.name for x in d.items if isinstance(x, Reg))
    if len(set(names)) < form.registers:
        raise PtxError(
            f"{ins.opcode}: a register is missing in D, or is there twice",
            allowed=f"{form.registers} different registers",
        )
    return Product(ins, form, names, None if form.left else a)
