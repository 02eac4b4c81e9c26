"""Accesses of one block that share a base register are checked together, by their two ends.

All of them run or none does, so a range that does not fit only means that each is then checked by
itself; a range that fits covers every one. That holds as long as no sum wraps between the two
ends: an access far from its base stands alone.
"""

from __future__ import annotations

from typing import Protocol

from weft.device.sim.address import SPACES, Address
from weft.device.sim.memory.resolve import Resolving, resolve
from weft.ir import Val
from weft.ptx.isa import decode
from weft.ptx.model import Instruction, Mem, Reg
from weft.records import dataclass

FAR = 1 << 28
"""Offsets from here on are not grouped: with the lanes' own span (`form.SPAN`), two ends that are
inside one window are then closer than a wrapped 32-bit index.
"""


@dataclass(slots=True)
class AccessGroup:
    """Accesses [base + low] to [base + high); `first` is the lowest lane's address at `low`."""

    space: int
    low: int
    high: int
    offsets: list[int]
    sizes: list[int]
    indices: list[int]
    ok: Val | None = None
    first: Val | None = None
    settled: bool = False


class Grouping(Resolving, Protocol):
    """The emitter's interface for grouping: position in the block, versions of registers."""

    predicate_taken: bool
    position: int
    versions: dict[str, int]
    """The number of writes to each register in the block."""
    groups: dict[tuple[str, int, int, bool], AccessGroup]


def _access(ins: Instruction) -> tuple[Mem, int, bool] | None:
    """(address, bytes a lane, writes) of a plain unguarded load or store."""
    d = decode(ins)
    row = d.row
    # A guarded access may not run when the others do.
    if ins.guard is not None or not (row.is_load or row.is_store):
        return None
    mem = ins.operands[row.position(row.effects[0].operand)]
    if not isinstance(mem, Mem) or not isinstance(mem.base, Reg) or abs(mem.offset) >= FAR:
        return None
    return mem, d.lane_bytes, row.is_store


def find(
    e: Grouping, mem: Mem, space: int, nbytes: int, *, checked: bool = False
) -> AccessGroup | None:
    """The group that an access belongs to; None for a single access.

    checked  only a group that an earlier access has checked
    """
    access = _access(e.ins)
    if access is None or e.predicate_taken or not isinstance(mem.base, Reg):
        return None
    name = mem.base.name
    # The version separates the values that the base has had in this block.
    key = (name, e.versions.get(name, 0), space, access[2])
    group = e.groups.get(key)
    if checked and (group is None or group.ok is None):
        return None
    if group is None:
        group = e.groups[key] = _gather(e, name, space, access[2], nbytes)
    inside = group.low <= mem.offset and mem.offset + nbytes <= group.high
    # A range of one access gains nothing, unless it has been checked already.
    alone = group.low == mem.offset and group.high == mem.offset + nbytes and group.ok is None
    # Only the alignment of the low end is tested, so the distance from it must be a multiple.
    fits = (mem.offset - group.low) % nbytes == 0
    return group if inside and fits and not alone else None


def _gather(e: Grouping, name: str, space: int, writes: bool, nbytes: int) -> AccessGroup:
    """The range that this and later accesses by the same base cover."""
    group = AccessGroup(space, 1 << 62, -(1 << 62), [], [], [])
    for ins in e.block.code[e.position :]:
        other = _access(ins)
        if other is not None and isinstance(other[0].base, Reg) and other[0].base.name == name:
            mem, size, stores = other
            # The check is one for accesses of `nbytes`; it says nothing about wider ones.
            if stores == writes and SPACES[decode(ins).space] == space and size <= nbytes:
                group.low = min(group.low, mem.offset)
                group.high = max(group.high, mem.offset + size)
                group.offsets.append(mem.offset)
                group.sizes.append(size)
                group.indices.append(ins.index)
        if name in e.program.defs(ins):  # from here on the base is another value
            break
    return group


def ends(e: Resolving, mem: Mem, space: int, group: AccessGroup, nbytes: int) -> Address:
    """An address that spans the group: its first lane's start to its last lane's end."""
    low = resolve(e, Mem(mem.base, group.low), space)
    high = resolve(e, Mem(mem.base, group.high - nbytes), space)
    inside = None
    if low.inside is not None and high.inside is not None:
        inside = (low.inside[0], high.inside[1])
    return Address(space, low.off, low.first, high.last, inside=inside)
