"""`run` for kernels that name other blocks of their cluster: a worker takes whole clusters.

The blocks of a cluster have consecutive slots, a group, and start together. The worker goes around
the group, and runs each block until it ends, waits or yields. A block that has exited keeps its
slot until its whole cluster has: its shared memory is there, but may not be accessed any more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from weft.device.sim.emit.stall import note_change
from weft.device.sim.layout import BUSY, EXITED, FREE, ContextFields, Run, SlotFields, WorkerFields
from weft.device.sim.memory.checks import cluster_size
from weft.device.sim.observe import Watcher
from weft.ir import Builder, IrFunction, IrModule, Val

LAPS = 4
"""Rounds of a group in which nothing ends, before another cluster is tried."""
_AXES = (
    (ContextFields.GRID_X, ContextFields.CLUSTER_X, SlotFields.BLOCK_X),
    (ContextFields.GRID_Y, ContextFields.CLUSTER_Y, SlotFields.BLOCK_Y),
    (ContextFields.GRID_Z, ContextFields.CLUSTER_Z, SlotFields.BLOCK_Z),
)
Occupy = Callable[[Builder, Val, Val], None]
"""(builder, context, slot): emits the initial state of a block in a slot."""


def emit_start(
    module: IrModule, threads: int, slot_bytes: int, occupy: Occupy, watch: Watcher
) -> None:
    """start(context, worker, first slot): starts the next cluster; returns 0 if there is none."""
    fn = IrFunction("start", [], "i32", "#0")
    b = Builder(module, fn)
    fn.params = [Val(b, "ptr", 0, f"%{x}") for x in "CKS"]
    context, worker, first = fn.params
    size = cluster_size(b, context)
    shared = b.at(context, ContextFields.NEXT)
    total = b.load("i64", 0, b.at(context, ContextFields.TOTAL))
    with b.when(b.load("i64", 0, shared).uge(total)):  # else the counter would keep growing
        b.ret(b.integer("i32", 0))
    many = size.zext("i64")
    taken = b.val("i64", 0, f"atomicrmw add {shared.typed}, {many.typed} monotonic")
    with b.when(taken.uge(total)):
        b.ret(b.integer("i32", 0))
    all_threads = size * threads
    fields = (
        (SlotFields.MISSING, all_threads),
        (SlotFields.LIVE, all_threads),
        (SlotFields.EXITED, b.integer("i32", 0)),
        (SlotFields.PHASE, b.integer("i32", 0)),
    )
    for at, value in fields:
        b.store(value, b.at(first, at))
    sides = [b.load("i32", 0, b.at(context, at)) for _, at, _ in _AXES]
    grid = [b.load("i32", 0, b.at(context, at)) for at, _, _ in _AXES]
    counts = [b.binary("udiv", g, s) for g, s in zip(grid, sides, strict=True)]
    cluster = _coordinates(b, b.binary("udiv", taken, many).trunc("i32"), counts)
    with b.loop(size) as rank:
        slot = b.at(first, rank.zext("i64") * slot_bytes)
        place = _coordinates(b, rank, sides)
        for (_, _, at), c, side, own in zip(_AXES, cluster, sides, place, strict=True):
            b.store(c * side + own, b.at(slot, at))
        b.store(rank, b.at(slot, SlotFields.RANK))
        b.store(b.val("i64", 0, f"ptrtoint {first.typed} to i64"), b.at(slot, SlotFields.GROUP))
        b.store(b.integer("i32", 0), b.at(slot, SlotFields.HELD))
        occupy(b, context, slot)
        watch.started(b, context, worker, slot)
    b.ret(b.integer("i32", 1))
    module.functions["start"] = fn.text()


def _coordinates(b: Builder, number: Val, counts: list[Val]) -> tuple[Val, Val, Val]:
    """A number as x, y and z, of which x counts fastest."""
    rows = b.binary("udiv", number, counts[0])
    depth = b.binary("udiv", rows, counts[1])
    return number - rows * counts[0], rows - depth * counts[1], depth


def emit_release(module: IrModule, slot_bytes: int, watch: Watcher) -> None:
    """cluster_release(context, worker, slot): completes the barrier of the cluster, if all have
    arrived; called after each round of a block.
    """
    fn = IrFunction("cluster_release", [], "void", "#0")
    b = Builder(module, fn)
    fn.params = [Val(b, "ptr", 0, f"%{x}") for x in "CKS"]
    context, worker, slot = fn.params
    group = b.load("ptr", 0, b.at(slot, SlotFields.GROUP))
    live = b.load("i32", 0, b.at(group, SlotFields.LIVE))
    missing = b.at(group, SlotFields.MISSING)
    with b.when(b.load("i32", 0, missing).eq(0) & live.ne(0)):
        b.store(live, missing)
        phase = b.at(group, SlotFields.PHASE)
        b.store(b.load("i32", 0, phase) + 1, phase)
        b.store(b.integer("i64", 1), b.at(worker, WorkerFields.CHANGED))
        with b.loop(cluster_size(b, context)) as i:
            peer = b.at(group, i.zext("i64") * slot_bytes)
            # Warps that wait at a barrier are called again after a release.
            releases = b.at(peer, SlotFields.RELEASES)
            b.store(b.load("i32", 0, releases) + 1, releases)
            b.store(b.integer("i32", 0), b.at(peer, SlotFields.HELD))
            watch.cluster_released(b, peer)
    b.ret()
    module.functions["cluster_release"] = fn.text()


class ClusterLoop:
    """The body of `run` for clusters: the worker's slots in turn, until no cluster is left."""

    def __init__(
        self, b: Builder, context: Val, worker: Val, watch: Watcher, compares: bool
    ) -> None:
        self.b, self.context, self.worker = b, context, worker
        self.watch, self.compares = watch, compares
        self.zero, self.one = b.integer("i32", 0), b.integer("i32", 1)
        self.current = b.at(worker, WorkerFields.CURRENT)
        self.idle = b.at(worker, WorkerFields.IDLE)
        self.laps = b.at(worker, WorkerFields.LAPS)

    def emit(self, slot_bytes: int, ends: dict[int, str], leave: Callable[[], None]) -> None:
        """Emit the loop.

        ends   result of a round -> what it means: "done", "stuck", "yielded"; others are faults
        leave  emits the tests after which the worker returns
        """
        b, worker = self.b, self.worker
        self.slot_bytes, self.size = slot_bytes, cluster_size(b, self.context)
        with b.forever() as again:
            leave()
            slots = b.load("ptr", 0, b.at(worker, WorkerFields.SLOTS))
            index = b.load("i32", 0, self.current)
            slot = b.at(slots, index.zext("i64") * slot_bytes)
            rank = b.binary("urem", index, self.size)
            first = b.at(slots, (index - rank).zext("i64") * slot_bytes)
            state = b.load("i32", 0, b.at(slot, SlotFields.STATE))
            with b.when(state.eq(FREE)):
                started = b.val("i32", 0, self._call("i32", "start", first)).ne(0)
                with b.when(started):
                    b.store(index - rank, self.current)
                    b.store(self.zero, self.laps)
                    b.jump(again)
            b.either(state.eq(BUSY), partial(self._run, slot, first, again, ends), self._skip)
            self._advance(rank)
        b.place("finished")
        b.ret(b.integer("i32", Run.FINISHED))

    def _call(self, kind: str, name: str, slot: Val) -> str:
        args = ", ".join(v.typed for v in (self.context, self.worker, slot))
        return f"call {kind} @{name}({args})"

    def _skip(self) -> None:
        self.b.store(self.b.load("i32", 0, self.idle) + 1, self.idle)

    def _advance(self, rank: Val) -> None:
        """Go to the next slot; after the last of a group, to its first for some rounds."""
        b = self.b
        slots = b.load("i64", 0, b.at(self.worker, WorkerFields.SLOT_COUNT)).trunc("i32")
        groups = b.binary("udiv", slots + (self.size - 1), self.size)
        count = groups * self.size
        b.jump_if(b.load("i32", 0, self.idle).uge(count), "finished")
        following = b.load("i32", 0, self.current) + 1
        b.store(following, self.current)
        with b.when((rank + 1).eq(self.size)):
            laps = b.load("i32", 0, self.laps) + 1
            # A group in which nothing ran need not be tried again at once.
            idle = b.load("i32", 0, self.idle)
            again = laps.ult(LAPS) & idle.ult(self.size)
            b.store(b.select(again, laps, self.zero), self.laps)
            # Slots that are seen again count once: others may still have blocks that run.
            b.store(b.select(again, self.zero, idle), self.idle)
            wrapped = b.select(following.uge(count), self.zero, following)
            b.store(b.select(again, following - self.size, wrapped), self.current)

    def _run(self, slot: Val, first: Val, again: str, ends: dict[int, str]) -> None:
        b = self.b
        result = b.val("i32", 0, self._call("i32", "round", slot))
        meanings: dict[str, Callable[[], None]] = {
            "done": partial(self._finished, slot, first, again),
            "stuck": partial(self._stuck, slot, first),
            "yielded": partial(self._yielded, slot),
        }
        b.switch(result, {n: meanings[word] for n, word in ends.items()}, lambda: b.jump("failed"))

    def _finished(self, slot: Val, first: Val, again: str) -> None:
        """A block has ended; after the last of its cluster, the group is free."""
        b = self.b
        self.watch.finished(b, self.context, self.worker, slot)
        b.store(b.integer("i32", EXITED), b.at(slot, SlotFields.STATE))
        rank, at = b.load("i32", 0, b.at(slot, SlotFields.RANK)), b.at(first, SlotFields.EXITED)
        gone = b.load("i32", 0, at) | (self.one << rank)
        b.store(gone, at)
        note_change(b, self.worker)
        progress = b.at(self.worker, WorkerFields.PROGRESS)
        b.store(b.load("i64", 0, progress) + 1, progress)
        b.store(self.zero, self.idle)
        with b.when((gone + 1).eq(self.one << self.size)):
            with b.loop(self.size) as i:
                peer = b.at(first, i.zext("i64") * self.slot_bytes)
                b.store(b.integer("i32", FREE), b.at(peer, SlotFields.STATE))
            b.jump(again)

    def _yielded(self, slot: Val) -> None:
        b = self.b
        b.store(self.zero, b.at(slot, SlotFields.HELD))
        if self.compares:
            b.emit(self._call("void", "stall", slot))
        b.store(self.zero, self.idle)

    def _stuck(self, slot: Val, first: Val) -> None:
        """No warp of the block can run: it waits for its cluster, unless all blocks do."""
        b = self.b
        b.store(self.one, b.at(slot, SlotFields.HELD))
        free = b.alloca("i32")
        b.store(self.zero, free)
        with b.loop(self.size) as i:
            peer = b.at(first, i.zext("i64") * self.slot_bytes)
            busy = b.load("i32", 0, b.at(peer, SlotFields.STATE)).eq(BUSY)
            runs = busy & b.load("i32", 0, b.at(peer, SlotFields.HELD)).eq(0)
            b.store(b.load("i32", 0, free) | runs.zext("i32"), free)
        b.jump_if(b.load("i32", 0, free).eq(0), "deadlocked", rare=True)
        if self.compares:
            b.emit(self._call("void", "stall", slot))
        b.store(self.zero, self.idle)
