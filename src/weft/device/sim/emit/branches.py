"""Branches of a warp under emission: where lanes go at the end of a block, and which wait."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from weft.device.sim.analyse.idle_warps import Idle
from weft.device.sim.analyse.phases import ENDED
from weft.device.sim.analyse.waits import is_block_barrier, is_cluster_barrier, spin_heads
from weft.device.sim.emit.block.barriers import BlockBarriers
from weft.device.sim.emit.branch_predicates import Predicates
from weft.device.sim.emit.frame import FrameWords
from weft.device.sim.emit.hammock_branches import HammockBranches
from weft.device.sim.emit.lockstep import Lockstep
from weft.device.sim.emit.pending_lanes import PendingQueue
from weft.device.sim.emit.suspend import Suspending, Suspension, Undisturbed
from weft.device.sim.layout import ContextFields, FrameFields, SlotFields
from weft.device.sim.memory.accessing import Delays
from weft.device.sim.memory.timing import Timing
from weft.ir import Val
from weft.ptx.cfg import EXIT, BasicBlock
from weft.ptx.isa import control_of
from weft.ptx.isa.columns import Control
from weft.ptx.model import Instruction


class Branching(Suspending, Protocol):
    """The emitter's interface for branches."""

    predicates: Predicates
    observed: bool
    timing: Timing
    delays: Delays | None

    def guard_bits(self) -> Val:
        """The lanes whose guard holds, as bits."""

    def guard(self) -> Val:
        """The guard predicate of the instruction, negation resolved."""


