"""The counting observer's code in one kernel: which counter each event increments.

A basic block counts its executions, so its instructions need no counters of their own; only guarded
instructions do. The cost of an access of all lanes to shared memory at constant distances is known
when the code is made (`rules`), so it needs no code either. Other accesses call a helper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple, replace
from typing import Any

from weft.device.sim.access import AccessKind, AccessUnit, MemoryAccess
from weft.device.sim.address import Address
from weft.device.sim.analyse.waits import is_block_barrier
from weft.device.sim.layout import CLUSTER_SHIFT, ContextFields, Space, WorkerFields
from weft.device.sim.memory.checks import cluster_size
from weft.device.sim.observe import Watched, Watcher
from weft.device.sim.tools.counters import bulk, fragments, rules, shared
from weft.device.sim.tools.counters.global_memory import GlobalMemory, drop
from weft.device.sim.tools.counters.lanes import count_lanes
from weft.device.sim.tools.counters.layout import (
    EPOCHS_AT,
    CachedLineBits,
    CounterRow,
    LaunchFields,
    PerWorker,
)
from weft.device.sim.tools.counters.lines import LOCAL, bump, count_request
from weft.device.sim.tools.counters.listing import Listing
from weft.device.sim.tools.counters.merged_loads import MergedLoads
from weft.device.sim.tools.counters.rows import CounterRows, block_number
from weft.ir import Builder, Val
from weft.ptx.cfg import BasicBlock
from weft.ptx.isa import decode
from weft.ptx.isa.matrix.warpgroup import form_of
from weft.ptx.model import Instruction


def _is_map(access: MemoryAccess) -> bool:
    """Return whether a tensor copy reads its map by the access."""
    return access.unit is AccessUnit.LANES and decode(access.ins).is_tensor


NATIVE_ATOMICS = ("add", "inc", "dec", "min", "max", "exch", "and", "or", "xor")


class CountWatcher(Watcher):
    """Counts into rows of the worker's memory; `notes` describe each row."""

    def __init__(self, e: Watched) -> None:
        super().__init__(e)
        self.rows = CounterRows(e)
        self._merged, self._widths = MergedLoads(e.program), dict[int, int]()
        self.far = GlobalMemory(e, self.rows)

    def notes(self) -> Mapping[str, Any]:
        program = self.e.program
        listing = Listing()
        for block in program.graph.blocks:
            for ins in [*block.code, *([block.last] if block.last else [])]:
                listing.add(ins, block.index)
        return {"rows": self.rows.notes, "nbytes": self.rows.nbytes, **listing.notes()}

    # ---- executions -------------------------------------------------------------------------
    def block(self, block: BasicBlock) -> None:
        b, e = self.e.b, self.e
        self._widths = self._merged.widths(block)
        self.far.block(block)
        row = self.rows.add(block=block.index)
        bump(b, row, CounterRow.REQUESTS, b.integer("i64", 1))
        if not e.always_full:
            with b.when(e.mask().ne(-1), rare=True):
                bump(b, row, CounterRow.OFF, b.intrinsic("ctpop", [~e.mask()]))
            e.forget_mask()

    def instruction(self, ins: Instruction) -> None:
        b, e = self.e.b, self.e
        # Without a guard the lanes of the block execute it, and all of them execute its branch.
        if ins.guard is None or ins is e.block.last:
            return
        row, lanes = self.rows.add(guard=ins.index), e.executing()
        bump(b, row, CounterRow.THREADS, b.intrinsic("ctpop", [lanes]))
        if is_block_barrier(ins):
            bump(b, row, CounterRow.REQUESTS, lanes.ne(0))

    def tested(self, ins: Instruction, over: Val) -> None:
        """A test of an mbarrier passes if the phase has ended for all lanes that make it."""
        b, e = self.e.b, self.e
        row, missing = self.rows.add(tested=ins.index), e.executing() & ~e.bits_of(over)
        passed = missing.eq(0) & e.executing().ne(0)
        bump(b, row, CounterRow.REQUESTS, passed)
        bump(b, row, CounterRow.VAIN, missing.ne(0))

    def diverge(self, block: BasicBlock) -> None:
        assert block.last is not None
        row = self.rows.add(diverged=block.last.index)
        bump(self.e.b, row, CounterRow.REQUESTS, self.e.b.integer("i64", 1))

    # ---- blocks of threads ------------------------------------------------------------------
    def started(self, b: Builder, context: Val, worker: Val, slot: Val) -> None:
        """A new generation of L1, and the part of the launch in which the block runs."""
        counters = b.load("ptr", 0, b.at(worker, WorkerFields.OBSERVER))
        launch = b.load("ptr", 0, b.at(context, ContextFields.OBSERVER))
        place = b.at(counters, PerWorker.GENERATION)
        b.store((b.load("i64", 0, place) + (1 << CachedLineBits.GENERATION_AT)) & 0xFFFFFFFF, place)
        number = block_number(b, context, slot)
        blocks = b.load("i64", 0, b.at(launch, LaunchFields.BLOCKS))
        epochs = b.load("i64", 0, b.at(launch, LaunchFields.EPOCH_COUNT))
        epoch = b.binary("udiv", number * epochs, blocks)
        b.store(b.integer("i64", 1 << EPOCHS_AT) << epoch, b.at(counters, PerWorker.EPOCH))

    # ---- memory -----------------------------------------------------------------------------
    def access(self, access: MemoryAccess) -> None:
        if _is_map(access):
            return  # the copy engine has a cache of its own for maps
        match access.unit:
            case AccessUnit.FRAGMENT:
                fragments.count(self.e, self.rows, access)
            case AccessUnit.MATRIX:
                self._matrix(access)
            case AccessUnit.BULK:
                bulk.count(self.e, self.rows, access)
            case AccessUnit.COPY if access.writes:
                self._copied(access)
            case AccessUnit.COPY | AccessUnit.LANES:
                self._lanes(access)
            case AccessUnit.MBARRIER:
                pass  # the hardware has no counter for barrier objects either

    def product(self, ins: Instruction, left: Val, right: Val) -> None:
        """A product reads its operands in shared memory once for its four warps."""
        self.rows.add(
            access=ins.index, kind="product load", space=Space.SHARED, width=0,
            product=form_of(ins).shared_bytes,
        )  # fmt: skip

    def _lanes(self, access: MemoryAccess) -> None:
        """Count an access in which each lane touches bytes of its own."""
        if access.space == Space.CLUSTER or access.sends:
            self._of_cluster(access)
        elif access.space == Space.SHARED:
            width = self._widths.get(access.ins.index, access.nbytes)
            if width:
                self._shared(replace(access, nbytes=width))
        elif access.space in (Space.GLOBAL, Space.GENERIC):
            self._far(access)
        elif access.space == Space.LOCAL:
            self._local(access)

    def _some(self, lanes: Val, then: Callable[[], None]) -> None:
        """Emit `then`, unless no lane runs."""
        if self.e.executes_fully:
            then()
            return
        with self.e.b.when(lanes.ne(0)):
            then()

    # ---- shared memory ----------------------------------------------------------------------
    def _shared(self, access: MemoryAccess) -> None:
        e, a = self.e, access.address
        lanes = e.executing()
        if access.changes:
            row = self.rows.of(access)
            fn = shared.count_shared_atomic(e.b, access.nbytes, self._atomic_kind(access))
            self._some(lanes, lambda: drop(fn(row, self._offsets(a), lanes)))
            return
        general = shared.count_shared(e.b, access.nbytes, reads=not access.writes)
        if a.off is None:
            row = self.rows.of(access)
            self._some(lanes, lambda: drop(general(row, self._offsets(a), lanes)))
            return
        off, width, reads = a.off, access.nbytes, not access.writes
        # Only the first address % 4 matters, and it is known when the kernel runs: all are costed.
        places = range(0, 4, width) if width < 4 else (0,)
        costs = [rules.shared_cost([x + p for x in off], width, reads=reads) for p in places]
        step = 4 // len(costs)
        self._constant(access, [costs[i // step] for i in range(4)], general, lanes)

    def _of_cluster(self, access: MemoryAccess) -> None:
        """Count shared memory of the cluster: the block's own, and that of other blocks."""
        e, b, lanes = self.e, self.e.b, self.e.executing()
        near, there = self.rows.near(access), self._row_of_peers(access)
        own = lanes & bulk.own_lanes(e, e.memory.addresses(access.address))
        if access.sends:  # through the network in any case
            own = b.integer("i32", 0)
        with b.when(own.ne(0)):
            self._near(access)(near, self._offsets(access.address), own)
        self._count_peers(access, there, lanes & ~own)

    def _row_of_peers(self, access: MemoryAccess) -> Val:
        return self.rows.of(access, space=Space.CLUSTER, any_lanes=True)

    def _count_peers(self, access: MemoryAccess, row: Val, lanes: Val) -> None:
        """Count lanes that are in the shared memory of other blocks: in lines and sectors."""
        e, b = self.e, self.e.b
        with b.when(lanes.ne(0)):
            fn = count_lanes(b, LOCAL, access.nbytes)
            table = e.memory.addresses(access.address)
            fn(self.rows.launch(), self.rows.counters(), row, table, lanes)

    def _constant(
        self,
        access: MemoryAccess,
        costs: list[rules.SharedCost],
        general: Callable[..., Val],
        lanes: Val,
        rows: Val | None = None,
    ) -> None:
        """Count known distances: only the executions and their lanes are counted at run time."""
        e, b, a = self.e, self.e.b, access.address
        same = len(set(costs)) == 1
        always = same and e.executes_fully and e.ins.guard is None
        many = 32 if rows is None else (int(rows.ref) & 0xFFFFFFFF).bit_count()
        rows_of_costs = [astuple(c) for c in costs]
        row = self.rows.of(access, costs=rows_of_costs, always=always, lanes=many)
        if always:
            return
        assert a.inside is not None
        at = b.integer("i64", 0) if same else a.inside[0] & 3

        def full() -> None:
            bump(b, b.at(row, at << 3), CounterRow.FULL, b.integer("i64", 1))

        if e.executes_fully:
            full()
            return

        # Where all lanes take one wavefront, so do some of them.
        single = rows is None and all(c == rules.SharedCost(1, 1, 1) for c in costs)

        def some() -> None:
            with b.when(lanes.ne(0)):
                if single:
                    count_request(b, row, lanes)
                    for counter in (CounterRow.WAVEFRONTS, CounterRow.PARTS, CounterRow.IDEAL):
                        bump(b, row, counter, b.integer("i64", 1))
                else:
                    general(row, self._offsets(a), lanes if rows is None else lanes & rows)

        b.either(lanes.eq(-1), full, some)

    def _matrix(self, access: MemoryAccess) -> None:
        e, a = self.e, access.address
        assert access.lanes is not None
        lanes, row_lanes = e.executing(), access.lanes
        general = shared.count_matrix(e.b)
        if a.space == Space.SHARED and a.off is not None:
            count = (int(row_lanes.ref) & 0xFFFFFFFF).bit_count() // 8
            cost = rules.matrix_cost(a.off, count)
            self._constant(access, [cost] * 4, general, lanes, row_lanes)
            return
        row = self.rows.near(access)  # a generic address names shared memory, too
        self._some(lanes, lambda: drop(general(row, self._offsets(a), lanes & row_lanes)))

    def _offsets(self, a: Address) -> Val:
        """A stack array of the lanes' places in shared memory."""
        e, b = self.e, self.e.b
        out = e.memory.offsets()
        if a.inside is not None and a.off is not None:
            b.store(b.splat(a.inside[0].trunc("i32"), 32) + b.lanes("i32", a.off), out, 64)
        elif a.space == Space.SHARED and a.wide is not None:
            b.store(a.wide.lanes(), out, 64)
        else:
            start = b.val("i64", 0, f"ptrtoint {e.shared.typed} to i64")
            b.store((b.load("i64", 32, e.memory.addresses(a), 64) - start).trunc("i32"), out, 64)
        return out

    def _atomic_kind(self, access: MemoryAccess) -> str:
        d = decode(self.e.ins)
        if d.operation == "cas":
            return shared.CAS
        plain = access.nbytes == 4 and d.type in ("u32", "s32", "b32")
        if not plain or d.operation not in NATIVE_ATOMICS:
            return shared.SPIN
        one = self.e.program.form_of(self.e.ins.operands[-1])
        adds_one = d.operation == "add" and one is not None and one.const == 1
        tally = access.kind is AccessKind.REDUCTION and adds_one
        return shared.TALLY if tally else shared.NATIVE

    # ---- global memory ----------------------------------------------------------------------
    def _far(self, access: MemoryAccess) -> None:
        """Count global memory, or the space of a generic address."""
        e, b = self.e, self.e.b
        lanes = e.executing()
        if access.sizes is not None:
            lanes = lanes & e.bits_of(access.sizes.ne(0))
        if access.space == Space.GLOBAL:
            row = self.far.row(access)
            if self.far.is_whole(access):  # no block is entered with an empty mask
                self.far.count(access, row, lanes)
            else:
                self._some_of(lanes, access, lambda: self.far.count(access, row, lanes))
            return
        if e.program.clusters:
            lanes = self._generic_peers(access, lanes)
        # The first lane decides: a warp whose lanes are in both memories is counted in one.
        row, near = self.far.row(access), self.rows.near(access)
        with b.when(lanes.ne(0)):
            table = e.memory.addresses(access.address)
            first = b.intrinsic("cttz", [lanes], extra="false").zext("i64")
            at = b.load("i64", 0, b.at(table, first << 3), 8)
            start = b.val("i64", 0, f"ptrtoint {e.shared.typed} to i64")
            inside = (at - start).ult(e.shared_bytes.zext("i64"))
            b.either(
                inside,
                lambda: drop(self._near(access)(near, self._offsets(access.address), lanes)),
                lambda: self.far.count(access, row, lanes),
            )

    def _generic_peers(self, access: MemoryAccess, lanes: Val) -> Val:
        """Count lanes whose generic addresses are in other blocks' shared memory -> the others."""
        e, b = self.e, self.e.b
        row, table = self._row_of_peers(access), e.memory.addresses(access.address)
        first = b.val("i64", 0, f"ptrtoint {e.shared.typed} to i64") - e.rank_base.zext("i64")
        size = cluster_size(b, e.context).zext("i64") << CLUSTER_SHIFT
        inside = (b.load("i64", 32, table, 64) - first).ult(size)
        peers = lanes & e.bits_of(inside) & ~bulk.own_lanes(e, table)
        self._count_peers(access, row, peers)
        return lanes & ~peers

    def _copied(self, access: MemoryAccess) -> None:
        """Count the target of a copy, in shared memory."""
        lanes = self.e.executing()
        row, fn = self.rows.of(access), shared.count_copy(self.e.b, access.nbytes)
        self._some(lanes, lambda: drop(fn(row, self._offsets(access.address), lanes)))

    def _some_of(self, lanes: Val, access: MemoryAccess, then: Callable[[], None]) -> None:
        if access.sizes is None:
            self._some(lanes, then)
            return
        with self.e.b.when(lanes.ne(0)):
            then()

    def _near(self, access: MemoryAccess) -> Callable[..., Val]:
        b = self.e.b
        if not access.changes:
            return shared.count_shared(b, access.nbytes, reads=not access.writes)
        return shared.count_shared_atomic(b, access.nbytes, self._atomic_kind(access))

    # ---- local memory -----------------------------------------------------------------------
    def _local(self, access: MemoryAccess) -> None:
        """Count local memory: word w of lane l is at byte (w * 32 + l) * 4 of the warp's block."""
        e, b = self.e, self.e.b
        row, lanes = self.rows.of(access, any_lanes=True), e.executing()

        def count() -> None:
            table, step = e.memory.addresses(access.address), e.program.local_bytes
            start = b.val("i64", 0, f"ptrtoint {e.local.typed} to i64")
            lane = b.lanes("i64", list(range(32)))
            inside = b.load("i64", 32, table, 64) - start - lane * step
            b.store((((inside >> 2) << 5) + lane) << 2, table, 64)
            fn = count_lanes(b, LOCAL, access.nbytes)
            fn(self.rows.launch(), self.rows.counters(), row, table, lanes)

        self._some(lanes, count)
