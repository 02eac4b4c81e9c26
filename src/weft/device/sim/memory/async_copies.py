"""cp.async: copies whose source is read when they are issued and that land when waited for.

Each warp has a ring of pending copies in its frame, so a kernel that forgets to wait reads what
shared memory held before. A wait lands the copies of the lanes that execute it. Where lanes commit
in different groups, a copy may land earlier than it must, never later. A full ring lands its oldest
copy. Where the lanes copy neighbours to neighbours, the warp makes one copy. A schedule may land
the copies of a warp earlier: when one is issued, or a group is committed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from weft.device.sim.access import AccessKind, AccessUnit, MemoryAccess
from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import ScheduleFields, Space
from weft.device.sim.memory import checks
from weft.device.sim.memory.accessing import Accessing
from weft.device.sim.memory.resolve import resolve
from weft.device.sim.observe import Watcher
from weft.device.sim.protocols import FrameSpace
from weft.errors import PtxError
from weft.ir import Builder, Val
from weft.ir.flush import least
from weft.ptx.isa import decode
from weft.ptx.isa.columns import Async, AsyncStep, Completion
from weft.ptx.model import Imm, Instruction, Mem, Operand, Reg

_P, _I32 = ("ptr", 0), ("i32", 0)
SIZES = (16, 8, 4)
"""Bytes that a lane copies."""


class Ring:
    """The ring's header, and its entries: one per instruction that a warp has issued."""

    HEAD, TAIL, GROUP = 0, 4, 8
    """Oldest and next entry (they only grow), and the group that is being gathered."""
    HEADER = 64
    LANES, OF_GROUP, SIZE, TARGETS, DATA = 0, 4, 8, 64, 64 + 8 * 32
    ENTRY = DATA + 16 * 32
    SMALLEST, LARGEST = 16, 64