class Branches:
    """Branches, and the lanes that they send elsewhere."""

    def __init__(self, e: Branching) -> None:
        self.e = e
        self.words = FrameWords(e)
        self.pending = PendingQueue(e, self.words)
        self.hammocks = HammockBranches(e)
        self.lockstep = Lockstep(e)
        self.suspension = Suspension(e, self.words, self.pending, self.lockstep)
        self.preemption = self._preemption()
        self.waits_at = self.pending.end
        self.block_barriers = BlockBarriers(
            e, self.words, self.suspension, self.lockstep, self.waits_at
        )
        self.barriers = self.block_barriers.sites
        self.spin_heads = spin_heads(e.program.graph)
        self.idle: dict[tuple[int, int], Idle] = {}
        self._queued: set[int] = set()
        self._finishes: list[Callable[[], None]] = []
        self._leaves: list[Callable[[Val], None]] = []

    def _preemption(self) -> Undisturbed:
        """The switches to other threads, in code that is compiled for schedules."""
        if not self.e.program.scheduled:
            return Undisturbed()
        from weft.device.sim.emit.switching.preemption import Preemption

        return Preemption(self.e, self.pending, self.suspension)

    # ---- leaving a block --------------------------------------------------------------------
    def leave(self, block: BasicBlock) -> None:
        """The end of a block: a barrier, a branch, or the next block."""
        if block.code and is_block_barrier(block.code[-1]):
            self._stop_at_barrier(block.index)
            if is_cluster_barrier(block.code[-1]):
                self._pass_completed(block)
            self.block_barriers.leave(block)
            return
        last = block.last
        table = last is not None and control_of(last.parts) is Control.TABLE
        if last is None or (last.guard is None and not table):
            self.edge(block, block.successors[0])
        elif table:
            self._many(block, last)
        elif block.successors[0] == block.successors[1]:
            self.edge(block, block.successors[0])
        elif block.index in self.e.program.divergent:
            self._split(block)
        else:
            taken, fallen = block.successors
            self.e.b.either(
                self.e.guard(), lambda: self.edge(block, taken), lambda: self.edge(block, fallen)
            )

    def _pass_completed(self, block: BasicBlock) -> None:
        """Continue without waiting if the barrier of the cluster has completed since the arrival.

        A later release wakes a warp that waits; the one that has been is not repeated.
        """
        with self.e.b.when(self.block_barriers.is_released(block)):
            self.block_barriers.let_go(block, self.e.mask())
            self.edge(block, block.successors[0])
        self.e.forget_mask()

    def edge(self, block: BasicBlock, target: int) -> None:
        """Continue at `target` with the running lanes, unless lanes before it are pending."""
        e, b = self.e, self.e.b
        hammock = e.program.hammocks.around.get(block.index)
        if hammock is not None and target == hammock.join:
            self.hammocks.rejoin(hammock, block.index)
            self.edge(e.program.graph.blocks[hammock.source], target)
            return
        if target == EXIT:
            b.jump("exit" if e.program.partial[block.index] else "end")
            return
        if target <= block.index:
            self._turn(block, target)
        # Where all live lanes are here, none is pending. No lane waits inside of a hammock.
        inside = target in e.program.hammocks.around
        if inside or not e.program.partial[block.index]:
            b.jump(f"B{target}")
            return
        self._queued.add(target)
        due = self.preemption.may_go_on(self.pending.none_before(target), block, target)
        b.branch(due, f"B{target}", f"queue{target}")

    def _turn(self, block: BasicBlock, target: int) -> None:
        """A backward branch: ends the launch on request; a loop that may be waiting yields."""
        self.stop_if_asked()
        if target in self.spin_heads:
            self.suspension.turn(block, target)

    def stop_if_asked(self) -> None:
        """Every backward branch tests whether the launch must end, so that no loop runs forever."""
        e, b = self.e, self.e.b
        # Volatile: another thread sets it, and LLVM would hoist the load out of the loop.
        stop = b.val("i32", 0, f"load volatile i32, {b.at(e.context, ContextFields.STOP).typed}")
        b.jump_if(stop.ne(0), "abort", rare=True)

    def _stop_at_barrier(self, index: int) -> None:
        """The only way back of a loop may be at a barrier, and that loop must be stoppable too."""
        if self.e.program.graph.blocks[index].successors[0] <= index:
            self.stop_if_asked()

    def _split(self, block: BasicBlock) -> None:
        """A conditional branch on which lanes may disagree."""
        e, b = self.e, self.e.b
        taken, fallen = block.successors
        # two tests may find that all lanes agree, and both lead to the same code: labels by hand
        all_yes, all_no = b.label("all"), b.label("none")
        hammock = e.program.hammocks.by_source.get(block.index)
        mask = e.mask()
        if hammock is not None:
            self.hammocks.begin(hammock, mask)
        settled = e.predicates.deferred.get(e.ins.guard or "")
        if settled is not None:
            with b.when(settled.agreed):
                b.branch(
                    settled.value ^ 1 if e.ins.guard_negated else settled.value, all_yes, all_no
                )
        yes = e.guard_bits() & mask
        no = mask & ~yes
        b.jump_if(no.eq(0), all_yes)
        b.jump_if(yes.eq(0), all_no)
        e.watch.diverge(block)
        if hammock is not None:
            self.hammocks.split(hammock, {taken: yes, fallen: no})
        else:
            # The lower block runs first, so that lanes reconverge where the paths join. Lanes that
            # return have nothing left to run.
            (first, go), (later, hold) = sorted(
                [(taken, yes), (fallen, no)], key=lambda x: x[0] if x[0] != EXIT else 1 << 30
            )
            if self.preemption.swaps(first, later):
                with b.when(self.preemption.swap()):
                    self.send(go, first)
                    b.store(hold, e.mask_slot)
                    if later <= block.index:
                        self._turn(block, later)
                    b.jump(f"B{later}")
            self.send(hold, later)
            b.store(go, e.mask_slot)
            self.edge(block, first)
        for label, target in ((all_yes, taken), (all_no, fallen)):
            b.place(label)
            self._skip_idle(block, target)
            self.edge(block, target)

    def _skip_idle(self, block: BasicBlock, target: int) -> None:
        """Go to the next barrier if this warp and all later ones are idle up to it."""
        b, idle = self.e.b, self.idle.get((block.index, target))
        if idle is None or not self.lockstep.skips or (idle.end == ENDED and self._finishes):
            return
        with b.when(self.lockstep.on.ne(0)):
            agreed = b.integer("i1", 1)
            for test in idle.tests:
                found = self.suspension.recomputed.compare(test.ins)
                agreed = agreed & found.agreed & (found.value if test.value else found.value ^ 1)
            with b.when(agreed):
                if idle.end == ENDED:
                    self.lockstep.all_end()
                else:
                    self._stop_at_barrier(self.barriers[idle.end - 1][0])
                    self.lockstep.pass_barrier(idle.end)

    def _many(self, block: BasicBlock, last: Instruction) -> None:
        """`brx.idx`: each lane picks its target from a table."""
        e, b = self.e, self.e.b
        table = e.program.branch_table(last)
        if block.index not in e.program.divergent:
            self._pick(block, last, table)
            return
        if min(table) <= block.index:
            self.stop_if_asked()
        index = e.read(last.operands[0], "u32")
        left = e.mask()
        if last.guard is not None:
            skip = left & ~e.bits_of(e.guard())
            following = block.successors[-1]
            with b.when(skip.ne(0)):
                self.send(skip, following)
            left = left & ~skip
        lanes = e.b.splat(index, 32)
        hits = []
        for i, target in enumerate(table):
            # PTX leaves an index beyond the table undefined; here it takes the last target.
            hit = e.bits_of(lanes.eq(i) if i + 1 < len(table) else lanes.uge(i)) & left
            hits.append((target, hit))
            with b.when(hit.ne(0)):
                self.send(hit, target)
        if e.observed:
            self._note_targets(block, hits)
        b.jump("dispatch")

    def _note_targets(self, block: BasicBlock, hits: list[tuple[int, Val]]) -> None:
        """Notify the observer when lanes have gone to more than one target."""
        e, b = self.e, self.e.b
        targets = b.integer("i32", 0)
        for target in sorted({t for t, _ in hits}):
            lanes = b.integer("i32", 0)
            for _, hit in (x for x in hits if x[0] == target):
                lanes = lanes | hit
            targets = targets + lanes.ne(0).zext("i32")
        with b.when(targets.ugt(1)):
            e.watch.diverge(block)

    def _pick(self, block: BasicBlock, last: Instruction, table: list[int]) -> None:
        """`brx.idx` on which all lanes agree, or that leads to one place."""
        e, b = self.e, self.e.b
        if len(set(block.successors)) == 1:
            self.edge(block, block.successors[0])
            return
        if last.guard is not None:
            with b.when(e.guard() ^ 1):
                self.edge(block, block.successors[-1])
        index = e.read(last.operands[0], "u32")
        *arms, beyond = [partial(self.edge, block, target) for target in table]
        b.switch(index, dict(enumerate(arms)), beyond)

    # ---- lanes that do not run now -----------------------------------------------------------
    def send(self, lanes: Val, target: int) -> None:
        """Send lanes that do not run now: they continue at `target` later, or have returned."""
        if target == EXIT:
            self._retire(lanes)
        else:
            self.pending.add(target, lanes)

    def _retire(self, lanes: Val) -> None:
        """Mark these lanes as returned."""
        e, b = self.e, self.e.b
        e.watch.leave(lanes)
        for hook in self._leaves:
            hook(lanes)
        self.words.store(FrameFields.LIVE, self.words.load(FrameFields.LIVE) & ~lanes)
        if self.barriers:
            # Barriers expect only threads that have not exited.
            at = b.at(e.slot, SlotFields.LIVE_THREADS)
            b.store(b.load("i32", 0, at) - b.intrinsic("ctpop", [lanes]), at)

    def when_leaving(self, hook: Callable[[Val], None]) -> None:
        """Have `hook` emit code for lanes that exit before their warp ends."""
        self._leaves.append(hook)
