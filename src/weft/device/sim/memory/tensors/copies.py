"""cp.async.bulk.tensor: copies between shared memory and a box of a tensor in global memory.

They are entries of the block's list of bulk copies (`bulk_list`) and complete as those do. The map
is decoded and everything is checked when a copy is issued (`plan`); `lines` moves the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from weft.device.sim.access import AccessKind, AccessUnit, MemoryAccess
from weft.device.sim.address import SPACES, Address
from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import Fault, SlotFields, Space, WorkerFields
from weft.device.sim.memory import checks
from weft.device.sim.memory.accessing import Accessing
from weft.device.sim.memory.bulk_list import Entries, Transfer
from weft.device.sim.memory.mbarriers import WORD
from weft.device.sim.memory.resolve import resolve
from weft.device.sim.memory.tensors import maps
from weft.device.sim.memory.tensors.job import Refusal, TensorJob
from weft.device.sim.memory.tensors.lines import REDUCTIONS, TensorTransfer, each_line
from weft.device.sim.memory.tensors.plan import plan
from weft.device.sim.observe import Watcher
from weft.device.tensor_map_layout import MAP_ALIGN, MAP_BYTES, TYPES
from weft.errors import PtxError
from weft.ir import Builder, Val
from weft.ptx.isa import decode
from weft.ptx.isa.columns import Does
from weft.ptx.model import Instruction, Mem, Operand

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)
LIMIT = 32
"""Entries of the list in a kernel with tensor copies, which are large."""


class _Rows:
    """Offsets in the scratch array: 32 words or addresses each, as `bulk_list.add` takes them."""

    SIZES, TARGET, SOURCE, BARRIER = 0, 256, 512, 768
    COORDINATES = 1024
    """32 words for each of 5 coordinates and of 3 offsets."""
    SIZE = COORDINATES + 8 * 128


def tensor_entries(issued: Sequence[Instruction]) -> Entries:
    """The list of a kernel with these tensor copies."""
    return Entries(sorted({transfer(ins) for ins in issued}), TensorJob.SIZE, LIMIT)


def transfer(ins: Instruction) -> TensorTransfer:
    """The kind of a tensor copy."""
    d = decode(ins)
    target = d.row.effects[0]
    loads = target.does is Does.WRITE and target.state_space(d.words) == "shared"
    return TensorTransfer("load" if loads else d.operation or "store", d.by_columns)


class BulkCopyList(Protocol):
    """The bulk copies of the warp, to which tensor copies are added."""

    def note(self, access: MemoryAccess, lanes: Val, into: Val) -> None:
        """Check the addresses of mbarriers and store them."""

    def masks(self, ins: Instruction) -> Val | None:
        """The blocks that each lane's multicast goes to."""

    def add(
        self, kind: Transfer | None, data: Val, lanes: Val, jobs: Val | None = None,
        masks: Val | None = None,
    ) -> None:  # fmt: skip
        """Record copies."""


