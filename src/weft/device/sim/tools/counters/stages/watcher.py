"""Code that records the events of one block's stages: its copies report to mbarriers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from weft.device.sim.access import AccessKind, AccessUnit, MemoryAccess, touching
from weft.device.sim.analyse.waits import is_block_barrier
from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import CLUSTER_SHIFT, TILE_SHIFT, ContextFields, SlotFields, Space
from weft.device.sim.memory.mbarrier_ledger import PHASE_BITS
from weft.device.sim.observe import Watched, Watcher
from weft.device.sim.tools.counters.layout import LaunchFields
from weft.device.sim.tools.counters.stages.layout import MOST, WARPS, EventFields, EventKind
from weft.ir import Builder, Val
from weft.ptx.cfg import BasicBlock
from weft.ptx.isa import decode
from weft.ptx.isa.columns import AsyncStep, Completion, Does
from weft.ptx.model import Imm, Instruction

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)
_START = (1 << (TILE_SHIFT - 4)) - 1
"""Bits of a descriptor: the start of a tile, in units of 16 bytes."""
_PLACES = (
    (ContextFields.CLUSTER_X, SlotFields.BLOCK_X),
    (ContextFields.CLUSTER_Y, SlotFields.BLOCK_Y),
    (ContextFields.CLUSTER_Z, SlotFields.BLOCK_Z),
)


def has_stages(e: Watched) -> bool:
    """Return whether copies of the kernel report to mbarriers."""
    code = [decode(ins).row for block in e.program.graph.blocks for ins in block.code]
    return any(
        row.async_ is not None
        and row.async_.by is Completion.MBARRIER
        and (row.async_.step is AsyncStep.ARRIVE or any(x.does is Does.READ for x in row.effects))
        for row in code
    )


class StageWatcher(Watcher):
    """Records events of warps of one cluster; a slot has the address of their memory, or 0."""

    AT = 8
    """The offset of that address in the observer's memory of a slot."""

    def __init__(self, e: Watched) -> None:
        super().__init__(e)
        self._events: Val | None = None
        self._target: tuple[Val, Val] | None = None
        """Stack arrays: the addresses and sizes of a bulk copy's targets."""
        self._masks: Val | None = None
        self._tested: Val | None = None
        self._pending: dict[str, int] = {}

    def notes(self) -> Mapping[str, Any]:
        return {"stages": {"pending": self._pending, "clusters": self.e.program.clusters}}

    # ---- blocks of threads ------------------------------------------------------------------
    def started(self, b: Builder, context: Val, worker: Val, slot: Val) -> None:
        launch = b.load("ptr", 0, b.at(context, ContextFields.OBSERVER))
        events = b.load("ptr", 0, b.at(launch, LaunchFields.EVENTS))
        watched = b.integer("i1", 1)
        for i, (size, place) in enumerate(_PLACES):
            number = b.load("i32", 0, b.at(slot, place))
            if self.e.program.clusters:  # else each block runs for itself
                number = b.binary("udiv", number, b.load("i32", 0, b.at(context, size)))
            wanted = b.load("i64", 0, b.at(events, EventFields.CLUSTER + 8 * i))
            watched = watched & number.zext("i64").eq(wanted)
        address = b.val("i64", 0, f"ptrtoint {events.typed} to i64")
        chosen = b.select(watched, address, b.integer("i64", 0))
        b.store(chosen, b.at(b.load("ptr", 0, b.at(slot, SlotFields.OBSERVER)), self.AT), 8)

    def block(self, block: BasicBlock) -> None:
        e, b = self.e, self.e.b
        self._events = _events_of(b, e.slot)
        count = len(block.code) + (block.last is not None)
        with self._watched() as events:
            self._step(events, b.integer("i64", count))

    def released(self, b: Builder, slot: Val, number: Val) -> None:
        events = _events_of(b, slot)
        with b.when(events.ne(0), rare=True):
            pointer = b.val("ptr", 0, f"inttoptr {events.typed} to ptr")
            rank = b.integer("i64", 0)
            if self.e.program.clusters:
                rank = b.load("i32", 0, b.at(slot, SlotFields.RANK)).zext("i64")
            numbers = (number.zext("i64"), b.integer("i64", 0), b.integer("i64", 0))
            _record(b)(
                pointer, b.integer("i64", EventKind.RELEASE), b.integer("i64", 0), rank * WARPS,
                *numbers, b.integer("i64", 0),
            )  # fmt: skip

    # ---- events of a warp -------------------------------------------------------------------
    @contextmanager
    def _watched(self) -> Iterator[Val]:
        """Code for warps of the watched cluster only; yields the memory of the events."""
        b, events = self.e.b, self._events
        assert events is not None
        with b.when(events.ne(0), rare=True):
            yield b.val("ptr", 0, f"inttoptr {events.typed} to ptr")

    def _who(self) -> Val:
        e, b = self.e, self.e.b
        warp = e.warp.zext("i64")
        if not e.program.clusters:
            return warp
        return warp + (e.rank_base.zext("i64") >> CLUSTER_SHIFT) * b.integer("i64", WARPS)

    def _step(self, events: Val, by: Val) -> None:
        """Add instructions to those that the warp has executed."""
        b = self.e.b
        place = b.at(b.at(events, EventFields.STEPS), self._who() << 3)
        b.store(b.load("i64", 0, place, 8) + by, place, 8)

    def _add(self, events: Val, kind: EventKind, *numbers: Val) -> None:
        """Record an event: `numbers` are FIRST, SECOND, BARRIER, PHASE; those left out are 0."""
        b, zero = self.e.b, self.e.b.integer("i64", 0)
        padded = (*numbers, *(zero for _ in range(4 - len(numbers))))
        index = b.integer("i64", self.e.ins.index)
        _record(b)(events, b.integer("i64", kind), index, self._who(), *padded)

    def _offset(self, address: Val) -> Val:
        """The address of PTX for one of the host, which is a vector or a number."""
        e, b = self.e, self.e.b
        start = b.val("i64", 0, f"ptrtoint {e.shared.typed} to i64")
        return address - (start - e.rank_base.zext("i64") if e.program.clusters else start)

    def instruction(self, ins: Instruction) -> None:
        step = decode(ins).row.async_
        if step is None or step.by is not Completion.PRODUCTS or step.step is AsyncStep.ISSUE:
            return
        waits = step.step is AsyncStep.WAIT
        if waits:
            (groups,) = ins.operands
            assert isinstance(groups, Imm), "the row takes nothing else"
            self._pending[str(ins.index)] = groups.value
        with self._watched() as events:
            self._add(events, EventKind.WAIT if waits else EventKind.COMMIT)

    def product(self, ins: Instruction, left: Val, right: Val) -> None:
        b = self.e.b
        base = b.integer("i64", 0)
        if self.e.program.clusters:
            base = self.e.rank_base.zext("i64")
        with self._watched() as events:
            first, second = (((x & _START) << 4) | base for x in (left, right))
            first = b.select(left.eq(0), b.integer("i64", -1), first)
            self._add(events, EventKind.PRODUCT, first, second)

    def barrier(self, number: Val, count: Val | None, lanes: Val) -> None:
        waits = self.e.b.integer("i64", int(is_block_barrier(self.e.ins)))
        with self._watched() as events:
            self._add(events, EventKind.BARRIER, number.zext("i64"), waits)

    def cluster_arrive(self, lanes: Val) -> None:
        with self._watched() as events:
            self._add(events, EventKind.CLUSTER_ARRIVE)

    def cluster_passed(self) -> None:
        # A warp that has waited goes on in code of its own.
        self._events = _events_of(self.e.b, self.e.slot)
        with self._watched() as events:
            self._add(events, EventKind.CLUSTER_PASS)

    # ---- memory -----------------------------------------------------------------------------
    def access(self, access: MemoryAccess) -> None:
        near = access.space in (Space.SHARED, Space.CLUSTER)
        match access.unit:
            case AccessUnit.MBARRIER:
                self._barrier_object(access)
            case AccessUnit.BULK if near and access.writes:
                self._keep_target(access)
            case AccessUnit.BULK if near:
                self._read_by_copy(access)
            case AccessUnit.COPY if access.writes:
                self._range(access, EventKind.PIECES)
            case AccessUnit.LANES | AccessUnit.MATRIX if near:
                self._range(access, EventKind.WRITE if access.writes else EventKind.READ)

    def _range(self, access: MemoryAccess, kind: EventKind) -> None:
        """Record the bytes from the first to the last one that lanes touch."""
        e, b = self.e, self.e.b
        lanes = touching(e, access)
        with self._watched() as events, b.when(lanes.ne(0)):
            limits = b.helper("stage_limits", [_P, _I32, _P], None, _limits)
            found = b.array("i64", 2)
            limits(e.memory.addresses(access.address), lanes, found)
            first, last = (b.load("i64", 0, b.at(found, at), 8) for at in (0, 8))
            moved = b.intrinsic("ctpop", [lanes]).zext("i64") * access.nbytes
            span = last - first + access.nbytes
            self._add(events, kind, self._offset(first), span, moved)

    def _read_by_copy(self, access: MemoryAccess) -> None:
        """Record each lane's source of a bulk copy."""
        e, b = self.e, self.e.b
        assert access.lanes is not None and access.sizes is not None
        with self._watched() as events:
            sizes = b.array("i32", 32)
            table = e.memory.addresses(access.address)
            b.store(access.sizes, sizes, 64)

            def one(lane: Val) -> None:
                first = b.load("i64", 0, b.at(table, lane.zext("i64") << 3), 8)
                nbytes = b.load("i32", 0, b.at(sizes, lane.zext("i64") << 2)).zext("i64")
                self._add(events, EventKind.READ, self._offset(first), nbytes)

            each_lane(b, access.lanes, one)

    def _keep_target(self, access: MemoryAccess) -> None:
        """Keep the targets of a copy until its mbarrier is known, which follows."""
        e, b = self.e, self.e.b
        assert access.sizes is not None
        if self._target is None:
            self._target = b.array("i64", 32), b.array("i32", 32)
        places, sizes = self._target
        self._masks = access.masks
        with self._watched():
            b.store(b.load("i64", 32, e.memory.addresses(access.address), 64), places, 64)
            b.store(access.sizes, sizes, 64)

    def _barrier_object(self, access: MemoryAccess) -> None:
        """Record an arrival, a copy that reports to the mbarrier, or that a test is next."""
        e, b = self.e, self.e.b
        if access.kind is AccessKind.READ:
            if self._tested is None:
                self._tested = b.array("i64", 32)
            with self._watched():
                table = e.memory.addresses(access.address)
                b.store(b.load("i64", 32, table, 64), self._tested, 64)
            return
        step = decode(access.ins).row.async_
        if step is not None and step.step is AsyncStep.ISSUE and _is_copy(access.ins):
            self._copy(access)
            return
        kind = EventKind.ARRIVE if step is None or step.step is AsyncStep.ISSUE else EventKind.AFTER
        kind = EventKind.INIT if access.kind is AccessKind.WRITE else kind
        lanes = touching(e, access)
        with self._watched() as events, b.when(lanes.ne(0)):
            # Lanes of a warp arrive at one barrier, mostly: the first one stands for all.
            lane = b.intrinsic("cttz", [lanes], extra="false").zext("i64")
            address = b.load("i64", 0, b.at(e.memory.addresses(access.address), lane << 3), 8)
            self._add(events, kind, *self._barrier(address))

    def _barrier(self, address: Val) -> tuple[Val, Val, Val, Val]:
        """Numbers of an event at an mbarrier: of no bytes."""
        b, zero = self.e.b, self.e.b.integer("i64", 0)
        pointer = b.val("ptr", 0, f"inttoptr {address.typed} to ptr")
        return zero, zero, self._offset(address), b.load("i64", 0, pointer, 8) >> PHASE_BITS

    def _copy(self, access: MemoryAccess) -> None:
        """Record the copies of an instruction; a multicast has one in each block."""
        e, b, target, masks = self.e, self.e.b, self._target, self._masks
        assert target is not None and access.lanes is not None, "the target comes first"
        places, sizes = target
        rank = e.rank_base.zext("i64") if e.program.clusters else b.integer("i64", 0)
        with self._watched() as events:
            table, blocks = e.memory.addresses(access.address), b.array("i32", 32)
            if masks is not None:
                b.store(masks, blocks, 64)

            def one(lane: Val) -> None:
                at8, at4 = lane.zext("i64") << 3, lane.zext("i64") << 2
                place, barrier = (b.load("i64", 0, b.at(x, at8), 8) for x in (places, table))
                nbytes = b.load("i32", 0, b.at(sizes, at4)).zext("i64")

                def to(distance: Val) -> None:
                    _, _, at, phase = self._barrier(barrier + distance)
                    numbers = self._offset(place + distance), nbytes, at, phase
                    self._add(events, EventKind.COPY, *numbers)

                if masks is None:
                    to(b.integer("i64", 0))
                    return
                mask = b.load("i32", 0, b.at(blocks, at4))
                each_lane(b, mask, lambda r: to((r.zext("i64") << CLUSTER_SHIFT) - rank))

            each_lane(b, access.lanes, one)

    def tested(self, ins: Instruction, over: Val) -> None:
        e, b = self.e, self.e.b
        assert self._tested is not None, "the barrier is read first"
        tested, lanes = self._tested, e.executing()
        passed = lanes & e.bits_of(over)
        with self._watched() as events:
            with b.when(passed.ne(0)):
                lane = b.intrinsic("cttz", [passed], extra="false").zext("i64")
                address = b.load("i64", 0, b.at(tested, lane << 3), 8)
                self._add(events, EventKind.PASS, *self._barrier(address))
            with b.when((lanes & ~passed).ne(0)):  # a test in vain is no progress
                count = len(e.block.code) + (e.block.last is not None)
                self._step(events, b.integer("i64", -count))
        e.forget_mask()


