"""The form of a result from the forms of its sources, where the arithmetic alone does not say it.

Conversions, wide products, and rows that look at the warp as a whole; `lattice` has the rest.
"""

from __future__ import annotations

from weft.device.sim.analyse import lattice
from weft.device.sim.analyse.form import SOME_UNIFORM, UNIFORM, Form, truncated, vector
from weft.ptx.isa import decode
from weft.ptx.isa.columns import Participants, ResultForm
from weft.ptx.model import SIZES, Instruction, Reg

INTEGERS = frozenset(f"{sign}{bits}" for sign in "usb" for bits in (8, 16, 32, 64))
"""Types of one integer a register; `u16x2` and the like are two."""


def bits_of(kind: str) -> int:
    """Width of a type with one number, or of a predicate."""
    return 8 * SIZES[kind]


def convert(ins: Instruction, a: Form, dst: str, src: str, register: int) -> Form:
    """`cvt` between integers, into a register of so many bits.

    A register that is wider than the type gets the value with its sign: scalars stay scalars only
    where neither side is wider than its type.
    """
    to, of = bits_of(dst), bits_of(src)
    a = truncated(a, of)
    # A modifier such as `.sat` changes values, so only a plain conversion keeps the form.
    if len(ins.parts) == 3 and to == register:
        if to == of:
            return a
        if (to, of) == (64, 32):
            return lattice.widen(a, 1, src[0] == "s")
        if (to, of) == (32, 64) and a.is_scalar:
            return truncated(a, 32)
    top = a.top if a.top is not None and a.top < 1 << (min(to, of) - 1) else None
    return Form(UNIFORM, top=top) if a.kind == UNIFORM else vector(top)


def widening_product(fs: list[Form], signed: bool) -> Form:
    """`mul.wide` and `mad.wide` of 32-bit numbers."""
    a, b = fs[0], fs[1]
    if a.const is not None:
        a, b = b, a
    # An unsigned factor of 2^31 or more is kept as a negative constant.
    if b.const is not None and (signed or b.const >= 0):
        product = lattice.widen(a, b.const, signed)
    elif a.kind == b.kind == UNIFORM:
        top = a.top * b.top if a.top is not None and b.top is not None else None
        product = Form(UNIFORM, top=top)
    else:
        product = vector()
    return product if len(fs) == 2 else lattice.TABLE[ResultForm.SUM]([product, fs[2]], 64, signed)


def _of_operands(ins: Instruction, fs: list[Form]) -> Form:
    """Lanes with equal operands get equal results."""
    return SOME_UNIFORM if all(f.kind == UNIFORM for f in fs) else vector()


def _generic(ins: Instruction, fs: list[Form]) -> Form:
    """The form of `cvta`: the start of a window, which is added to its addresses, is not known."""
    a = fs[0]
    windowed = decode(ins).space in ("shared", "param")
    moved = Form(a.kind, a.off, scale=a.scale, signed=a.signed, rows=a.rows)
    return moved if windowed else truncated(a, 64)


def _moved(ins: Instruction, fs: list[Form]) -> Form:
    """A copy, unless it splits a register."""
    if not isinstance(ins.operands[0], Reg):
        return vector()
    kind = decode(ins).type
    return fs[0] if kind == "pred" else truncated(fs[0], bits_of(kind))


def _uniform(ins: Instruction, fs: list[Form]) -> Form:
    return SOME_UNIFORM


def _load(ins: Instruction, fs: list[Form]) -> Form:
    """Uniform when the address is, except in local memory, which each lane has for itself."""
    return SOME_UNIFORM if fs[0].kind == UNIFORM and decode(ins).space != "local" else vector()


def _of_group(ins: Instruction, fs: list[Form]) -> Form:
    """One answer for all lanes, if they all name the same group."""
    grouped = decode(ins).row.participants is Participants.MASK
    return SOME_UNIFORM if not grouped or fs[-1].kind == UNIFORM else vector()


def _shuffled(ins: Instruction, fs: list[Form]) -> Form:
    """A broadcast from one lane, or a shuffle of what is the same in all of them."""
    value, lane, clamp = fs[:3]
    # Without segments; with them, each segment would broadcast its own lane.
    broadcast = decode(ins).mode == "idx" and lane.kind == UNIFORM and clamp.const == 0x1F
    # A predicate destination shares this form, and lanes differ on what is in range.
    same = value.kind == UNIFORM and isinstance(ins.operands[0], Reg)
    return SOME_UNIFORM if broadcast or same else vector()


WARP_FORMS = {
    ResultForm.COPY: _moved,
    ResultForm.ADDRESS: _generic,
    ResultForm.LOADED: _load,
    ResultForm.SHUFFLED: _shuffled,
    ResultForm.OF_GROUP: _of_group,
    ResultForm.OF_OPERANDS: _of_operands,
    ResultForm.UNIFORM: _uniform,
}
"""The rules for warp rows, by the row's column `form`; others give each lane its own value."""
