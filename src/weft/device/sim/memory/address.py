"""An address operand resolved for code: which lanes, from what scalars, checked how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.device.sim.analyse.form import AFFINE, INDEXED, LANES, SPARSE, ZERO
from weft.device.sim.layout import Space
from weft.device.sim.memory.wide import Wide
from weft.errors import PtxError
from weft.ir import Val
from weft.ptx.model import Mem, Reg, Special, Sym

if TYPE_CHECKING:
    from weft.device.sim.emit.warp import WarpEmitter

SPACES = {
    "global": Space.GLOBAL, "shared": Space.SHARED, "shared::cta": Space.SHARED,
    "shared::cluster": Space.SHARED,  # a cluster here has one block
    "local": Space.LOCAL, "param": Space.PARAM, "const": Space.CONST, "": Space.GENERIC,
}  # fmt: skip


@dataclass(slots=True)
class Address:
    """Host addresses of an access.

    off    bytes of each lane relative to `first` (None: only `lanes()` knows)
    first  scalar host address of the lane whose offset is 0 (the lowest)
    last   scalar host address of the highest lane, computed exactly
    exact  all lanes as `<32 x i64>`, when there is no scalar form
    wide   the sparse form, where there is one
    inside (lowest, highest) offset inside a small window, for spaces that are one
    """

    space: int
    off: tuple[int, ...] | None
    first: Val | None = None
    last: Val | None = None
    exact: Val | None = None
    wide: Wide | None = None
    inside: tuple[Val, Val] | None = None

    @property
    def uniform(self) -> bool:
        return self.off == ZERO

    @property
    def scalar(self) -> bool:
        return self.off is not None


def space_of(parts: tuple[str, ...]) -> int:
    """The state space an opcode names; none is generic."""
    for word, space in SPACES.items():
        if word and word in parts:
            return space
    return Space.GENERIC


def resolve(e: WarpEmitter, mem: Mem, space: int) -> Address:
    """The addresses of `[base + offset]` in a space."""
    if space == Space.SHARED:
        return _shared(e, mem)
    if space == Space.LOCAL:
        return _local(e, mem)
    if space == Space.PARAM:
        return _param(e, mem)
    return _flat(e, mem, space)


def _flat(e: WarpEmitter, mem: Mem, space: int) -> Address:
    b, base = e.b, mem.base
    form = e.program.form_of(base)
    assert form is not None
    if isinstance(base, Sym):
        p = e.symbol(base) + mem.offset
        return Address(space, ZERO, p, p)
    if form.kind <= AFFINE:
        p = e.base(base, "b64")
        low, high = min(form.off), max(form.off)
        first = p + (low + mem.offset) if low + mem.offset else p
        return Address(space, tuple(x - low for x in form.off), first, _plus(first, high - low))
    if form.kind == INDEXED and isinstance(base, Reg):
        w = e.read_wide(base.name)
        w.base = w.base + mem.offset if mem.offset else w.base
        byte = [w.scale * x for x in w.off]
        low, high = (w.off[byte.index(f(byte))] for f in (min, max))
        off = tuple(x - min(byte) for x in byte)
        return Address(space, off, w.at(low), w.at(high), wide=w)
    if form.kind == SPARSE and isinstance(base, Reg):
        w = e.read_wide(base.name)
        w.base = w.base + mem.offset if mem.offset else w.base
        return Address(space, None, wide=w)
    v = e.read(base, "b64")
    return Address(
        space, None, exact=v + mem.offset if mem.offset else v, first=b.integer("i64", 0)
    )


def _plus(p: Val, n: int) -> Val:
    return p + n if n else p


def _offset32(e: WarpEmitter, mem: Mem) -> tuple[Val, tuple[int, ...] | None]:
    """(scalar, lane offsets) or (lanes, None) of an address inside a small window."""
    base = mem.base
    if isinstance(base, Sym):
        if base.name not in e.program.symbols:
            raise PtxError(f"'{base.name}' is not declared", got=e.ins.text)
        return e.b.integer("i32", e.program.symbols[base.name][1] + base.offset + mem.offset), ZERO
    form = e.program.form_of(base)
    assert form is not None
    if form.kind <= AFFINE:
        v = e.base(base, "b32") if isinstance(base, Reg | Special) else e.read(base, "b32")
        return (v + mem.offset if mem.offset else v), form.off
    v = e.read(base, "b32")
    return (v + mem.offset if mem.offset else v), None


def _window(e: WarpEmitter, space: int, start: Val, v: Val, off: tuple[int, ...] | None) -> Address:
    """Offsets (32 bits) inside a window that starts at host address `start`.

    They are widened with their sign: the first lane may lie before the window while it does not
    run, and the others must not be carried past 2^32 with it. Windows are far smaller than 2^31.
    """
    b = e.b
    if off is None:
        wide = Wide(start, v, ZERO, 1, False)
        return Address(space, None, wide=wide)
    if v.is_const and off == ZERO:
        rel = b.integer("i64", int(v.ref) & 0xFFFFFFFF)
        p = start + rel
        return Address(space, ZERO, p, p, inside=(rel, rel))
    low, high = min(off), max(off)
    rel = (v + low if low else v).sext("i64")
    end = (v + high if high else v).sext("i64") if high != low else rel
    first = start + rel
    last = start + end if high != low else first
    wide = Wide(start, v, off, 1, False)  # a lane that runs may be 2^32 past one that does not
    return Address(space, tuple(x - low for x in off), first, last, wide=wide, inside=(rel, end))


def _pointer_bits(e: WarpEmitter, p: Val) -> Val:
    return e.b.val("i64", 0, f"ptrtoint {p.tref} to i64")


def _shared(e: WarpEmitter, mem: Mem) -> Address:
    v, off = _offset32(e, mem)
    return _window(e, Space.SHARED, _pointer_bits(e, e.shared), v, off)


def _param(e: WarpEmitter, mem: Mem) -> Address:
    v, off = _offset32(e, mem)
    return _window(e, Space.PARAM, _pointer_bits(e, e.params), v, off)


def _local(e: WarpEmitter, mem: Mem) -> Address:
    v, off = _offset32(e, mem)
    start, step = _pointer_bits(e, e.local), e.program.local_bytes
    if off is None:
        lanes = e.b.lanes("i32", [i * step for i in LANES])
        return Address(Space.LOCAL, None, wide=Wide(start, v + lanes, ZERO, 1, False))
    rel = v.sext("i64")
    low_rel, high_rel = (rel + x if x else rel for x in (min(off), max(off)))
    base = start + rel
    moved = [x + i * step for i, x in enumerate(off)]
    low = min(moved)
    first, last = _plus(base, low), _plus(base, max(moved))
    spread, wide = tuple(x - low for x in moved), Wide(start, v, tuple(moved), 1, False)
    return Address(Space.LOCAL, spread, first, last, wide=wide, inside=(low_rel, high_rel))