def _is_copy(ins: Instruction) -> bool:
    return any(x.does is Does.READ for x in decode(ins).row.effects)


def _events_of(b: Builder, slot: Val) -> Val:
    """The address of the memory of a slot's events, or 0."""
    own = b.load("ptr", 0, b.at(slot, SlotFields.OBSERVER))
    return b.load("i64", 0, b.at(own, StageWatcher.AT), 8)


def _limits(b: Builder, args: list[Val]) -> None:
    """(addresses, lanes, found): the least and the largest address."""
    table, lanes, found = args
    least, most = b.at(found, 0), b.at(found, 8)
    b.store(b.integer("i64", -1), least, 8)
    b.store(b.integer("i64", 0), most, 8)

    def one(lane: Val) -> None:
        address = b.load("i64", 0, b.at(table, lane.zext("i64") << 3), 8)
        b.store(b.umin(b.load("i64", 0, least, 8), address), least, 8)
        b.store(b.umax(b.load("i64", 0, most, 8), address), most, 8)

    each_lane(b, lanes, one)


def _record(b: Builder) -> Any:
    """(events, kind, instruction, who, four numbers): adds an event while there is room."""

    def body(x: Builder, args: list[Val]) -> None:
        events, kind, instruction, who, *numbers = args
        count = x.load("i64", 0, x.at(events, EventFields.COUNT), 8)
        x.store(count + 1, x.at(events, EventFields.COUNT), 8)
        with x.when(count.ult(MOST)):
            record = x.at(x.at(events, EventFields.RECORDS), count * EventFields.SIZE)
            step = x.load("i64", 0, x.at(x.at(events, EventFields.STEPS), who << 3), 8)
            for i, value in enumerate((kind, instruction, who, step, *numbers)):
                x.store(value, x.at(record, 8 * i), 8)

    return b.helper("stage_event", [_P, *[_I64] * 7], None, body)