class TensorCopies:
    """Tensor copies of a warp under emission, and changes of tensor maps."""

    def __init__(self, e: Accessing, bulk: BulkCopyList) -> None:
        self.e, self.bulk = e, bulk
        self._data: Val | None = None
        self._jobs: Val | None = None

    # ---- what rows ask for ------------------------------------------------------------------
    def replace(self, ins: Instruction, field: str, space: str, ptx_type: str) -> None:
        """`tensormap.replace`."""
        maps.replace(self.e, ins, field, space, ptx_type)

    def copy_map(self, ins: Instruction) -> None:
        """`tensormap.cp_fenceproxy`."""
        maps.copy(self.e, ins)

    def issue(self, ins: Instruction) -> None:
        """Check a copy, show its accesses to the observer, and record it."""
        e, b = self.e, self.e.b
        decoded, what = e.program.decoded[ins.index], transfer(ins)
        row = decoded.row
        loads = what.action == "load"
        if self._data is None or self._jobs is None:
            self._data = b.array("i8", _Rows.SIZE)
            self._jobs = b.array("i8", 32 * TensorJob.SIZE)
        data, jobs = self._data, self._jobs
        lanes = e.executing()
        self._coordinates(ins, data)
        b.store(b.zero("i64", 32), b.at(data, _Rows.BARRIER), 64)

        map_ = self._access(ins, "map", AccessUnit.LANES, AccessKind.READ, "", MAP_BYTES, lanes)
        near = ins.operands[row.position("a" if loads else "b")]
        assert isinstance(near, Mem)
        box = resolve(e, near, SPACES["shared"])
        self._check_maps(map_, lanes, b.at(data, _Rows.SOURCE))
        b.store(b.load("i64", 32, e.memory.addresses(box), 64), b.at(data, _Rows.TARGET), 64)
        self._plan(what, decoded.dimensions, data, jobs, lanes)
        if loads:
            barrier = self._access(
                ins, "mbar", AccessUnit.MBARRIER, AccessKind.ATOMIC, "shared", WORD, lanes
            )
            self.bulk.note(barrier, lanes, b.at(data, _Rows.BARRIER))
        masks = self.bulk.masks(ins)
        self._watch(ins, what, map_, box, data, jobs, lanes, masks)
        if loads:
            e.watch.access(barrier)
        self.bulk.add(what, data, lanes, jobs, masks)
        e.forget_mask()

    # ---- operands ---------------------------------------------------------------------------
    def _operand(self, ins: Instruction, name: str) -> Operand:
        return ins.operands[decode(ins).row.position(name)]

    def _coordinates(self, ins: Instruction, data: Val) -> None:
        e, b, d = self.e, self.e.b, decode(ins)
        rows = [("at", "s32", d.dimensions, 0)]
        if d.by_columns and any(x.name == "offsets" for x in d.row.written):
            rows.append(("offsets", "u16", d.dimensions - 2, 5))
        elif d.by_columns:  # a store reads each pixel at its place
            zero = b.zero("i32", 32)
            for i in range(5, 8):
                b.store(zero, b.at(data, _Rows.COORDINATES + 128 * i), 64)
        for name, kind, count, first in rows:
            values = e.read_vector(self._operand(ins, name), kind)
            if len(values) != count:
                what = "coordinates" if first == 0 else "offsets"
                raise PtxError(
                    f"{ins.opcode}: {len(values)} {what}", allowed=f"{count} in this mode"
                )
            for i, value in enumerate(values, first):
                at = b.at(data, _Rows.COORDINATES + 128 * i)
                b.store(b.resize(value, "i32"), at, 64)

    def _access(
        self, ins: Instruction, name: str, unit: AccessUnit, kind: AccessKind, space: str,
        nbytes: int, lanes: Val,
    ) -> MemoryAccess:  # fmt: skip
        mem, waits = self._operand(ins, name), decode(ins).row.completes_by
        assert isinstance(mem, Mem)
        a = resolve(self.e, mem, SPACES[space])
        # A map is read when the copy is issued.
        return MemoryAccess(
            ins, unit, kind, a, nbytes, None, lanes,
            waits=waits if unit is AccessUnit.MBARRIER else None,
        )  # fmt: skip

    # ---- checks -----------------------------------------------------------------------------
    def _check_maps(self, access: MemoryAccess, lanes: Val, into: Val) -> None:
        """Check that each lane names 128 aligned bytes; their addresses go to `into`."""
        e, b = self.e, self.e.b
        sizes = e.memory.offsets()
        b.store(b.splat(b.integer("i32", MAP_BYTES), 32), sizes, 64)
        table = e.memory.addresses(access.address)
        aligned = MemoryAccess(
            access.ins, access.unit, access.kind, access.address, MAP_BYTES, MAP_ALIGN
        )
        e.abort_unless(checks.check_ranges(e, aligned, table, sizes, lanes))
        b.store(b.load("i64", 32, table, 64), into, 64)

    def _plan(self, what: TensorTransfer, rank: int, data: Val, jobs: Val, lanes: Val) -> None:
        """Make the job of each lane, and check the memory that it touches."""
        e, b = self.e, self.e.b
        local_bytes, writes = e.program.local_bytes, int(what.action != "load")

        def body(x: Builder, args: list[Val]) -> Val:
            context, worker, slot, local, data, jobs, bits, number = args
            far = checks.address_check(x, Space.GLOBAL, local_bytes, 1)
            near = checks.address_check(x, Space.SHARED, local_bytes, 1)
            start = x.load("i64", 0, x.at(slot, SlotFields.SHARED), 8)
            window = x.array("i64", 2)

            def one(lane: Val) -> None:
                at8 = lane.zext("i64") << 3
                target = x.load("i64", 0, x.at(x.at(data, _Rows.TARGET), at8), 8)
                map_ = x.load("i64", 0, x.at(x.at(data, _Rows.SOURCE), at8), 8)
                job = x.at(jobs, lane.zext("i64") * TensorJob.SIZE)
                values = x.at(x.at(data, _Rows.COORDINATES), lane.zext("i64") << 2)
                pointer = x.val("ptr", 0, f"inttoptr {map_.typed} to ptr")
                made = plan(x, rank, columns=what.columns, loads=not writes)
                why = made(pointer, values, job, start, (target - start).trunc("i32"))
                why = self._refused_type(x, what, job, why)
                with x.when(why.ne(0), rare=True):
                    _refuse(x, worker, number, lane, map_, why)
                    x.ret(x.integer("i1", 0))
                if what.columns:
                    _measure(x, job)
                foot = x.load("i32", 0, x.at(job, TensorJob.FOOTPRINT), 4).zext("i64")
                lowest = x.load("i64", 0, x.at(job, TensorJob.LOWEST), 8)
                span = x.load("i64", 0, x.at(job, TensorJob.SPAN), 8)
                x.store(number, x.at(worker, WorkerFields.ERROR_SITE))
                fixed = (context, worker, slot, local, window)
                for check, address, size, flag in (
                    (near, target, foot, 1 - writes),
                    (far, lowest, span, writes),
                ):
                    x.store(x.zero("i64", 2), window, 8)  # of this range alone
                    flags = x.integer("i64", flag)
                    with x.when(size.ne(0)):
                        ok = check(*fixed, address, size, flags, lane)
                        with x.when(ok ^ 1, rare=True):
                            x.ret(x.integer("i1", 0))
                if writes:
                    end = _end(x, job, lambda more: far(*fixed, lowest, span + more, flags, lane))
                    x.store(lowest + span + end, x.at(job, TensorJob.END), 8)
                nbytes = x.load("i32", 0, x.at(job, TensorJob.NBYTES), 4)
                x.store(nbytes, x.at(x.at(data, _Rows.SIZES), lane.zext("i64") << 2), 4)

            each_lane(x, bits, one)
            return x.integer("i1", 1)

        mode = "columns" if what.columns else "tile"
        kinds = [_P, _P, _P, _P, _P, _P, _I32, _I64]
        fn = b.helper(f"tensor_issue_{what.action}_{mode}_{rank}", kinds, ("i1", 0), body)
        number = b.integer("i64", e.ins.index)
        e.abort_unless(fn(e.context, e.worker, e.slot, e.local, data, jobs, lanes, number))

    def _refused_type(self, b: Builder, what: TensorTransfer, job: Val, why: Val) -> Val:
        """Refuse a reduction of elements that have no such operation."""
        taken = REDUCTIONS.get(what.action)
        if taken is None:
            return why
        code = b.load("i32", 0, b.at(job, TensorJob.TYPE), 4)
        known = sum(1 << t.code for t in TYPES if t.name in taken)
        missing = ((b.integer("i32", known) >> (code & 31)) & 1).eq(0) & why.eq(0)
        return missing.select((code.zext("i64") << 8) | Refusal.TYPE, why)

    # ---- observers --------------------------------------------------------------------------
    def _watch(
        self, ins: Instruction, what: TensorTransfer, map_: MemoryAccess, box: Address, data: Val,
        jobs: Val, lanes: Val, masks: Val | None,
    ) -> None:  # fmt: skip
        """Show the map, the box in shared memory, and each line in global memory."""
        e, b = self.e, self.e.b
        if not self.observed():
            return
        loads, waits = what.action == "load", decode(ins).row.completes_by
        sizes = b.load("i32", 32, b.at(data, _Rows.SIZES), 64)
        kind = AccessKind.WRITE if loads else AccessKind.READ
        near = MemoryAccess(
            ins, AccessUnit.BULK, kind, box, 0, 16, lanes, sizes, waits=waits, masks=masks,
            jobs=jobs,
        )  # fmt: skip
        far_kind = (
            AccessKind.READ if loads
            else AccessKind.WRITE if what.action == "store" else AccessKind.REDUCTION
        )  # fmt: skip
        e.watch.access(map_)
        if not loads:
            e.watch.access(near)

        def one(lane: Val) -> None:
            job = b.at(jobs, lane.zext("i64") * TensorJob.SIZE)
            low, high, offset, pitch = (
                b.load("i32", 0, b.at(job, at), 4)
                for at in (TensorJob.LOW, TensorJob.HIGH, TensorJob.OFFSET, TensorJob.PITCH)
            )

            def line(number: Val, address: Val, inside: Val) -> None:
                with b.when(inside & low.ult(high)):
                    first = b.splat(address + low.zext("i64"), 32)
                    beside = b.splat((offset + number * pitch + low).zext("i64"), 32)
                    a = Address(Space.GLOBAL, None, exact=first, first=b.integer("i64", 0))
                    bit = b.integer("i32", 1) << lane
                    width = b.splat(high - low, 32)
                    e.forget_mask()
                    access = MemoryAccess(
                        ins, AccessUnit.BULK, far_kind, a, 0, 1, bit, width, waits=waits,
                        masks=masks, beside=beside,
                    )  # fmt: skip
                    e.watch.access(access)
                e.forget_mask()

            each_line(b, job, line, columns=what.columns)

        each_lane(b, lanes, one)
        e.forget_mask()
        if loads:
            e.watch.access(near)

    def observed(self) -> bool:
        """Return whether a tool watches the kernel."""
        return type(self.e.watch).access is not Watcher.access