class AsyncCopies:
    """Asynchronous copies of a warp under emission."""

    def __init__(self, e: Accessing, frame: FrameSpace) -> None:
        self.e = e
        blocks = e.program.graph.blocks
        issued = sum(_is_copy(ins) for block in blocks for ins in block.code)
        self.used = issued > 0
        self.count = Ring.SMALLEST
        # A power of two, so that an entry is found by masking its number. With room for twice the
        # copies in the code, a loop can issue those of its next round before it waits.
        while self.count < min(2 * issued, Ring.LARGEST):
            self.count *= 2
        nbytes = Ring.HEADER + self.count * Ring.ENTRY if self.used else 0
        self.at = frame.reserve(nbytes, self._start)

    def _start(self) -> None:
        """A fresh warp has nothing pending."""
        if self.used:
            self.e.b.store(self.e.b.zero("i32", 4), self._ring(), 16)

    def _ring(self) -> Val:
        return self.e.b.at(self.e.frame, self.at)

    # ---- issue ------------------------------------------------------------------------------
    def issue(self, ins: Instruction) -> None:
        """Read the source now, into a new entry of the ring."""
        e, b = self.e, self.e.b
        target, source, amount, *more = ins.operands
        if decode(ins).has_cache_hint:
            more = more[:-1]
        if not (isinstance(target, Mem) and isinstance(source, Mem) and isinstance(amount, Imm)):
            raise PtxError("cp.async takes two addresses and a size", got=ins.text)
        size, lanes = amount.value, e.executing()
        to = resolve(e, target, Space.SHARED)
        wanted = self._bytes_wanted(more[0], size) if more else None
        a = resolve(e, source, Space.GLOBAL)
        group = Completion.GROUP
        read = MemoryAccess(
            ins, AccessUnit.COPY, AccessKind.READ, a, size, sizes=wanted, waits=group
        )
        write = MemoryAccess(ins, AccessUnit.COPY, AccessKind.WRITE, to, size, waits=group)
        for access in (read, write):
            e.watch.access(access)
        if a.off == to.off == tuple(range(0, 32 * size, size)):
            whole = e.windows.inside(a, size)
            nothing = b.integer("i1", 0)
            # Where no lane reads a byte, the source is not checked: at the edge of a matrix it may
            # be out of bounds.
            if wanted is not None:
                whole = whole & least(b, wanted).eq(size)
                nothing = b.same(wanted, b.zero("i32", 32))
            together = lanes.eq(-1) & e.windows.inside(to, size)
            b.either(
                together & (whole | nothing),
                lambda: self._copy_row(write, read, lanes, nothing),
                lambda: self._copy_lanes(write, read, lanes),
            )
        else:
            self._copy_lanes(write, read, lanes)
        self._complete_at(ScheduleFields.AT_ISSUE)
        e.forget_mask()

    def _complete_at(self, moment: int) -> None:
        """Complete the copies of the warp if its schedule has chosen this moment.

        Not under an observer: it looks at the ring for the copies that a wait completes.
        """
        e, b = self.e, self.e.b
        if e.timing.on and type(e.watch) is Watcher:
            with b.when(e.timing.chance(moment)):
                self._land(None, every_lane=True)

    def _begin(self, lanes: Val, size: int) -> Val:
        """A new entry of the ring."""
        b = self.e.b
        fn = b.helper(
            f"async_begin_{self.count}",
            [_P, _I32, _I32],
            _P,
            lambda x, args: _begin(x, args, self.count),
        )
        return fn(self._ring(), lanes, b.integer("i32", size))

    def _copy_row(self, write: MemoryAccess, read: MemoryAccess, lanes: Val, nothing: Val) -> None:
        """Copy for the whole warp at once, with a negative size; zeros if it wants nothing."""
        b, to, a, size = self.e.b, write.address, read.address, read.nbytes
        entry = self._begin(lanes, -size)
        assert to.first is not None and a.first is not None
        b.store(to.first, b.at(entry, Ring.TARGETS), 8)
        data = b.at(entry, Ring.DATA)
        with b.when(nothing):
            b.store(b.zero("i32", 8 * size), data, 16)
        with b.when(nothing ^ 1):
            source = b.val("ptr", 0, f"inttoptr {a.first.typed} to ptr")
            b.store(b.load("i32", 8 * size, source, size), data, 16)

    def _copy_lanes(self, write: MemoryAccess, read: MemoryAccess, lanes: Val) -> None:
        """Each lane's copy by itself."""
        entry = self._begin(lanes, read.nbytes)
        self._note_targets(write, lanes, entry)
        if read.sizes is None:
            self._read(read, lanes, entry)
        else:
            self._read_partly(read, lanes, entry, read.sizes)

    def _note_targets(self, access: MemoryAccess, lanes: Val, entry: Val) -> None:
        """Check the targets of a whole warp and record them as vectors."""
        e, b, nbytes = self.e, self.e.b, access.nbytes
        offsets = access.address.shared_offsets()
        if offsets is None:
            self._note_each_target(access, lanes, entry)
            return
        fn = b.helper(
            f"async_targets_{nbytes}",
            [_P, _I32, _I32, ("i32", 32), _P],
            ("i1", 0),
            lambda x, args: _all_targets(x, args, nbytes),
        )
        done = fn(e.shared, e.shared_bytes, lanes, offsets, entry)
        # If a lane does not run or fails, the lanes are looked at one by one.
        with b.when(done ^ 1, rare=True):
            self._note_each_target(access, lanes, entry)

    def _note_each_target(self, access: MemoryAccess, lanes: Val, entry: Val) -> None:
        e = self.e

        def touch(b: Builder, lane: Val, p: Val, extra: list[Val]) -> None:
            b.store(p, b.at(b.at(extra[0], Ring.TARGETS), lane.zext("i64") << 3), 8)

        fn = checks.checked_lanes(e, f"async_target_{access.nbytes}", access, [_P], touch)
        e.abort_unless(fn(e.memory.addresses(access.address), lanes, e.windows.site(), entry))

    def _read(self, access: MemoryAccess, lanes: Val, entry: Val) -> None:
        e, size = self.e, access.nbytes

        def touch(b: Builder, lane: Val, p: Val, extra: list[Val]) -> None:
            at = b.at(b.at(extra[0], Ring.DATA), lane.zext("i64") << 4)
            b.store(b.load(f"i{8 * size}", 0, p, size), at, 16)

        fn = checks.checked_lanes(e, f"async_read_{size}", access, [_P], touch)
        e.abort_unless(fn(e.memory.addresses(access.address), lanes, e.windows.site(), entry))

    def _bytes_wanted(self, operand: Operand, size: int) -> Val:
        """Bytes to read, per lane: `src-size`, or none where `ignore-src` holds."""
        e, b = self.e, self.e.b
        if isinstance(operand, Reg) and e.program.function.registers[operand.name] == "pred":
            ignored = e.read_lanes(operand, "pred")
            return ignored.select(b.zero("i32", 32), size)
        return b.umin(e.read_lanes(operand, "u32"), size)

    def _read_partly(self, access: MemoryAccess, lanes: Val, entry: Val, wanted: Val) -> None:
        """Copy for lanes that read everything, then for those that read a part, then zeros."""
        e, b, size = self.e, self.e.b, access.nbytes
        whole = lanes & e.bits_of(wanted.eq(size))
        part = lanes & e.bits_of(wanted.ne(size) & wanted.ne(0))
        with b.when(whole.ne(lanes)):
            b.store(b.zero("i32", 128), b.at(entry, Ring.DATA), 16)
        self._read(access, whole, entry)
        with b.when(part.ne(0), rare=True):
            self._read_bytes(replace(access, nbytes=1), part, entry, wanted)

    def _read_bytes(self, byte: MemoryAccess, lanes: Val, entry: Val, wanted: Val) -> None:
        """Check the last byte and then the first, and copy what is between."""
        e, b = self.e, self.e.b
        addresses, counts = e.memory.addresses(byte.address), e.memory.buffer(1)
        first = b.load("i64", 32, addresses, 64)
        b.store(wanted, counts, 64)
        b.store(first + (wanted - 1).zext("i64"), addresses, 64)

        def nothing(b: Builder, lane: Val, p: Val, extra: list[Val]) -> None:
            """Do nothing: only the check matters."""

        site = e.windows.second_site()
        check = checks.checked_lanes(e, "async_last_byte", byte, [], nothing)
        e.abort_unless(check(addresses, lanes, site))
        b.store(first, addresses, 64)

        def touch(b: Builder, lane: Val, p: Val, extra: list[Val]) -> None:
            at = b.at(b.at(extra[0], Ring.DATA), lane.zext("i64") << 4)
            with b.loop(b.load("i32", 0, b.at(extra[1], lane.zext("i64") << 2))) as i:
                k = i.zext("i64")
                b.store(b.load("i8", 0, b.at(p, k)), b.at(at, k))

        copy = checks.checked_lanes(e, "async_bytes", byte, [_P, _P], touch)
        e.abort_unless(copy(addresses, lanes, site, entry, counts))

    # ---- completion -------------------------------------------------------------------------
    def commit(self) -> None:
        """Close the group that is being collected."""
        if self.used:
            e, b = self.e, self.e.b
            at = b.at(self._ring(), Ring.GROUP)
            # A commit that no lane executes must not close the group.
            b.store(b.load("i32", 0, at) + e.executing().ne(0).zext("i32"), at)
            self._complete_at(ScheduleFields.AT_COMMIT)

    def wait(self, pending: int | None) -> None:
        """Complete all but the last `pending` groups; None: every copy, committed or not."""
        if self.used:
            self._land(pending)

    def _land(self, pending: int | None, *, every_lane: bool = False) -> None:
        e, b = self.e, self.e.b
        fn = b.helper(
            f"async_wait_{self.count}",
            [_P, _I32, _I32],
            None,
            lambda x, args: _wait(x, args, self.count),
        )
        ring = self._ring()
        lanes = b.integer("i32", -1) if every_lane else e.executing()
        fn(ring, lanes, b.integer("i32", -1 if pending is None else pending))


