"""The sanitizer's code in one kernel: its checks at each event."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod
from typing import Any

from weft.device.sim.access import AccessKind, AccessUnit, MemoryAccess, touching
from weft.device.sim.address import Address
from weft.device.sim.analyse.waits import is_arrival, is_warp_sync
from weft.device.sim.layout import SlotFields, Space, WorkerFields
from weft.device.sim.observe import Watched, Watcher
from weft.device.sim.tools.sanitizer import (
    batches,
    bounds,
    clusters,
    endless_loops,
    origins,
    undefined,
)
from weft.device.sim.tools.sanitizer.asynchronous import bulk, registers
from weft.device.sim.tools.sanitizer.asynchronous.tiles import Tiles, is_used
from weft.device.sim.tools.sanitizer.checking import Values
from weft.device.sim.tools.sanitizer.clocks import Clocks
from weft.device.sim.tools.sanitizer.copies import Copies
from weft.device.sim.tools.sanitizer.layout import BlockState, Record, WorkerState
from weft.device.sim.tools.sanitizer.local import Local
from weft.device.sim.tools.sanitizer.meetings import (
    barriers,
    early_exits,
    parities,
    synchronisation,
)
from weft.device.sim.tools.sanitizer.meetings.barrier_groups import BarrierGroups, has_counts
from weft.device.sim.tools.sanitizer.meetings.parities import Parities
from weft.device.sim.tools.sanitizer.meetings.skipped import Skipped
from weft.device.sim.tools.sanitizer.order.instructions import (
    is_far,
    is_fence,
    is_release,
    is_strong,
    releases,
    releases_lock,
)
from weft.device.sim.tools.sanitizer.order.words import put, word
from weft.device.sim.tools.sanitizer.overflow import Overflow
from weft.device.sim.tools.sanitizer.report import first_of
from weft.device.sim.tools.sanitizer.required_bytes import RequiredBytes
from weft.device.sim.tools.sanitizer.shadow import lanes as shadow_lanes
from weft.device.sim.tools.sanitizer.shadow.exact import ExactShadow
from weft.device.sim.tools.sanitizer.shadow.fast import FastShadow
from weft.device.sim.tools.sanitizer.shadow.quiet import is_quiet
from weft.device.sim.tools.sanitizer.shadow.records import AccessPattern
from weft.device.sim.tools.sanitizer.shared_log import SharedLog
from weft.device.sim.tools.sanitizer.undefined import Undefined
from weft.ir import Builder, Val
from weft.ptx import cfg
from weft.ptx.isa import control_of, decode
from weft.ptx.isa.columns import Control
from weft.ptx.model import SIZES, Instruction, Operand, Reg

_SPACES = {
    Space.GLOBAL: ("global",),
    Space.SHARED: ("shared",),
    Space.GENERIC: ("shared", "global"),
}
_NEAR = (Space.SHARED, Space.CLUSTER)
_IN_A_BLOCK = (Space.SHARED, Space.GENERIC)


class Sanitizing(Watcher):
    """Shadow records, clocks and the checks of synchronisation, beside one kernel."""

    def __init__(self, e: Watched) -> None:
        super().__init__(e)
        program = e.program
        code = [i for block in program.graph.blocks for i in block.code]
        self.masks = any(
            is_warp_sync(i) and synchronisation.mask_of(program, i) is not None for i in code
        )
        reach = undefined.plan(program)
        self.undefined = Undefined(self, reach)
        self.one_by_one = bool(reach.sources)
        self.clustered = program.clusters
        tiles = is_used(code)
        self.locks = any(x.barrier for i in code for x in decode(i).row.effects)
        # Blocks of the largest cluster, unless the kernel says how many it has.
        sizes = program.function.directives.get("reqnctapercluster", (BlockState.MAX_RANKS,))
        ranks = max(2, prod(sizes)) if self.clustered else 1
        self.layout = BlockState(
            program.warps, program.local_bytes, self.masks, reach.nbytes, tiles,
            locks=self.locks, ranks=ranks,
        )  # fmt: skip
        self.publishes = self.clustered or any(releases(i) for i in code)
        self.clocks = Clocks(
            program.warps,
            self.layout,
            publishes=self.publishes,
            masks=self.masks,
            arrivals=any(is_arrival(i) for i in code),
            proxies=tiles,
        )
        self.tiles = Tiles(self, used=tiles)
        self.partly = any(_writes_part(i) for i in code)
        bulk = any(decode(i).is_bulk for i in code)
        self.unseen = self.clustered and e.copies.used
        """True if `cp.async` writes shared memory of a cluster, which has no records of copies."""
        self.variables = bounds.shared(program)
        # Copies that complete later would be writes that are always new.
        plain = not (self.partly or bulk or self.unseen or e.copies.used)
        apart = self.one_by_one or self.clustered or tiles or not plain
        planned = [] if apart else batches.plan(program, self.variables)
        self.fast = FastShadow(self.clocks, self.layout, self.partly, plain)
        self.exact = ExactShadow(self.clocks, self.layout, self.partly, plain)
        self.shared_log = SharedLog(self, planned)
        self.needs = RequiredBytes(program)
        self.local = Local(self)
        self.copies = Copies(self)
        self.overflow = Overflow(program)
        self.sites: dict[int, int] = {}
        self.on_barrier = False
        self.tested_last: MemoryAccess | None = None
        self.met: list[Operand | None] = []
        """Masks with which lanes have met since the last access; None: all of them."""
        self.going_on = early_exits.going_on(program)
        self.one_sided = barriers.one_sided(e, self.going_on)
        self.skipped = Skipped(self)
        self.groups = BarrierGroups(self, used=has_counts(program))
        self.parities = Parities(self, used=parities.is_used(program))

    # ---- names ------------------------------------------------------------------------------
    @property
    def p(self) -> Val:
        """The state of the block."""
        return self.e.b.load("ptr", 0, self.e.b.at(self.e.slot, SlotFields.OBSERVER))

    def site(self) -> Val:
        """The present instruction as records name it."""
        strong = Record.STRONG if self._is_strong() else 0
        return self.e.b.integer("i64", self.number(self.e.ins) | strong)

    def _is_strong(self) -> bool:
        """True if the current access is strong. One to an mbarrier is, in any case."""
        return self.on_barrier or is_strong(self.e.ins)

    def number(self, ins: Instruction) -> int:
        """An instruction as records name it."""
        number = self.sites.setdefault(ins.index, len(self.sites) + 1)
        strong = Record.STRONG if is_strong(ins) else 0
        return min(number, Record.SITES) | strong

    def me(self, lanes: Val) -> Val:
        """A record of the first of these lanes, for findings that are not about memory."""
        return first_of(self.e.b, lanes, self.e.warp) | self.site()

    def count(self, field: int, by: Val) -> None:
        b = self.e.b
        at = b.at(b.load("ptr", 0, b.at(self.e.worker, WorkerFields.OBSERVER)), field)
        put(b, word(b, at) + by, at)

    # ---- events -----------------------------------------------------------------------------
    def reads(self, block: cfg.BasicBlock) -> Mapping[int, Collection[str]]:
        return self.overflow.reads(block)

    def block(self, block: cfg.BasicBlock) -> None:
        self.met = []
        self.overflow.block(block)

    def instruction(self, ins: Instruction) -> None:
        if is_warp_sync(ins):
            synchronisation.check_lanes(self, ins)
            mask = synchronisation.mask_of(self.e.program, ins)
            if mask not in self.met:
                # Otherwise only the warp's own records change, which the log has kept.
                if self.publishes or self.masks or self.e.program.warps == 1:
                    self._flush()
                synchronisation.order_lanes(self, ins)
                self.met.append(mask)
        changed = self.e.program.defs(ins)
        self.met = [m for m in self.met if not (isinstance(m, Reg) and m.name in changed)]
        if is_fence(ins) and self.publishes:
            self._flush()
            self.clocks.fence(self.e.b, self.p, self.e.warp, is_far(ins))
        self.copies.instruction(ins)
        self.tiles.instruction(ins)
        self.undefined.instruction(ins)
        self.overflow.check(self, ins)
        if control_of(ins.parts) is Control.CALL:  # the host may ask where it was called from
            e, b = self.e, self.e.b
            b.store(b.integer("i64", ins.index), b.at(e.worker, WorkerFields.ERROR_SITE))
        if ins is self.e.block.last:
            self.skipped.branch(self.e.block.index)
            endless_loops.check(self)

    def access(self, access: MemoryAccess) -> None:
        e, b = self.e, self.e.b
        self.met = []
        if access.space in (Space.PARAM, Space.CONST):
            return  # always initialised, and never written
        checked = self.shared_log.checked(access)
        if checked is None:
            self._access(access)
            return
        with b.when(checked ^ 1, rare=True):
            self._access(access)
        e.forget_mask()

    def _access(self, access: MemoryAccess) -> None:
        """Check one access by itself."""
        e, b = self.e, self.e.b
        lanes = touching(e, access)
        self.count(WorkerState.ACCESSES, b.intrinsic("ctpop", [lanes]).zext("i64"))
        if access.space == Space.LOCAL or (access.space == Space.GENERIC and self.local.escapes):
            self.local.access(access, self._way(access), lanes)
        if access.space != Space.LOCAL:
            self._of_block(access, lanes)

    def _of_block(self, access: MemoryAccess, lanes: Val) -> None:
        """Check memory that other threads access, too."""
        self.on_barrier = access.unit is AccessUnit.MBARRIER
        if access.space in _IN_A_BLOCK:
            self._flush()
        if self.on_barrier:
            self.parities.access(access, lanes)
            self._on_barrier(access, lanes)
        else:
            self.tiles.access(access, lanes)
            if self._is_strong() and self.publishes:
                self._synchronise(access)
        match access.unit:
            case AccessUnit.FRAGMENT:
                self._rows(access)
            case AccessUnit.BULK:
                bulk.mark(self, access, lanes)
            case AccessUnit.COPY if access.writes:
                self.copies.issued(access, lanes)
            case AccessUnit.COPY:
                self.copies.read(access, lanes)
            case AccessUnit.LANES | AccessUnit.MATRIX | AccessUnit.MBARRIER:
                bounds.check(self, access.address, access.nbytes, lanes)
                self.touch(access.address, self._way(access), lanes, access.values)
        self.on_barrier = False
        self.e.forget_mask()

    def _synchronise(self, access: MemoryAccess) -> None:
        b, e = self.e.b, self.e
        self._flush()
        if is_release(access.ins):
            self.clocks.fence(b, self.p, e.warp, is_far(access.ins))
        self.clocks.synchronise(b, self.p, e.warp, access.writes)

    def _on_barrier(self, access: MemoryAccess, lanes: Val) -> None:
        """An mbarrier is given to a copy, tested, initialised, or arrived at."""
        b, e = self.e.b, self.e
        self._flush()
        if access.waits is not None:  # it orders nothing before the copy is complete
            self.tiles.reports_to(access, lanes)
        elif not access.writes:
            self.tested_last = access  # it acquires after it has passed
        else:
            table = e.memory.addresses(access.address)
            if access.kind is AccessKind.WRITE:
                self.clocks.renew(b, self.p, table, lanes)
            elif releases_lock(access.ins):
                far = is_far(access.ins)
                self.clocks.release(b, self.p, e.warp, table, lanes, far)
        e.forget_mask()

    def tested(self, ins: Instruction, over: Val) -> None:
        access, b, e = self.tested_last, self.e.b, self.e
        assert access is not None and access.ins is ins, "it was accessed before"
        if decode(ins).order == "relaxed":
            return
        passed = touching(e, access) & e.bits_of(over)
        table = e.memory.addresses(access.address)
        landing = self.tiles.operations.landed if self.tiles.used else None
        self.clocks.passed(b, self.p, e.warp, table, passed, landing)
        e.forget_mask()

    def _flush(self) -> None:
        """Prepare for a change of the block's clocks or records."""
        self.shared_log.flush(self.e.b, self.e.slot)

    def product(self, ins: Instruction, left: Val, right: Val) -> None:
        self.tiles.product(ins, left, right)

    def barrier(self, number: Val, count: Val | None, lanes: Val) -> None:
        if is_arrival(self.e.ins):
            self._flush()
        self.groups.arrive(number, count, lanes)
        barriers.arrive(self, number, count, lanes)

    def cluster_arrive(self, lanes: Val) -> None:
        b, e = self.e.b, self.e
        with b.when(lanes.ne(0)):
            self.clocks.fence(b, self.p, e.warp, far=True)

    def cluster_released(self, b: Builder, slot: Val) -> None:
        self.clocks.release_all(b, slot)

    def cluster_passed(self) -> None:
        self.clocks.synchronise(self.e.b, self.p, self.e.warp, writes=False)

    def leave(self, lanes: Val | None) -> None:
        if lanes is not None:
            barriers.leave(self, lanes)

    def started(self, b: Builder, context: Val, worker: Val, slot: Val) -> None:
        self.clocks.begin(b, context, worker, slot)
        if self.clustered and not self.unseen:
            clusters.started(b, slot)
        self.fast.started(b, slot)
        self.shared_log.started(b)
        self.copies.started(b, slot)
        self.tiles.started(b, slot)
        self.undefined.started(b, slot)
        self.skipped.started(b, slot)
        self.groups.started(b, slot)
        self.parities.started(b, slot)

    def released(self, b: Builder, slot: Val, number: Val) -> None:
        self.skipped.released(b, slot, number)
        self.groups.released(b, slot, number)
        self.shared_log.met(b, slot, number)
        self.fast.released(b, slot, number)
        self.clocks.meet(b, slot, number)
        p = b.load("ptr", 0, b.at(slot, SlotFields.OBSERVER))
        worker = b.load("ptr", 0, b.at(p, BlockState.WORKER))
        put(b, word(b, worker, WorkerState.BARRIERS) + 1, worker, WorkerState.BARRIERS)

    def notes(self) -> Mapping[str, Any]:
        offsets, sites = bounds.arguments(self.e.program), self.sites.items()
        return {
            "sites": list(self.sites),
            "written": origins.written(self.e.program),
            "publishes": self.publishes,
            "masks": self.masks,
            # (site, offsets of the parameters that its address comes from)
            "own": [(n, offsets[i]) for i, n in sites if i in offsets and n < Record.SITES],
            "undefined": self.undefined.plan.nbytes,
            "clusters": self.clustered and not self.unseen,
            "tiles": self.tiles.used,
            "locks": self.locks,
            "ranks": self.layout.ranks,
            "registers": registers.misuses(self.e.program),
        }

    # ---- accesses ---------------------------------------------------------------------------
    def way(self, writes: bool, nbytes: int, needs: int) -> AccessPattern:
        """The access pattern of the current instruction for a number of bytes."""
        cached = not writes and decode(self.e.ins).is_read_only
        return AccessPattern(writes, self._is_strong(), nbytes, needs, cached)

    def way_of(self, ins: Instruction, nbytes: int, writes: bool) -> AccessPattern:
        """The access pattern of a plain access."""
        return AccessPattern(
            writes, is_strong(ins), nbytes, 0 if writes else self.needs.of(ins, nbytes)
        )

    def _way(self, access: MemoryAccess) -> AccessPattern:
        return self.way(access.writes, access.nbytes, self._needs(access))

    def _needs(self, access: MemoryAccess) -> int:
        """Bytes that must have been written before: none for an exchange and a store."""
        exchanges = access.changes and decode(access.ins).operation == "exch"
        if access.unit is AccessUnit.MBARRIER or not access.reads or exchanges:
            return 0
        return self.needs.of(access.ins, access.nbytes)

    def touch(self, a: Address, way: AccessPattern, lanes: Val, values: Values = None) -> None:
        """One access of some lanes, in each space that it may be to."""
        for space in (clusters.SPACES if self.clustered else _SPACES).get(a.space, ()):
            if self.unseen and (space == "shared" or a.space in _NEAR):
                continue  # what `cp.async` writes would look uninitialised
            if a.space == Space.GLOBAL and not way.writes:
                number = self.number(self.e.ins) & Record.SITES
                with self.e.b.when(is_quiet(self.e, number, a, lanes) ^ 1, rare=True):
                    shadow_lanes.touch(self, space, a, way, lanes, values)
                self.e.forget_mask()
            else:
                shadow_lanes.touch(self, space, a, way, lanes, values)

    def _rows(self, access: MemoryAccess) -> None:
        """Check a fragment: the warp as a whole touches rows of memory."""
        b, rows = self.e.b, access.rows
        assert rows is not None
        piece = min(16, rows.nbytes)
        with b.loop(rows.count) as i, b.loop(rows.nbytes // piece) as k:
            at = rows.first + i.zext("i64") * rows.step + k.zext("i64") * piece
            way = self.way(access.writes, piece, 0 if access.writes else (1 << piece) - 1)
            self.touch(Address(access.space, (0,) * 32, at, at), way, b.integer("i32", -1))


def _writes_part(ins: Instruction) -> bool:
    """Return whether it may write less than four bytes of shared memory."""
    d = decode(ins)
    if not (d.row.is_store or d.row.is_atomic) or d.space not in ("shared", "generic"):
        return False
    return SIZES.get(d.type, 4) < 4 and d.elements == 1
