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

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from weft.device.sim.layout import Context, Slot, Worker

if TYPE_CHECKING:
    from weft.device.base import Allocation, LaunchConfig
    from weft.device.sim.address import Address
    from weft.device.sim.emit.warp import WarpEmitter
    from weft.device.sim.run.arena import Arena
    from weft.device.sim.run.compile import Facts
    from weft.device.sim.run.heap import Heap
    from weft.ir import Builder, Val
    from weft.ptx.cfg import Block
    from weft.ptx.model import Instruction

Bytes = NDArray[np.uint8]


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


class Watcher:
    """The code of an observer in one kernel. Every method emits nothing until it is overridden."""

    one_by_one = False
    """Must each instruction's operands be there when `instruction` is called? Slower code."""

    def __init__(self, e: WarpEmitter) -> None:
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


class Observation:
    """One launch under observation; `heap` is there when kernels of the module allocate."""

    def __init__(
        self, facts: Facts, config: LaunchConfig, memory: Sequence[Allocation], arena: Arena
    ) -> None:
        self.facts, self.config, self.memory = facts, config, memory
        self.workers, self.slots = len(arena.workers), arena.slots
        self.error: BaseException | None = None
        self.heap: Heap | None = None
        self._arena = arena
        self._kept: list[Bytes] = []

    @property
    def notes(self) -> Mapping[str, Any]:
        """What the watcher has left with the code."""
        return self.facts.notes

    def parameter(self, offset: int) -> int:
        """The 64 bits of the parameter block at a byte offset: a pointer, mostly."""
        start = int(self._arena.context[Context.PARAMS // 8])
        return ctypes.c_uint64.from_address(start + offset).value

    def for_launch(self, memory: Bytes) -> None:
        """Memory that all workers share: its address is in `Context.OBSERVER`."""
        self._kept.append(memory)
        self._arena.context[Context.OBSERVER // 8] = memory.ctypes.data

    def for_workers(self, nbytes: int) -> list[Bytes]:
        """Zeroed memory for each host thread: its address is in `Worker.OBSERVER`."""
        out = [_zeros(nbytes) for _ in range(self.workers)]
        for worker, memory in zip(self._arena.workers, out, strict=True):
            worker.fields[Worker.OBSERVER // 8] = memory.ctypes.data
        self._kept += out
        return out

    def for_slots(self, nbytes: int) -> list[Bytes]:
        """Zeroed memory for each resident block: its address is in `Slot.OBSERVER`."""
        out = []
        for worker in range(self.workers):
            for index in range(self.slots):
                memory = _zeros(nbytes)
                at = ctypes.c_int64.from_buffer(
                    self._arena.slot(worker, index).data.cast("B"), Slot.OBSERVER
                )
                at.value = memory.ctypes.data
                out.append(memory)
        self._kept += out
        return out


def _zeros(nbytes: int) -> Bytes:
    """Zeroed bytes on a line of their own, so that workers do not share one."""
    memory = np.zeros(nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 128
    return memory[start : start + nbytes]


class Observer(Protocol):
    """What is seen of launches."""

    @property
    def key(self) -> str:
        """Names the code that its watcher emits."""

    def watcher(self, e: WarpEmitter) -> Watcher:
        """The watcher of a kernel that is being compiled."""

    def begin(self, observation: Observation) -> None:
        """Before a launch: reserves memory."""

    def end(self, observation: Observation) -> None:
        """After it, also when it has failed (`observation.error`)."""