_COPY = Async(AsyncStep.ISSUE, Completion.GROUP)


def _is_copy(ins: Instruction) -> bool:
    return decode(ins).row.async_ == _COPY


def _field(b: Builder, p: Val, at: int) -> Val:
    return b.load("i32", 0, b.at(p, at))


def _entry(b: Builder, ring: Val, number: Val, count: int) -> Val:
    return b.at(b.at(ring, Ring.HEADER), (number & (count - 1)).zext("i64") * Ring.ENTRY)


def _begin(b: Builder, args: list[Val], count: int) -> Val:
    """(ring, lanes, size) -> a new entry, after the oldest has made room if it must."""
    ring, lanes, size = args
    head, tail = _field(b, ring, Ring.HEAD), _field(b, ring, Ring.TAIL)
    with b.when((tail - head).eq(count), rare=True):
        _land(b, _entry(b, ring, head, count), b.integer("i32", -1))
        b.store(head + 1, b.at(ring, Ring.HEAD))
    entry = _entry(b, ring, tail, count)
    b.store(tail + 1, b.at(ring, Ring.TAIL))
    b.store(lanes, b.at(entry, Ring.LANES))
    b.store(_field(b, ring, Ring.GROUP), b.at(entry, Ring.OF_GROUP))
    b.store(size, b.at(entry, Ring.SIZE))
    return entry


