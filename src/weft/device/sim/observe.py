"""Observers: extra code beside a kernel's own, and the memory in which it leaves what it saw.

An observer is two things. While a kernel is compiled it gives a `Watcher`, whose methods are
called where events happen and emit code there. Around a launch it reserves memory that this code
finds (`begin`) and reads it (`end`). Code made for an observer is kept apart from plain code by the
observer's `key`. Without an observer nothing is emitted.

    block        a basic block is entered; the lanes that run are `e.mask()`
    instruction  before each instruction, its branch included; lanes are `e.executing()`
    executed     after each instruction but the branch
    access       before each memory access, whatever instruction makes it
    product      a warp issues a product whose operands are in shared memory
    barrier      lanes arrive at a barrier of the block
    tested       lanes have tested an mbarrier
    diverge      a branch has sent lanes more than one way
    leave        lanes have returned
    started, released, finished   a block of threads starts, passes a barrier, ends

Warp-wide synchronisation, shuffles, fences and the groups of `cp.async` are instructions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from weft.device.sim.protocols import CopyRing, Errors, Executing, LaneArrays, LaneSchedule, Located

if TYPE_CHECKING:
    from weft.device.sim.access import MemoryAccess
    from weft.ir import Builder, Val
    from weft.ptx.cfg import BasicBlock
    from weft.ptx.model import Instruction


class Watched(Executing, Located, Errors, Protocol):
    """The interface of the warp whose code a watcher extends."""

    @property
    def memory(self) -> LaneArrays: ...

    @property
    def schedule(self) -> LaneSchedule: ...

    @property
    def copies(self) -> CopyRing: ...


class Watcher:
    """The code of an observer in one kernel. Every method emits nothing until it is overridden."""

    one_by_one = False
    """True if the watcher needs the operands or the results of each instruction: slower code."""

    def __init__(self, e: Watched) -> None:
        self.e = e

    def reads(self, block: BasicBlock) -> Mapping[int, Collection[str]]:
        """Registers that `instruction` reads, by the index of the instruction.

        They keep their values until then, even where the code itself needs them no more. The order
        of the block's code is settled.
        """
        return {}

    def block(self, block: BasicBlock) -> None:
        """A basic block is entered."""

    def instruction(self, ins: Instruction) -> None:
        """An instruction is next; its guard has not been tested."""

    def executed(self, ins: Instruction) -> None:
        """An instruction has written its results; emitted where `one_by_one` holds."""

    def access(self, access: MemoryAccess) -> None:
        """Memory is about to be touched.

        The address of a lane may still be wrong; ranges whose `sizes` are known at run time only
        (`Unit.BULK`) have been checked.
        """

    def product(self, ins: Instruction, left: Val, right: Val) -> None:
        """The warp issues a `wgmma` with these descriptors; A's is 0 if A is in registers."""

    def barrier(self, number: Val, count: Val | None, lanes: Val) -> None:
        """Lanes arrive at a barrier; `count` threads are expected, or all (None)."""

    def tested(self, ins: Instruction, over: Val) -> None:
        """Lanes have tested an mbarrier: `over` (32 x i1) where the phase has ended."""

    def cluster_arrive(self, lanes: Val) -> None:
        """Lanes arrive at the barrier of the cluster, which orders their accesses before it."""

    def cluster_released(self, b: Builder, slot: Val) -> None:
        """All threads of the cluster have arrived at its barrier; called for each block."""

    def cluster_passed(self) -> None:
        """The warp goes on after the barrier of the cluster."""

    def diverge(self, block: BasicBlock) -> None:
        """The branch at the end of `block` has split the lanes."""

    def leave(self, lanes: Val | None) -> None:
        """These lanes have returned, or all that are left (None)."""

    def started(self, b: Builder, context: Val, worker: Val, slot: Val) -> None:
        """A block of threads has been given its slot; no warp has run yet."""

    def released(self, b: Builder, slot: Val, number: Val) -> None:
        """All that were expected have arrived at a barrier of the block."""

    def finished(self, b: Builder, context: Val, worker: Val, slot: Val) -> None:
        """All warps of a block have ended."""

    def notes(self) -> Mapping[str, Any]:
        """Data about this code for `begin` and `end`; stored with it, as JSON."""
        return {}


class Watching(Protocol):
    """The factory of watchers for the kernels that are compiled."""

    @property
    def key(self) -> str:
        """An identifier of the code that its watcher emits."""

    def watcher(self, e: Watched) -> Watcher:
        """The watcher of a kernel that is being compiled."""
