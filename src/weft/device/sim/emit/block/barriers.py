"""Block barriers: lanes arrive, the warp waits, and goes on when the barrier has completed.

For each place where a warp may wait, its frame has a row: the lanes that wait there, the number of
their barrier, and its generation when they arrived. A barrier whose generation has changed since
has been completed.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.device.sim.analyse.waits import is_block_barrier, is_cluster_barrier
from weft.device.sim.emit.frame import FrameWords
from weft.device.sim.emit.lockstep import Lockstep
from weft.device.sim.emit.suspend import Suspending, Suspension
from weft.device.sim.layout import NOTHING_PENDING, FrameFields, SlotFields, WarpStatus
from weft.ir import Builder, Val
from weft.ptx.cfg import EXIT, BasicBlock
from weft.ptx.isa import decode
from weft.ptx.model import Instruction


class BlockBarriers:
    """The block barriers of a warp under emission."""

    def __init__(
        self,
        e: Suspending,
        words: FrameWords,
        suspension: Suspension,
        lockstep: Lockstep,
        waits_at: int,
    ) -> None:
        self.e, self.words, self.suspension, self.lockstep = e, words, suspension, lockstep
        self.waits_at = waits_at
        """The offset of the rows in the frame."""
        self.sites = lockstep.phases.sites
        """Block and instruction of each place where a warp may wait."""
        self.end = waits_at + 16 * len(self.sites)

    def leave(self, block: BasicBlock) -> None:
        """The end of a block of code at a barrier: the lanes that have arrived wait."""
        e, b = self.e, self.e.b
        site = self._site(block)
        e.ins = block.code[-1]
        target = block.successors[0]
        if not e.program.partial[block.index]:
            names = self.suspension.survivors(block, target)
            if self.lockstep.used:
                self.suspension.suspend(names, WarpStatus.WAITING, place=site + 1)
                with b.when(self.lockstep.is_apart()):
                    self._check_release(site)
            else:
                self.suspension.suspend(names, WarpStatus.WAITING)
                self._check_release(site)
            self._after_barrier(block, site)
            b.jump("end" if target == EXIT else f"B{target}")
            return
        b.jump("dispatch")

    def arrive(self, ins: Instruction, number: Val, count: Val | None, value: Val | None) -> None:
        """Called by the barrier rows: notes the arrival of the lanes that execute it."""
        e, b = self.e, self.e.b
        lanes = e.executing()
        e.watch.barrier(number, count, lanes)
        if self.lockstep.used and not e.program.partial[e.block.index]:
            with b.when(self.lockstep.is_apart()):  # else `lockstep` notes what has to be noted
                self._arrive(ins, number, count, value, lanes)
        else:
            self._arrive(ins, number, count, value, lanes)

    def _arrive(
        self, ins: Instruction, number: Val, count: Val | None, value: Val | None, lanes: Val
    ) -> None:
        e, b = self.e, self.e.b
        fn = b.helper(
            "barrier_arrive",
            [("ptr", 0), ("i32", 0), ("i32", 0), ("i32", 0), ("i32", 0), ("i32", 0)],
            ("i32", 0),
            _barrier_arrive,
        )
        live = self.words.load(FrameFields.LIVE)
        # An expected count is a multiple of the warp size. A warp of which all live lanes arrive
        # counts as 32, although its last lanes may be missing or have exited.
        whole = b.select(lanes.eq(live), b.integer("i32", 32), b.intrinsic("ctpop", [lanes]))
        passed = b.integer("i32", 0) if value is None else lanes & value
        generation = fn(
            e.slot, number, b.integer("i32", 0) if count is None else count, lanes, whole, passed
        )
        if is_block_barrier(ins):
            self._hold(lanes, number, generation)

    def hold(self, lanes: Val, parity: Val) -> None:
        """Note that lanes wait at the barrier of the cluster, for the phase of this parity."""
        self._hold(lanes, self.e.b.integer("i32", 0), parity)

    def _hold(self, lanes: Val, number: Val, generation: Val) -> None:
        at = self._row(self.e.block)
        self.words.store(at, self.words.load(at) | lanes)
        self.words.store(at + 4, number & 15)
        self.words.store(at + 8, generation)

    def _row(self, block: BasicBlock) -> int:
        """The row of the place where a warp waits at the end of a block of code."""
        return self.waits_at + 16 * self._site(block)

    def _site(self, block: BasicBlock) -> int:
        return next(i for i, (x, _) in enumerate(self.sites) if x == block.index)

    def is_released(self, block: BasicBlock) -> Val:
        """True at run time if the barrier at the end of a block of code has been completed."""
        return self._released(self._site(block))

    def let_go(self, block: BasicBlock, lanes: Val) -> None:
        """Note that lanes wait no longer."""
        self.e.watch.cluster_passed()
        at = self._row(block)
        self.words.store(at, self.words.load(at) & ~lanes)

    def _released(self, site: int) -> Val:
        """True at run time if the barrier that this site waits at has been completed."""
        e, b = self.e, self.e.b
        at = self.waits_at + 16 * site
        if is_cluster_barrier(self.sites[site][1]):
            return cluster_completed(e, self.words.load(at + 8))
        number = self.words.load(at + 4)
        row = b.at(e.slot, (number * SlotFields.BARRIER_BYTES + SlotFields.BARRIERS).zext("i64"))
        now = b.load("i32", 0, b.at(row, SlotFields.GENERATION))
        return now.ne(self.words.load(at + 8))

    def _check_release(self, site: int) -> None:
        e, b = self.e, self.e.b
        self.words.store(FrameFields.SEEN, b.load("i32", 0, b.at(e.slot, SlotFields.RELEASES)))
        with b.when(self._released(site) ^ 1):
            b.ret(b.integer("i32", WarpStatus.WAITING))
        self.words.store(self.waits_at + 16 * site, b.integer("i32", 0))

    def _after_barrier(self, block: BasicBlock, site: int) -> None:
        """Write the result of `bar.red`."""
        e, b = self.e, self.e.b
        ins = block.code[-1]
        if is_cluster_barrier(ins):
            e.watch.cluster_passed()
            return
        reduction = decode(ins).words.get("kind")
        if not reduction:
            return
        at = self.waits_at + 16 * site
        number, gen = self.words.load(at + 4), self.words.load(at + 8)
        row = b.at(e.slot, (number * SlotFields.BARRIER_BYTES + SlotFields.BARRIERS).zext("i64"))
        pair = b.at(row, ((gen & 1) * 8 + SlotFields.RESULT).zext("i64"))
        passed, total = b.load("i32", 0, pair), b.load("i32", 0, b.at(pair, 4))
        if reduction == "popc":
            e.write(ins.operands[0], passed)
        else:
            e.write(ins.operands[0], passed.eq(total) if reduction == "and" else passed.ne(0))

    def survivors(self) -> set[str]:
        """Registers of lanes that wait at a barrier while others of their warp run."""
        blocks, survivors = self.e.program.graph.blocks, self.suspension.survivors
        names: set[str] = set()
        for index, _ in self.sites:
            names |= survivors(blocks[index], blocks[index].successors[0])
        return names

    def suspend_all(self, send: Callable[[Val, int], None]) -> None:
        """Suspend a warp of which all remaining lanes wait at barriers, some in divergent code.

        `send(lanes, block)` emits code for lanes whose barrier has completed.
        """
        e, b = self.e, self.e.b
        graph = e.program.graph
        names = self.survivors()
        self.suspension.suspend(names, WarpStatus.WAITING, self._waiting_site())
        self.words.store(FrameFields.SEEN, b.load("i32", 0, b.at(e.slot, SlotFields.RELEASES)))
        for site, (index, _) in enumerate(self.sites):
            block = graph.blocks[index]
            # There the whole warp arrives together, and `leave` waits.
            if not e.program.partial[index]:
                continue
            at = self.waits_at + 16 * site
            lanes = self.words.load(at)
            held = lanes.ne(0) & self._released(site)
            with b.when(held):
                b.store(lanes, e.mask_slot)
                e.block, e.ins = block, block.code[-1]
                e.forget_mask()
                self._after_barrier(block, site)
                self.words.store(at, b.integer("i32", 0))
                send(lanes, block.successors[0])
        low = self.words.load(FrameFields.LOWEST)
        # Lanes may return right after their barrier, so that none is left.
        gone = self.words.load(FrameFields.LIVE).eq(0)
        b.jump_if(low.ne(NOTHING_PENDING) | gone, "dispatch")
        self.words.store(FrameFields.SITE, self._waiting_site())
        b.ret(b.integer("i32", WarpStatus.WAITING))

    def _waiting_site(self) -> Val:
        """A barrier that lanes of this warp wait at."""
        b = self.e.b
        site = b.integer("i32", 0)
        for i, (_, ins) in enumerate(self.sites):
            lanes = self.words.load(self.waits_at + 16 * i)
            site = b.select(lanes.ne(0), b.integer("i32", ins.index), site)
        return site


def cluster_completed(e: Suspending, parity: Val) -> Val:
    """True at run time if the phase of this parity has completed: the present one has the other."""
    b = e.b
    group = b.load("ptr", 0, b.at(e.slot, SlotFields.GROUP))
    return ((b.load("i32", 0, b.at(group, SlotFields.PHASE)) ^ parity) & 1).ne(0)


def _barrier_arrive(x: Builder, args: list[Val]) -> Val:
    """(slot, number, count or 0, lanes, weight, lanes whose predicate holds) -> generation."""
    slot, number, count, lanes, weight, passed = args
    row = x.at(slot, ((number & 15) * SlotFields.BARRIER_BYTES + SlotFields.BARRIERS).zext("i64"))

    def bump(at: int, by: Val) -> None:
        p = x.at(row, at)
        x.store(x.load("i32", 0, p) + by, p)

    bump(SlotFields.ARRIVED, x.intrinsic("ctpop", [lanes]))
    bump(SlotFields.WEIGHT, weight)
    bump(SlotFields.POPC, x.intrinsic("ctpop", [passed]))
    x.store(count, x.at(row, SlotFields.EXPECTED))
    ids = x.at(slot, SlotFields.ARRIVED_IDS)
    x.store(x.load("i32", 0, ids) | (x.integer("i32", 1) << (number & 15)), ids)
    return x.load("i32", 0, x.at(row, SlotFields.GENERATION))
