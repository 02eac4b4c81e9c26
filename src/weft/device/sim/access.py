"""One access of a warp to memory, described once.

Every instruction that touches memory makes a `MemoryAccess` for each place it touches: a load has
one, a copy has two (its source is read, its target is written). Bounds checks, fault messages,
counters, the sanitizer and every other observer read this description. The `effects` of the
instruction's row say what there is to describe.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from weft.device.sim.address import Address
from weft.device.sim.protocols import Masks
from weft.ir import Val
from weft.ptx.isa.columns import Completion, Does, Effect
from weft.records import dataclass

if TYPE_CHECKING:
    from weft.ptx.model import Instruction


class AccessKind(Enum):
    """The effect of an access on the bytes.

    ATOMIC     they are read, changed and written in one step; the old value is returned
    REDUCTION  the same, but nothing uses the old value
    """

    READ = auto()
    WRITE = auto()
    ATOMIC = auto()
    REDUCTION = auto()

    @classmethod
    def of(cls, effect: Effect) -> AccessKind:
        """The kind of an effect in the instruction table; a result is taken to be used."""
        return _KINDS[effect.does]


_KINDS = {Does.READ: AccessKind.READ, Does.WRITE: AccessKind.WRITE, Does.UPDATE: AccessKind.ATOMIC}


class AccessUnit(Enum):
    """The unit that moves the bytes, which determines how the lanes' addresses are interpreted.

    LANES     `ld`, `st`, `atom`, `red`: each lane moves its own bytes
    MATRIX    `ldmatrix`, `stmatrix`: a lane names a row of 16 bytes, which all lanes share
    FRAGMENT  `wmma.load`, `wmma.store`: the warp moves the `rows` of one matrix
    COPY      `cp.async`: each lane starts a copy of a few bytes
    BULK      `cp.async.bulk`: each lane starts a copy of a range of any size
    MBARRIER  a barrier object in shared memory
    """

    LANES = auto()
    MATRIX = auto()
    FRAGMENT = auto()
    COPY = auto()
    BULK = auto()
    MBARRIER = auto()


@dataclass(frozen=True, slots=True)
class FragmentRows:
    """The memory of a matrix fragment: `count` rows of `nbytes`, `step` bytes apart.

    parts  for each register, and in it for each lane: (row, byte in the row) of its `unit` bytes
    """

    first: Val
    step: Val
    count: int
    nbytes: int
    unit: int
    parts: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """One access of a warp.

    address  where each lane's bytes begin, and the state space
    nbytes   bytes of each lane; 0 where only `sizes` says
    align    what each address is a multiple of; None: `nbytes`
    lanes    the lanes that touch memory; None: all that execute the instruction
    sizes    bytes of each lane (32 x i32), where they are known at run time only
    rows     the memory of a fragment, which belongs to the warp and not to its lanes
    values   what a store writes, one for each element
    waits    how the access completes; None: it is complete when the next instruction runs
    jobs     the boxes of a tensor copy, one for each lane (`memory.tensors.job`)
    masks    blocks of the cluster that each lane's multicast writes to, as bits (32 x i32); of
             both sides of the copy
    beside   where the other side of a bulk copy is in shared memory (32 x i64); only the last bits
             are those of a shared address
    """

    ins: Instruction
    unit: AccessUnit
    kind: AccessKind
    address: Address
    nbytes: int
    align: int | None = None
    lanes: Val | None = None
    sizes: Val | None = None
    rows: FragmentRows | None = None
    values: tuple[Val, ...] | None = None
    waits: Completion | None = None
    masks: Val | None = None
    jobs: Val | None = None
    beside: Val | None = None

    @property
    def space(self) -> int:
        """The state space: `layout.Space`."""
        return self.address.space

    @property
    def reads(self) -> bool:
        return self.kind is not AccessKind.WRITE

    @property
    def writes(self) -> bool:
        return self.kind is not AccessKind.READ

    @property
    def sends(self) -> bool:
        """True for `st.async` and `red.async`, which complete later."""
        return self.unit is AccessUnit.LANES and self.waits is not None

    @property
    def changes(self) -> bool:
        """True if it writes a value computed from the bytes that it reads."""
        return self.kind in (AccessKind.ATOMIC, AccessKind.REDUCTION)


def touching(e: Masks, access: MemoryAccess) -> Val:
    """The lanes that touch memory, as bits."""
    return e.executing() if access.lanes is None else e.executing() & access.lanes