def move_windows(b: Builder, jobs: Val, lanes: Val, distance: Val) -> None:
    """Let the jobs of these lanes copy to the block so many bytes away."""

    def one(lane: Val) -> None:
        at = b.at(b.at(jobs, lane.zext("i64") * TensorJob.SIZE), TensorJob.WINDOW)
        b.store(b.load("i64", 0, at, 8) + distance, at, 8)

    each_lane(b, lanes, one)


def _end(b: Builder, job: Val, is_writable: Callable[[Val], Val]) -> Val:
    """The bytes behind the tensor that a store writes as well.

    A GPU stores units of 16 bytes, also where the tensor ends in one. The last unit is cut off here
    if the bytes behind the tensor belong to other memory.
    """
    high = b.load("i32", 0, b.at(job, TensorJob.HIGH), 4)
    more = ((0 - high) & 15).zext("i64")
    none = b.integer("i64", 0)
    return b.either(
        more.eq(0), lambda: none, lambda: is_writable(more).select(more, none), likely=True
    )


def _measure(b: Builder, job: Val) -> None:
    """The bytes of the tensor that an im2col copy touches, from its lines."""
    least, most = b.alloca("i64"), b.alloca("i64")
    b.store(b.integer("i64", -1), least)
    b.store(b.integer("i64", 0), most)
    low, high = (b.load("i32", 0, b.at(job, at), 4) for at in (TensorJob.LOW, TensorJob.HIGH))

    def line(number: Val, address: Val, inside: Val) -> None:
        with b.when(inside & low.ult(high)):
            b.store(b.umin(b.load("i64", 0, least), address + low.zext("i64")), least)
            b.store(b.umax(b.load("i64", 0, most), address + high.zext("i64")), most)

    each_line(b, job, line, columns=True)
    first, end = b.load("i64", 0, least), b.load("i64", 0, most)
    b.store(first, b.at(job, TensorJob.LOWEST), 8)
    span = first.ult(end).select(end - first, b.integer("i64", 0))
    b.store(span, b.at(job, TensorJob.SPAN), 8)


def _refuse(b: Builder, worker: Val, number: Val, lane: Val, map_: Val, why: Val) -> None:
    fields = {
        WorkerFields.ERROR: b.integer("i64", Fault.TENSOR),
        WorkerFields.ERROR_SITE: number,
        WorkerFields.ERROR_LANE: lane.zext("i64"),
        WorkerFields.ERROR_ADDRESS: map_,
        WorkerFields.ERROR_BYTES: why & 255,
        WorkerFields.ERROR_WRITES: why >> 8,
    }
    for at, value in fields.items():
        b.store(value, b.at(worker, at))
