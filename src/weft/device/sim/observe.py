"""Observers: extra code beside a kernel's own, and the memory in which it leaves what it saw.

An observer is two things. While a kernel is compiled it gives a `Watcher`, whose methods are
called where events happen and emit code there. Around a launch it reserves memory that this code
finds (`begin`) and reads it (`end`). Code made for an observer is kept apart from plain code by the
observer's `key`. Without an observer nothing is emitted.

    block        a basic block is entered; the lanes that run are `e.mask()`
    instruction  before each instruction, its branch included; lanes are `e.executing()`
    access       before each memory access, when its address is known and nothing is checked yet
    bulk         a bulk copy is issued and its ranges have been checked
    barrier      lanes arrive at a barrier of the block
    diverge      a branch has sent lanes more than one way
    leave        lanes have returned
    started, released, finished   a block of threads starts, passes a barrier, ends

Warp-wide synchronisation, shuffles, fences and the groups of `cp.async` are instructions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from weft.device.sim.protocols import (
    CopyRing,
    Errors,
    Executing,
    LaneArrays,
    LaneSchedule,
    Located,
)

if TYPE_CHECKING:
    from weft.device.sim.address import Address
    from weft.ir import Builder, Val
    from weft.ptx.cfg import Block
    from weft.ptx.model import Instruction


@dataclass(frozen=True, slots=True)
class Rows:
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
class Touch:
    """One memory access of a warp.

    kind     load, store, atomic, reduction (an atomic whose result nobody reads), copy
             (cp.async), matrix (ldmatrix, stmatrix: 16 bytes for each lane in `lanes`), fragment
             (wmma: see `rows`), mbarrier
    nbytes   of each lane
    lanes    the lanes that touch memory, where they may be fewer than execute the instruction
    target   where in shared memory a copy goes, when it is waited for
    wanted   bytes that each lane's copy reads, where that may be less; zeros are the rest
    values   what a store writes, where it is known
    """

    kind: str
    writes: bool
    address: Address
    nbytes: int
    lanes: Val | None = None
    target: Address | None = None
    wanted: Val | None = None
    rows: Rows | None = None
    values: list[Val] | None = None


@dataclass(frozen=True, slots=True)
class BulkCopy:
    """One `cp.async.bulk` of a warp: each lane in `lanes` moves a range of its own.

    space     of the target; `source_space` of the source
    reduces   whether the target's elements are combined with the source's
    sizes     an array of 32 sizes (i32); `targets` and `sources` are of 32 addresses (i64)
    """

    space: int
    source_space: int
    reduces: bool
    lanes: Val
    sizes: Val
    targets: Val
    sources: Val


class Watched(Executing, Located, Errors, Protocol):
    """What a watcher may ask of the warp whose code it adds to."""

    @property
    def access(self) -> LaneArrays: ...

    @property
    def schedule(self) -> LaneSchedule: ...

    @property
    def copies(self) -> CopyRing: ...


class Watcher:
    """The code of an observer in one kernel. Every method emits nothing until it is overridden."""

    one_by_one = False
    """Must each instruction's operands be there when `instruction` is called? Slower code."""

    def __init__(self, e: Watched) -> None:
        self.e = e

    def block(self, block: Block) -> None:
        """A basic block is entered."""

    def instruction(self, ins: Instruction) -> None:
        """An instruction is next; its guard has not been looked at."""

    def access(self, touch: Touch) -> None:
        """Memory is about to be touched; an address may still be wrong."""

    def bulk(self, copy: BulkCopy) -> None:
        """A bulk copy is about to be noted; it lands when somebody waits for it."""

    def barrier(self, number: Val, count: Val | None, lanes: Val) -> None:
        """Lanes arrive at a barrier; `count` threads are expected, or all (None)."""

    def diverge(self, block: Block) -> None:
        """The branch at the end of `block` has sent lanes more than one way."""

    def leave(self, lanes: Val | None) -> None:
        """These lanes have returned, or all that are left (None)."""

    def started(self, b: Builder, context: Val, worker: Val, slot: Val) -> None:
        """A block of threads has been given its slot; no warp has run yet."""

    def released(self, b: Builder, slot: Val, number: Val) -> None:
        """All that were expected have arrived at a barrier of the block."""

    def finished(self, b: Builder, context: Val, worker: Val, slot: Val) -> None:
        """All warps of a block have ended."""

    def notes(self) -> Mapping[str, Any]:
        """What `begin` and `end` must know of this code; kept with it, as JSON."""
        return {}


class Watching(Protocol):
    """What gives watchers to the kernels that are compiled."""

    @property
    def key(self) -> str:
        """Names the code that its watcher emits."""

    def watcher(self, e: Watched) -> Watcher:
        """The watcher of a kernel that is being compiled."""
