"""Clusters in the code of a warp: the barrier of the cluster, ranks and addresses of its blocks.

A shared address in a cluster is `rank << 24 | offset`, as on an H200, for the block's own memory
too. Shared memory of the blocks lies as far apart in the memory of the host, so that a generic
address is the host's.

The barrier keeps the number of threads that have not arrived (`SlotFields.MISSING`). A thread that
exits counts as arrived from then on. Each warp notes the lanes that have arrived and not waited
yet, and the parity of the phase in which each of them arrived.
"""

from __future__ import annotations

from typing import Protocol

from weft.device.sim.analyse.waits import is_cluster_barrier
from weft.device.sim.emit.block.barriers import BlockBarriers
from weft.device.sim.emit.frame import FrameWords
from weft.device.sim.layout import CLUSTER_SHIFT, Fault, FrameFields, SlotFields, WorkerFields
from weft.device.sim.memory.checks import cluster_size
from weft.device.sim.observe import Watcher
from weft.device.sim.protocols import Errors, Executing, FrameSpace, Located
from weft.ir import Builder, Val
from weft.ptx.isa import decode
from weft.ptx.isa.columns import Participants
from weft.ptx.model import Instruction

_P, _I32 = ("ptr", 0), ("i32", 0)
_OFFSET = (1 << CLUSTER_SHIFT) - 1
_ARRIVED, _PARITY = 0, 4
"""Words in the frame: lanes that have arrived and not waited; those that did in an odd phase."""


class InCluster(Executing, Located, Errors, Protocol):
    """The emitter's interface for instructions of a cluster."""

    watch: Watcher


class ClusterFrame(FrameSpace, Protocol):
    """Bytes of the frame, and lanes that leave the kernel."""

    block_barriers: BlockBarriers

    def when_leaving(self, hook: LeaveHook) -> None: ...


class LeaveHook(Protocol):
    """Emits code for lanes that exit."""

    def __call__(self, lanes: Val) -> None: ...


class ClusterOperations:
    """Instructions of a cluster, for a warp under emission."""

    def __init__(self, e: InCluster, frame: ClusterFrame) -> None:
        self.e, self.barriers = e, frame.block_barriers
        self.words = FrameWords(e)
        code = [ins for block in e.program.graph.blocks for ins in block.code]
        if any(decode(i).row.participants is Participants.CLUSTER for i in code):
            self.at = frame.reserve(8, self._start, self._finish)
            frame.when_leaving(self.leave)

    # ---- the barrier ------------------------------------------------------------------------
    def _start(self) -> None:
        """No lane of a fresh warp has arrived."""
        for word in (_ARRIVED, _PARITY):
            self.words.store(self.at + word, self.e.b.integer("i32", 0))

    def _finish(self) -> None:
        self.leave(self.words.load(FrameFields.LIVE))

    def arrive(self, ins: Instruction) -> None:
        """`barrier.cluster.arrive`: twice without a wait between is an error."""
        e = self.e
        lanes = e.executing()
        again = lanes & self.words.load(self.at + _ARRIVED)
        self._refuse(again, Fault.ARRIVES)
        if decode(ins).order != "relaxed":
            e.watch.cluster_arrive(lanes)
        fn = e.b.helper("cluster_arrive", [_P, _P, _P, _I32], None, _arrive)
        fn(e.worker, e.slot, e.b.at(e.frame, self.at), lanes)

    def wait(self, ins: Instruction) -> None:
        """`barrier.cluster.wait`: the lanes wait at the end of the block of code."""
        e = self.e
        lanes = e.executing()
        arrived = self.words.load(self.at + _ARRIVED)
        self._refuse(lanes & ~arrived, Fault.WAITS)
        self.words.store(self.at + _ARRIVED, arrived & ~lanes)
        odd = (self.words.load(self.at + _PARITY) & lanes).ne(0)
        assert is_cluster_barrier(ins)
        self.barriers.hold(lanes, odd.zext("i32"))

    def _refuse(self, lanes: Val, fault: int) -> None:
        e, b = self.e, self.e.b
        with b.when(lanes.ne(0), rare=True):
            e.fault(fault, b.intrinsic("cttz", [lanes], extra="false"))
        e.forget_mask()

    def leave(self, lanes: Val) -> None:
        """Lanes exit: the barrier waits for them no longer."""
        e = self.e
        fn = e.b.helper("cluster_leave", [_P, _P, _P, _I32], None, _leave)
        fn(e.worker, e.slot, e.b.at(e.frame, self.at), lanes)

    # ---- addresses --------------------------------------------------------------------------
    def map_address(self, ins: Instruction, ptx_type: str, *, near: bool) -> None:
        """`mapa`: the same place in the shared memory of the block of a rank."""
        e, b = self.e, self.e.b
        dest, source, which = ins.operands
        address, rank = e.read(source, ptx_type), e.read(which, "u32")
        rank = b.resize(rank, address.element) << CLUSTER_SHIFT
        if near:
            e.write(dest, (address & _OFFSET) | rank)
            return
        first = cluster_start(e)
        e.write(dest, (((address - first) & _OFFSET) | rank) + first)

    def rank_of(self, ins: Instruction, ptx_type: str, *, near: bool) -> None:
        """`getctarank`: the rank of the block in whose shared memory an address is."""
        e = self.e
        dest, source = ins.operands
        address = e.read(source, ptx_type)
        offset = address if near else address - cluster_start(e)
        e.write(dest, e.b.resize(offset >> CLUSTER_SHIFT, "i32"))


def cluster_start(e: Located) -> Val:
    """The host address of the shared memory of rank 0."""
    start = e.b.val("i64", 0, f"ptrtoint {e.shared.typed} to i64")
    return start - e.rank_base.zext("i64")


def cluster_bytes(e: Located) -> Val:
    """The size of the window in which the shared memory of all blocks of the cluster is."""
    return cluster_size(e.b, e.context).zext("i64") << CLUSTER_SHIFT


def _arrive(b: Builder, args: list[Val]) -> None:
    """(worker, slot, words of the frame, lanes)."""
    worker, slot, words, lanes = args
    group = b.load("ptr", 0, b.at(slot, SlotFields.GROUP))
    arrived, parity = b.at(words, _ARRIVED), b.at(words, _PARITY)
    b.store(b.load("i32", 0, arrived) | lanes, arrived)
    odd = (b.load("i32", 0, b.at(group, SlotFields.PHASE)) & 1).ne(0)
    before = b.load("i32", 0, parity)
    b.store(b.select(odd, before | lanes, before & ~lanes), parity)
    _take_off(b, group, SlotFields.MISSING, lanes)
    b.store(b.integer("i64", 1), b.at(worker, WorkerFields.CHANGED))


def _leave(b: Builder, args: list[Val]) -> None:
    """(worker, slot, words of the frame, lanes)."""
    worker, slot, words, lanes = args
    group = b.load("ptr", 0, b.at(slot, SlotFields.GROUP))
    odd = (b.load("i32", 0, b.at(group, SlotFields.PHASE)) & 1).ne(0)
    parity = b.load("i32", 0, b.at(words, _PARITY))
    now = b.load("i32", 0, b.at(words, _ARRIVED)) & b.select(odd, parity, ~parity)
    _take_off(b, group, SlotFields.MISSING, lanes & ~now)
    _take_off(b, group, SlotFields.LIVE, lanes)
    b.store(b.integer("i64", 1), b.at(worker, WorkerFields.CHANGED))


def _take_off(b: Builder, group: Val, at: int, lanes: Val) -> None:
    place = b.at(group, at)
    b.store(b.load("i32", 0, place) - b.intrinsic("ctpop", [lanes]), place)
