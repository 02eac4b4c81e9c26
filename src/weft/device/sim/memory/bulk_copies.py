"""cp.async.bulk: copies of whole ranges that complete when a thread waits for them.

A block keeps a list of its copies in the frame of its first warp (`bulk_list`). A copy that reports
to an mbarrier lands when a warp tests that barrier; a copy of a bulk group lands when its warp
waits for the group, or ends. So a kernel that forgets to wait reads old data, or sends data that it
has overwritten since. A full list completes all copies. A schedule may complete them earlier, and
leaves those that report to an mbarrier pending until a test of it would fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from weft.device.sim.access import AccessKind, AccessUnit, MemoryAccess
from weft.device.sim.address import SPACES
from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import CLUSTER_SHIFT, ScheduleFields
from weft.device.sim.memory import checks
from weft.device.sim.memory.accessing import Accessing
from weft.device.sim.memory.bulk_list import (
    EVERYTHING,
    UNIT,
    BulkReduction,
    Entries,
    PendingCopies,
    Transfer,
    add,
    land,
)
from weft.device.sim.memory.mbarrier_ledger import BarrierLedger, in_frames, note_copied
from weft.device.sim.memory.mbarriers import WORD
from weft.device.sim.memory.resolve import resolve
from weft.device.sim.protocols import FrameSpace
from weft.ir import Builder, Val
from weft.ptx.isa import decode
from weft.ptx.isa.columns import Completion, Does
from weft.ptx.model import Instruction, Mem

_P = ("ptr", 0)
RANK_AT = CLUSTER_SHIFT - 16
"""Shifts the rank of a shared address above the number of a warp."""


class BulkCopies:
    """Bulk copies of a warp under emission."""

    def __init__(self, e: Accessing, frame: FrameSpace, ledger: BarrierLedger) -> None:
        self.e, self.ledger = e, ledger
        code = [ins for block in e.program.graph.blocks for ins in block.code]
        issued = [ins for ins in code if _is_bulk(ins)]
        self.used = bool(issued)
        self.entries = _tensor_entries([ins for ins in issued if decode(ins).is_tensor])
        reductions = {r for ins in issued if (r := _reduction(ins))}
        self.entries = self.entries._replace(kinds=[*self.entries.kinds, *sorted(reductions)])
        self.at = frame.reserve(self.entries.size if self.used else 0, self._start, self._finish)
        if ledger.used:
            self.entries = self.entries._replace(ledger=ledger.at - self.at)

    def _start(self) -> None:
        """A fresh warp has nothing pending."""
        b = self.e.b
        if self.used and self.e.timing.on:  # the first warp need not start first: see `clear`
            b.store(b.integer("i32", 0), b.at(self._own(), PendingCopies.GROUP))
        elif self.used:
            b.store(b.zero("i32", 4), self._own(), 16)

    def clear(self, b: Builder, frames: Val) -> None:
        """A new block under a schedule has nothing pending."""
        if self.used:
            b.store(b.zero("i32", 4), b.at(frames, self.at), 16)

    def _own(self) -> Val:
        return self.e.b.at(self.e.frame, self.at)

    def pending(self) -> Val:
        """The block's list."""
        return in_frames(self.e, self.at)

    def _issuer(self) -> Val:
        """The number of the warp among those that share the list."""
        e = self.e
        if e.program.clusters:
            return e.warp | (e.rank_base >> RANK_AT)
        return e.warp

    # ---- issue ------------------------------------------------------------------------------
    def issue(self, ins: Instruction) -> None:
        """Check the accesses of the row, and record the copy."""
        e, b = self.e, self.e.b
        decoded = e.program.decoded[ins.index]
        row, reduction = decoded.row, _reduction(ins)
        assert row.async_ is not None, "every bulk copy is asynchronous"
        nbytes = e.read_lanes(ins.operands[row.position("size")], "u32")
        # A copy of 0 bytes touches nothing, so its addresses are not checked.
        lanes = e.executing() & e.bits_of(nbytes.ne(0))
        waits = row.async_.by
        data = e.memory.buffer(8)
        b.store(nbytes, data, 64)
        b.store(b.zero("i64", 32), b.at(data, 768), 64)  # no mbarrier, unless one follows
        accesses, masks = [], self.masks(ins)
        for i, effect in enumerate(row.effects, 1):  # target, source, mbarrier
            mem = ins.operands[row.position(effect.operand)]
            assert isinstance(mem, Mem)
            a = resolve(e, mem, SPACES[effect.window(decoded.words)])
            if effect.nbytes(decoded.words) is None:
                kind = (
                    AccessKind.REDUCTION if reduction and effect.writes else AccessKind.of(effect)
                )
                access = MemoryAccess(
                    ins, AccessUnit.BULK, kind, a, 0, UNIT, lanes, nbytes, waits=waits, masks=masks
                )
                self._range(access, lanes, data, b.at(data, 256 * i))
            else:
                access = MemoryAccess(
                    ins,
                    AccessUnit.MBARRIER,
                    AccessKind.of(effect),
                    a,
                    WORD,
                    None,
                    lanes,
                    waits=waits,
                )
                self.note(access, lanes, b.at(data, 256 * i))
            accesses.append(access)
        target, source, *barriers = accesses
        ends = [b.load("i64", 32, b.at(data, 256 * i), 64) for i in (1, 2)]
        sides = [replace(source, beside=ends[0]), replace(target, beside=ends[1])]
        # After the checks, since an observer may follow a range to its end; the source comes first.
        for access in [*sides, *barriers]:
            e.watch.access(access)
        self.add(reduction, data, lanes, masks=masks)

    def add(
        self, kind: Transfer | None, data: Val, lanes: Val, jobs: Val | None = None,
        masks: Val | None = None,
    ) -> None:  # fmt: skip
        """Record the copies of these lanes; `data` and `jobs` as in `bulk_list.add`.

        masks  of a multicast: see `masks`
        """
        e, b = self.e, self.e.b
        number = b.integer("i32", self.entries.kinds.index(kind) + 1 if kind else 0)
        group = b.load("i32", 0, b.at(self._own(), PendingCopies.GROUP))
        record = add(b, self.entries, tensor=jobs is not None)

        def one(chosen: Val) -> None:
            record(self.pending(), data, chosen, number, self._issuer(), group, jobs or data)

        if masks is None:
            one(lanes)
        else:
            self._multicast(lanes, data, jobs, masks, one)
        self._complete_at(ScheduleFields.AT_ISSUE)
        e.forget_mask()

    def _multicast(
        self, lanes: Val, data: Val, jobs: Val | None, masks: Val, one: Callable[[Val], None]
    ) -> None:
        """Record a copy for each block of the masks, by `one`."""
        from weft.device.sim.memory.multicast import for_each_block
        from weft.device.sim.memory.tensors.copies import move_windows

        b = self.e.b
        places = [b.at(data, 256), b.at(data, 768)]  # of targets and mbarriers
        own = [b.load("i64", 32, place, 64) for place in places]

        def noted(lane: Val) -> None:
            barrier = b.load("ptr", 0, b.at(places[1], lane.zext("i64") << 3), 8)
            site = b.integer("i64", self.e.ins.index)
            note_copied(b, self.ledger.rows(), barrier, b.load("i64", 0, barrier, 8), site)

        def record(chosen: Val, distance: Val) -> None:
            for place, addresses in zip(places, own, strict=True):
                b.store(addresses + distance, place, 64)
            if jobs is not None:
                move_windows(b, jobs, chosen, distance)
            each_lane(b, chosen, noted)
            one(chosen)
            if jobs is not None:
                move_windows(b, jobs, chosen, 0 - distance)

        for_each_block(self.e, lanes, masks, record)

    def masks(self, ins: Instruction) -> Val | None:
        """The blocks that each lane's copy goes to, as bits; None if it is no multicast."""
        e, decoded = self.e, self.e.program.decoded[ins.index]
        if not decoded.words.get("multicast"):
            return None
        return e.read_lanes(ins.operands[decoded.row.position("mask")], "u16").zext("i32")

    def _complete_at(self, moment: int) -> None:
        """Complete the copies of the block if its schedule has chosen this moment."""
        e, b = self.e, self.e.b
        if e.timing.on:
            with b.when(e.timing.chance(moment)):
                every, zero = b.integer("i32", EVERYTHING), b.integer("i32", 0)
                land(b, self.entries)(self.pending(), b.integer("i64", 0), every, zero)

    def _range(self, access: MemoryAccess, lanes: Val, sizes: Val, into: Val) -> None:
        """Check a range of sizes[lane] bytes; its start goes to `into`."""
        e, b = self.e, self.e.b
        table = e.memory.addresses(access.address)
        e.abort_unless(checks.check_ranges(e, access, table, sizes, lanes))
        b.store(b.load("i64", 32, table, 64), into, 64)

    def note(self, access: MemoryAccess, lanes: Val, into: Val) -> None:
        """Check the addresses of mbarriers and store them in `into`."""
        e = self.e

        def touch(b: Builder, lane: Val, p: Val, extra: list[Val]) -> None:
            b.store(p, b.at(extra[0], lane.zext("i64") << 3), 8)
            note_copied(b, extra[1], p, b.load("i64", 0, p, 8), extra[2])

        kinds = [_P, _P, ("i64", 0)]
        fn = checks.checked_lanes(e, f"bulk_note_{access.space}", access, kinds, touch)
        table, site = e.memory.addresses(access.address), e.b.integer("i64", access.ins.index)
        e.abort_unless(fn(table, lanes, e.windows.site(), into, self.ledger.rows(), site))

    # ---- completion -------------------------------------------------------------------------
    def commit(self) -> None:
        """Close the group that is being collected."""
        if self.used:
            e, b = self.e, self.e.b
            at = b.at(self._own(), PendingCopies.GROUP)
            b.store(b.load("i32", 0, at) + e.executing().ne(0).zext("i32"), at)
            self._complete_at(ScheduleFields.AT_COMMIT)

    def wait(self, pending: int) -> None:
        """Complete all but the last `pending` groups of this warp."""
        if self.used:
            self._land_groups(-pending)

    def _finish(self) -> None:
        """Complete all copies when the warp ends."""
        if self.used:
            # One past the group that is being gathered: copies that were never committed land as
            # well.
            self._land_groups(1)

    def _land_groups(self, beyond: int) -> None:
        b = self.e.b
        limit = b.load("i32", 0, b.at(self._own(), PendingCopies.GROUP)) + beyond
        land(b, self.entries)(self.pending(), b.integer("i64", 0), self._issuer(), limit)

    def arrive(self, b: Builder, pending: Val, barrier: Val) -> None:
        """Complete the copies that report to a barrier, before the barrier is tested."""
        address = b.val("i64", 0, f"ptrtoint {barrier.typed} to i64")
        zero = b.integer("i32", 0)
        land(b, self.entries)(pending, address, zero, zero)


def _tensor_entries(issued: list[Instruction]) -> Entries:
    """The list of a kernel with these tensor copies."""
    if not issued:
        return Entries(())
    from weft.device.sim.memory.tensors.copies import tensor_entries

    return tensor_entries(issued)


def _reduction(ins: Instruction) -> BulkReduction | None:
    """`cp.reduce.async.bulk.TARGET....op{.noftz}.type`; None for a copy."""
    d = decode(ins)
    target = d.row.effects[0]
    if d.is_tensor or target.does is not Does.UPDATE:
        return None
    # `.add.noftz` has a row without a modifier for its operation.
    return BulkReduction(d.operation or "add", d.type, target.state_space(d.words) == "shared")


def _is_bulk(ins: Instruction) -> bool:
    """Return whether it is a copy that an mbarrier or a bulk group completes."""
    row = decode(ins).row
    if row.completes_by not in (Completion.MBARRIER, Completion.BULK_GROUP):
        return False
    return any(x.does is Does.READ for x in row.effects)