def _all_targets(b: Builder, args: list[Val], nbytes: int) -> Val:
    """(shared memory, its size, lanes, offsets, entry) -> true if all were inside and recorded."""
    shared, size, lanes, offsets, entry = args
    starts = b.intrinsic("usub.sat", [size, b.integer("i32", nbytes - 1)])
    wrong = b.any(offsets.uge(starts) | (offsets & (nbytes - 1)).ne(0))
    done = lanes.eq(-1) & (wrong ^ 1)
    with b.when(done):
        first = b.val("i64", 0, f"ptrtoint {shared.typed} to i64")
        b.store(first + offsets.zext("i64"), b.at(entry, Ring.TARGETS), 8)
    return done


def _land(b: Builder, entry: Val, lanes: Val) -> None:
    """Write the data of some lanes' copies to shared memory."""

    def body(x: Builder, inner: list[Val]) -> None:
        entry, lanes = inner
        pending = _field(x, entry, Ring.LANES)
        x.store(pending & ~lanes, x.at(entry, Ring.LANES))
        with x.when(_field(x, entry, Ring.SIZE).slt(0)):
            with x.when((pending & lanes).eq(-1)):
                _land_row(x, entry)
                x.ret()
            _take_apart(x, entry)
        size = _field(x, entry, Ring.SIZE)
        for nbytes in SIZES:
            with x.when(size.eq(nbytes)):
                with x.when((pending & lanes).eq(-1)):
                    with x.loop(32) as lane:
                        one(x, entry, nbytes, lane)
                    x.ret()
                each_lane(x, pending & lanes, partial(one, x, entry, nbytes))

    def one(x: Builder, entry: Val, nbytes: int, lane: Val) -> None:
        i = lane.zext("i64")
        target = x.load("ptr", 0, x.at(x.at(entry, Ring.TARGETS), i << 3), 8)
        data = x.load(f"i{8 * nbytes}", 0, x.at(x.at(entry, Ring.DATA), i << 4), 16)
        x.store(data, target, nbytes)

    b.helper("async_land", [_P, _I32], None, body)(entry, lanes)


def _land_row(x: Builder, entry: Val) -> None:
    """Write the data of a copy that the whole warp made as one."""
    size = _field(x, entry, Ring.SIZE)
    target = x.load("ptr", 0, x.at(entry, Ring.TARGETS), 8)
    for nbytes in SIZES:
        with x.when(size.eq(-nbytes)):
            data = x.load("i32", 8 * nbytes, x.at(entry, Ring.DATA), 16)
            x.store(data, target, nbytes)


def _take_apart(x: Builder, entry: Val) -> None:
    """Split a copy of the whole warp into one per lane: they do not wait for it together.

    From the last lane down, since a lane's place is at or behind its data in the row.
    """
    size = _field(x, entry, Ring.SIZE)
    first = x.load("i64", 0, x.at(entry, Ring.TARGETS), 8)
    for nbytes in SIZES:
        with x.when(size.eq(-nbytes)), x.loop(x.integer("i32", 32)) as i:
            lane = (x.integer("i32", 31) - i).zext("i64")
            row, own = (x.at(x.at(entry, Ring.DATA), lane * n) for n in (nbytes, 16))
            x.store(x.load(f"i{8 * nbytes}", 0, row, nbytes), own, 16)
            x.store(first + lane * nbytes, x.at(x.at(entry, Ring.TARGETS), lane << 3), 8)
    x.store(x.integer("i32", 0) - size, x.at(entry, Ring.SIZE))


def _wait(b: Builder, args: list[Val], count: int) -> None:
    """(ring, lanes, groups that may stay pending): completes the others and shortens the ring."""
    ring, lanes, pending = args
    head, tail = _field(b, ring, Ring.HEAD), _field(b, ring, Ring.TAIL)
    # With -1 pending the limit is past the group that is being gathered, so its copies land too.
    limit = _field(b, ring, Ring.GROUP) - pending
    first = b.alloca("i32")
    b.store(head, first)
    with b.loop(tail - head) as i:
        entry = _entry(b, ring, head + i, count)
        # The sign of the difference decides, since group numbers may wrap.
        with b.when((_field(b, entry, Ring.OF_GROUP) - limit).slt(0)):
            _land(b, entry, lanes)
        # The ring shrinks from its head only: an entry that has landed stays while lanes of an
        # older one still wait.
        oldest = b.load("i32", 0, first).eq(head + i)
        with b.when(oldest & _field(b, entry, Ring.LANES).eq(0)):
            b.store(head + i + 1, first)
    b.store(b.load("i32", 0, first), b.at(ring, Ring.HEAD))
