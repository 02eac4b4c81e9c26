"""Resolves an address operand: the host addresses of its lanes, in as few scalars as possible."""

from __future__ import annotations

from typing import Protocol

from weft.device.sim.address import Address, Wide
from weft.device.sim.analyse.form import AFFINE, INDEXED, LANES, SPARSE, ZERO
from weft.device.sim.layout import Space
from weft.device.sim.protocols import Emission, InstructionOperands, Pointers
from weft.errors import PtxError
from weft.ir import Val
from weft.ptx.model import Mem, Reg, Special, Sym


class Resolving(InstructionOperands, Pointers, Protocol):
    """The emitter's interface for computing addresses."""


def resolve(e: Resolving, mem: Mem, space: int, *, ends: bool = True) -> Address:
    """The addresses of `[base + offset]` in a space.

    Without `ends`, a form from which all lanes can be computed has no first and no last address.
    """
    if space == Space.SHARED:
        return _shared(e, mem, ends)
    if space == Space.CLUSTER:
        return _cluster(e, mem, ends) if e.program.clusters else _shared(e, mem, ends)
    if space == Space.LOCAL:
        return _local(e, mem)
    if space == Space.PARAM:
        return _param(e, mem, ends)
    return _flat(e, mem, space, ends)


def _flat(e: InstructionOperands, mem: Mem, space: int, ends: bool) -> Address:
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
    if form.kind == INDEXED and form.rows == ZERO and isinstance(base, Reg):
        w = e.read_wide(base.name)
        w.base = w.base + mem.offset if mem.offset else w.base
        # A negative scale reverses the lanes: the lowest address then has the highest index.
        byte = [w.scale * x for x in w.off]
        least = min(byte)
        low, high = w.off[byte.index(least)], w.off[byte.index(max(byte))]
        off = tuple(x - least for x in byte)
        if not ends:
            return Address(space, off, wide=w)
        return Address(space, off, w.at(low), w.at(high), wide=w)
    if form.kind in (INDEXED, SPARSE) and isinstance(base, Reg):
        w = e.read_wide(base.name)
        w.base = w.base + mem.offset if mem.offset else w.base
        return Address(space, None, wide=w)
    v = e.read(base, "b64")
    return Address(
        space, None, exact=v + mem.offset if mem.offset else v, first=b.integer("i64", 0)
    )


def _plus(p: Val, n: int) -> Val:
    return p + n if n else p


def _offset32(e: InstructionOperands, mem: Mem) -> tuple[Val, tuple[int, ...] | None]:
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


def _window(
    e: Emission, space: int, start: Val, v: Val, off: tuple[int, ...] | None, ends: bool
) -> Address:
    """Offsets (32 bits) inside a window that starts at host address `start`.

    They are widened with their sign: the first lane may lie before the window while it does not
    run, and the others must not be carried past 2^32 with it. Windows are far smaller than 2^31.
    """
    b = e.b
    if off is None:
        wide = Wide(start, v, ZERO, 1, False)
        return Address(space, None, wide=wide)
    if v.is_const and off == ZERO:
        # Unsigned here: `always_inside` compares a constant with the end of the window alone, and a
        # negative offset would pass.
        rel = b.integer("i64", int(v.ref) & 0xFFFFFFFF)
        p = start + rel
        return Address(space, ZERO, p, p, inside=(rel, rel))
    low, high = min(off), max(off)
    wide = Wide(start, v, off, 1, False)  # a lane that runs may be 2^32 past one that does not
    if not ends:
        return Address(space, tuple(x - low for x in off), wide=wide)
    rel = (v + low if low else v).sext("i64")
    end = (v + high if high else v).sext("i64") if high != low else rel
    first = start + rel
    last = start + end if high != low else first
    return Address(space, tuple(x - low for x in off), first, last, wide=wide, inside=(rel, end))


def _pointer_bits(e: Emission, p: Val) -> Val:
    return e.b.pure("i64", 0, f"ptrtoint {p.typed} to i64")


def _cluster(e: Resolving, mem: Mem, ends: bool) -> Address:
    """An address in shared memory of any block of the cluster: relative to the block's own."""
    v, off = _own_offset(e, mem)
    start = _pointer_bits(e, e.shared)
    if off is None:
        return Address(Space.CLUSTER, None, wide=Wide(start, v, ZERO, 1, True))
    a = _window(e, Space.CLUSTER, start, v, off, ends)
    return Address(Space.CLUSTER, a.off, a.first, a.last, wide=Wide(start, v, off, 1, True))


def _own_offset(e: Resolving, mem: Mem) -> tuple[Val, tuple[int, ...] | None]:
    """As `_offset32`, in the block's own shared memory: in a cluster, addresses have a rank."""
    v, off = _offset32(e, mem)
    ranked = e.program.clusters and isinstance(mem.base, Reg)
    return (v - e.rank_base if ranked else v), off


def _shared(e: Resolving, mem: Mem, ends: bool) -> Address:
    v, off = _own_offset(e, mem)
    return _window(e, Space.SHARED, _pointer_bits(e, e.shared), v, off, ends)


def _param(e: Resolving, mem: Mem, ends: bool) -> Address:
    v, off = _offset32(e, mem)
    return _window(e, Space.PARAM, _pointer_bits(e, e.params), v, off, ends)


def _local(e: Resolving, mem: Mem) -> Address:
    v, off = _offset32(e, mem)
    start, step = _pointer_bits(e, e.local), e.program.local_bytes
    if off is None:
        lanes = e.b.lanes("i32", [i * step for i in LANES])
        return Address(Space.LOCAL, None, wide=Wide(start, v + lanes, ZERO, 1, False))
    rel = v.sext("i64")
    # The copies of the lanes are adjacent. Each lane is checked against its own, so the range
    # inside one copy is given, without the lane's step.
    low_rel, high_rel = (rel + x if x else rel for x in (min(off), max(off)))
    base = start + rel
    moved = [x + i * step for i, x in enumerate(off)]
    low = min(moved)
    first, last = _plus(base, low), _plus(base, max(moved))
    spread, wide = tuple(x - low for x in moved), Wide(start, v, tuple(moved), 1, False)
    return Address(Space.LOCAL, spread, first, last, wide=wide, inside=(low_rel, high_rel))
