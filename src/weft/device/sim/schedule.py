"""Inside a warp: where branches lead, which lanes run next, and which have left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.device.sim.block_barriers import BlockBarriers
from weft.device.sim.layout import (
    FINISHED,
    NOTHING_PENDING,
    Context,
    Frame,
    Slot,
    Status,
    Worker,
)
from weft.device.sim.suspend import Suspension
from weft.device.sim.waits import is_block_barrier, spin_heads
from weft.ir import Val
from weft.ptx.cfg import EXIT, Block
from weft.ptx.model import Instruction

if TYPE_CHECKING:
    from weft.device.sim.emit import WarpEmitter


class Schedule:
    """Branches, pending lanes and exits of a warp under emission."""

    def __init__(self, e: WarpEmitter) -> None:
        self.e = e
        graph = e.program.graph
        self.points = sorted(
            {x for b in graph.blocks for x in e.program.waiting[b.index]}
            | {b.index for b in graph.blocks if e.program.partial[b.index]}
        )
        self.point = {x: i for i, x in enumerate(self.points)}
        self.words = (len(self.points) + 63) // 64
        self.words_at = Frame.HEADER
        self.masks_at = self.words_at + 8 * self.words
        self.spin_heads = spin_heads(graph)
        self.barriers = [
            (b.index, b.code[-1]) for b in graph.blocks if b.code and is_block_barrier(b.code[-1])
        ]
        self.arrives = any("arrive" in i.parts for b in graph.blocks for i in b.code)
        self.waits_at = self.masks_at + 4 * len(self.points)
        self.header = self.waits_at + 16 * len(self.barriers)
        self.header = (self.header + 63) // 64 * 64
        self.suspension = Suspension(e, self)
        self.block_barriers = BlockBarriers(e, self)

    # ---- start and end ----------------------------------------------------------------------
    def prologue(self) -> None:
        """Entry: a fresh warp starts at block 0, a suspended one where it stopped."""
        e, b = self.e, self.e.b
        self.suspension.prologue()
        self.entry_switch = len(b.fn.lines)
        b.emit("")  # the switch: its cases are known at the end
        b.place("start")
        n = e.program.threads
        if e.program.full_warps:
            first = b.integer("i32", -1)
        else:
            last = e.warp.eq(e.program.warps - 1)
            first = b.select(last, b.integer("i32", (1 << (n % 32)) - 1), b.integer("i32", -1))
        b.store(first, e.mask_slot)
        self.header_store(Frame.LIVE, first)
        if self.points:
            self.header_store(Frame.LOWEST, b.integer("i32", NOTHING_PENDING))
            for i in range(self.words):
                b.store(b.integer("i64", 0), b.at(e.frame, self.words_at + 8 * i))
        for i in range(len(self.barriers)):
            b.store(b.integer("i64", 0), b.at(e.frame, self.waits_at + 16 * i))  # nobody, barrier 0
        if self.points:
            for i in range(len(self.points)):
                b.store(b.integer("i32", 0), b.at(e.frame, self.masks_at + 4 * i))
        e.copies.start()
        b.jump("B0")

    def epilogue(self) -> None:
        """The shared ends: dispatch, exit, abort, and the way back into each suspension."""
        e, b = self.e, self.e.b
        self._emit_exit()
        if self.points:
            self._emit_dispatch()
        b.place("abort")
        b.store(e.warp.zext("i64"), b.at(e.worker, Worker.ERROR_WARP))
        b.emit(f"ret i32 {Status.FAULT}")
        resumes = enumerate(self.suspension.resumes, 1)
        cases = " ".join(f"i32 {i}, label %{label}" for i, label in resumes)
        state = b.name()
        lines = b.fn.lines
        lines[self.entry_switch] = (
            f"  {state} = load i32, ptr %F\n  switch i32 {state}, label %start [ {cases} ]"
        )
        e.registers.frame_bytes = max(e.registers.frame_bytes, 64)

    def reserve(self, nbytes: int) -> int:
        """Bytes of the frame for somebody's own use, 64-byte aligned; their offset."""
        at = self.header
        self.header += -(-nbytes // 64) * 64
        return at

    @property
    def frame_bytes(self) -> int:
        return (self.header + self.e.registers.frame_bytes + 63) // 64 * 64

    def header_store(self, at: int, v: Val) -> None:
        self.e.b.store(v, self.e.b.at(self.e.frame, at))

    def header_load(self, at: int) -> Val:
        return self.e.b.load("i32", 0, self.e.b.at(self.e.frame, at))

    # ---- leaving a block --------------------------------------------------------------------
    def leave(self, block: Block) -> None:
        """The end of a block: a barrier, a branch, or the next block."""
        if block.code and is_block_barrier(block.code[-1]):
            self.block_barriers.leave(block)
            return
        last = block.last
        if last is None or (last.guard is None and last.parts[0] != "brx"):
            self.edge(block, block.successors[0])
        elif last.parts[0] == "brx":
            self._many(block, last)
        elif block.successors[0] == block.successors[1]:
            self.edge(block, block.successors[0])
        elif block.index in self.e.program.divergent:
            self._split(block)
        else:
            yes, no = self.e.b.label("yes"), self.e.b.label("no")
            self.e.b.branch(self.e.guard(), yes, no)
            for label, target in zip((yes, no), block.successors, strict=True):
                self.e.b.place(label)
                self.edge(block, target)

    def edge(self, block: Block, target: int) -> None:
        """Go to `target` with the lanes in MASK, unless others are due first."""
        e, b = self.e, self.e.b
        if target == EXIT:
            b.jump("exit")
            return
        if target <= block.index:
            self._turn(block, target)
        if not e.program.partial[block.index]:
            b.jump(f"B{target}")
            return
        wait = b.label("wait")
        due = self.header_load(Frame.LOWEST).sgt(self.point.get(target, 0))
        b.branch(due, f"B{target}", wait)
        b.place(wait)
        self.pend(target, e.mask())
        b.jump("dispatch")

    def _turn(self, block: Block, target: int) -> None:
        """A loop goes round: stop when asked to; let others run when it may be waiting."""
        self._stop_if_asked()
        if target in self.spin_heads:
            self.suspension.turn(block, target)

    def _stop_if_asked(self) -> None:
        e, b = self.e, self.e.b
        stop = b.val("i32", 0, f"load volatile i32, {b.at(e.context, Context.STOP).tref}")
        go = b.label("go")
        b.branch(stop.ne(0), "abort", go, rare=True)
        b.place(go)

    def pend(self, target: int, lanes: Val) -> None:
        """Lanes will go on at `target` later."""
        e, b = self.e, self.e.b
        i = self.point[target]
        at = b.at(e.frame, self.masks_at + 4 * i)
        b.store(b.load("i32", 0, at) | lanes, at)
        word = b.at(e.frame, self.words_at + 8 * (i // 64))
        b.store(b.load("i64", 0, word) | (1 << (i % 64)), word)
        low = self.header_load(Frame.LOWEST)
        self.header_store(Frame.LOWEST, b.smin(low, i))

    def _split(self, block: Block) -> None:
        """A conditional branch on which lanes may disagree."""
        e, b = self.e, self.e.b
        taken, fallen = block.successors
        all_yes, some, all_no, both = (b.label(x) for x in ("all", "some", "none", "both"))
        quick = e.quick.found.get(e.ins.guard or "")
        if quick is not None:
            agreed, differ = b.label("agreed"), b.label("differ")
            value = quick.value ^ 1 if e.ins.guard_negated else quick.value
            b.branch(quick.known, agreed, differ)
            b.place(agreed)
            b.branch(value, all_yes, all_no)
            b.place(differ)
        mask = e.mask()
        yes = e.bits_of(e.guard()) & mask
        no = mask & ~yes
        b.branch(no.eq(0), all_yes, some)
        b.place(all_yes)
        self.edge(block, taken)
        b.place(some)
        b.branch(yes.eq(0), all_no, both)
        b.place(all_no)
        self.edge(block, fallen)
        b.place(both)
        (first, go), (later, hold) = sorted(
            [(taken, yes), (fallen, no)], key=lambda x: x[0] if x[0] != EXIT else 1 << 30
        )
        if later == EXIT:
            self.retire(hold)
        else:
            self.pend(later, hold)
        b.store(go, e.mask_slot)
        self.edge(block, first)

    def _many(self, block: Block, last: Instruction) -> None:
        """`brx.idx`: each lane picks its target from a table."""
        e, b = self.e, self.e.b
        table = e.program.branch_table(last)
        if block.index not in e.program.divergent:
            self._pick(block, last, table)
            return
        if min(table) <= block.index:
            self._stop_if_asked()
        index = e.read(last.operands[0], "u32")
        left = e.mask()
        if last.guard is not None:
            skip = left & ~e.bits_of(e.guard())
            following = block.successors[-1]
            with b.when(skip.ne(0)):
                self.retire(skip) if following == EXIT else self.pend(following, skip)
            left = left & ~skip
        lanes = e.b.splat(index, 32)
        for i, target in enumerate(table):
            hit = e.bits_of(lanes.eq(i) if i + 1 < len(table) else lanes.uge(i)) & left
            with b.when(hit.ne(0)):
                self.retire(hit) if target == EXIT else self.pend(target, hit)
        b.jump("dispatch")

    def _pick(self, block: Block, last: Instruction, table: list[int]) -> None:
        """`brx.idx` on which all lanes agree, or that leads to one place."""
        e, b = self.e, self.e.b
        if len(set(block.successors)) == 1:
            self.edge(block, block.successors[0])
            return
        if last.guard is not None:
            go, skip = b.label("go"), b.label("skip")
            b.branch(e.guard(), go, skip)
            b.place(skip)
            self.edge(block, block.successors[-1])
            b.place(go)
        index = e.read(last.operands[0], "u32")
        labels = [b.label("case") for _ in table]
        cases = " ".join(f"i32 {i}, label %{x}" for i, x in enumerate(labels))
        b.emit(f"switch i32 {index.ref}, label %{labels[-1]} [ {cases} ]")
        for label, target in zip(labels, table, strict=True):
            b.place(label)
            self.edge(block, target)

    # ---- pending lanes ----------------------------------------------------------------------
    def _emit_dispatch(self) -> None:
        """Runs the lowest pending block; with none, the warp waits or is done."""
        b = self.e.b
        b.place("dispatch")
        i = self.header_load(Frame.LOWEST)
        run, none = b.label("run"), b.label("none")
        b.branch(i.eq(NOTHING_PENDING), none, run)
        b.place(none)
        self._nobody_runs()
        b.place(run)
        self.take(i)

    def take(self, i: Val) -> None:
        """Makes pending point i the running one and jumps to its block."""
        e, b = self.e, self.e.b
        at = b.at(b.at(e.frame, self.masks_at), i.zext("i64") << 2)
        b.store(b.load("i32", 0, at), e.mask_slot)
        b.store(b.integer("i32", 0), at)
        word = b.at(b.at(e.frame, self.words_at), (i >> 6).zext("i64") << 3)
        bit = b.integer("i64", 1) << (i & 63).zext("i64")
        b.store(b.load("i64", 0, word) & ~bit, word)
        self._find_lowest()
        cases = " ".join(f"i32 {k}, label %B{x}" for k, x in enumerate(self.points))
        b.emit(f"switch i32 {i.ref}, label %B{self.points[0]} [ {cases} ]")

    def _find_lowest(self) -> None:
        b, e = self.e.b, self.e
        low = b.integer("i32", NOTHING_PENDING)
        for k in reversed(range(self.words)):
            word = b.load("i64", 0, b.at(e.frame, self.words_at + 8 * k))
            first = b.intrinsic("cttz", [word], extra="false").trunc("i32") + 64 * k
            low = b.select(word.ne(0), first, low)
        self.header_store(Frame.LOWEST, low)

    def _nobody_runs(self) -> None:
        """No lane can run: some wait at a barrier, or all have left."""
        b = self.e.b
        live = self.header_load(Frame.LIVE)
        done = b.label("done")
        waiting = b.label("waiting")
        b.branch(live.eq(0), done, waiting)
        b.place(waiting)
        if self.barriers:
            self.block_barriers.suspend_all()
        else:
            b.jump("abort")
        b.place(done)
        self._finish()

    # ---- leaving the kernel -----------------------------------------------------------------
    def retire(self, lanes: Val) -> None:
        """These lanes have returned."""
        e, b = self.e, self.e.b
        self.header_store(Frame.LIVE, self.header_load(Frame.LIVE) & ~lanes)
        if self.barriers:
            at = b.at(e.slot, Slot.LIVE_THREADS)
            b.store(b.load("i32", 0, at) - b.intrinsic("ctpop", [lanes]), at)

    def _emit_exit(self) -> None:
        e, b = self.e, self.e.b
        b.place("exit")
        if not self.points:
            if self.barriers:
                self.retire(self.header_load(Frame.LIVE))
            self._finish()
            return
        self.retire(b.load("i32", 0, e.mask_slot))
        b.jump("dispatch")

    def _finish(self) -> None:
        b = self.e.b
        self.header_store(Frame.STATE, b.integer("i32", FINISHED))
        b.emit(f"ret i32 {Status.DONE}")
