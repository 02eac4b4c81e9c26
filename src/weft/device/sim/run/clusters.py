"""Errors of kernels that name other blocks of their cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from weft.device.sim.layout import CLUSTER_SHIFT, Fault, SlotFields, WorkerFields
from weft.errors import DeviceError, IllegalAddress

if TYPE_CHECKING:
    from weft.device.base import Dim3
    from weft.device.sim.run.arena import Arena

FAULTS = (Fault.EXITED, Fault.ARRIVES, Fault.WAITS, Fault.RANKS)
_MISUSES = {
    Fault.ARRIVES: (
        "arrives twice at the barrier of its cluster without waiting",
        "one barrier.cluster.arrive before each barrier.cluster.wait",
        "wait for the phase before the next arrival",
    ),
    Fault.WAITS: (
        "waits at the barrier of its cluster without having arrived",
        "one barrier.cluster.arrive before each barrier.cluster.wait",
        "let each thread that waits arrive first",
    ),
    Fault.RANKS: (
        "sends a multicast copy to blocks beyond its cluster",
        "a bit for each rank of the cluster",
        "compute the mask from %cluster_nctarank",
    ),
}
"""Fault -> (what is wrong, what is allowed, what to do)."""


class Failure(Protocol):
    """A launch that failed."""

    arena: Arena
    name: str

    @property
    def blocks(self) -> int: ...
    def block(self, worker: int, slot: int) -> Dim3: ...
    def thread(self, warp: int, lane: int) -> Dim3: ...


def explain(story: Failure, code: int, line: str, worker: int) -> DeviceError:
    """The exception for a fault of a cluster at a line of the source."""
    w = story.arena.workers[worker]
    slot = w[WorkerFields.ERROR_SLOT]
    thread = story.thread(w[WorkerFields.ERROR_WARP], w[WorkerFields.ERROR_LANE])
    got = f"block {story.block(worker, slot)}, thread {thread}"
    if code != Fault.EXITED:
        what, allowed, advice = _MISUSES[code]
        return DeviceError(
            f"{story.name} {what}", where=line, got=got, allowed=allowed, next=advice
        )
    rank = _rank(story, worker, w[WorkerFields.ERROR_ADDRESS])
    first = slot - slot % story.blocks
    peer = f"block {story.block(worker, first + rank)}, rank {rank} of the cluster"
    return IllegalAddress(
        f"{story.name} accesses shared memory of a block that has exited",
        where=line,
        got=f"{got}, in shared memory of {peer}",
        allowed="shared memory of blocks that still run",
        next="end the kernel with a barrier of the cluster: cluster.sync()",
    )


def place(story: Failure, worker: int, address: int) -> str:
    """The allowed addresses, and what is wrong with this one."""
    rank, count = _rank(story, worker, address), story.blocks
    size = story.arena.shared_bytes
    if rank >= count:
        return f"ranks 0 to {count - 1} of the cluster; the address is of rank {rank}"
    offset = _offset(story, worker, address) % (1 << CLUSTER_SHIFT)
    return f"{size} bytes in each block; the access is at byte {offset} of rank {rank}"


def _offset(story: Failure, worker: int, address: int) -> int:
    """The address in the window of the cluster."""
    arena = story.arena
    slot = arena.slot(worker, arena.workers[worker][WorkerFields.ERROR_SLOT])
    own = int(slot.view("int64")[SlotFields.SHARED // 8])
    rank = int(slot[SlotFields.RANK // 4])
    return (address - own + (rank << CLUSTER_SHIFT)) % (1 << 32)


def _rank(story: Failure, worker: int, address: int) -> int:
    return _offset(story, worker, address) >> CLUSTER_SHIFT
