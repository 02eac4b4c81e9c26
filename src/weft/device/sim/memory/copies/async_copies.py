"""cp.async: copies that land when they are waited for.

Each warp has a ring of pending copies in its frame, so a kernel that forgets to wait reads what
shared memory held before. A wait lands the copies of the lanes that execute it. Where lanes commit
in different groups, a copy may land earlier than it must, never later. Where the lanes copy
neighbours to neighbours, the warp makes one copy.

The source is read when a copy is issued. A schedule may also have it read when the copy lands, and
may land the copies of a warp earlier: when one is issued, or a group is committed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from weft.device.sim.access import AccessKind, AccessUnit, MemoryAccess
from weft.device.sim.layout import ScheduleFields, Space
from weft.device.sim.memory import checks
from weft.device.sim.memory.accessing import Accessing
from weft.device.sim.memory.copies.copy_ring import Ring, RingShape, begin, land
from weft.device.sim.memory.resolve import resolve
from weft.device.sim.protocols import FrameSpace
from weft.errors import PtxError
from weft.ir import Builder, Val
from weft.ir.flush import least
from weft.ptx.isa import decode
from weft.ptx.isa.columns import Async, AsyncStep, Completion
from weft.ptx.model import Imm, Instruction, Mem, Operand, Reg

_P = ("ptr", 0)


class Copying(Accessing, Protocol):
    """The emitter's interface for copies."""

    observed: bool


class AsyncCopies:
    """Asynchronous copies of a warp under emission."""

    def __init__(self, e: Copying, frame: FrameSpace) -> None:
        self.e = e
        blocks = e.program.graph.blocks
        issued = sum(_is_copy(ins) for block in blocks for ins in block.code)
        self.used = issued > 0
        self.count = Ring.SMALLEST
        # A power of two, so that an entry is found by masking its number. With room for twice the
        # copies in the code, a loop can issue those of its next round before it waits.
        while self.count < min(2 * issued, Ring.LARGEST):
            self.count *= 2
        # An observer looks at the ring for the copies that a wait completes.
        self._varies = e.timing.on and not e.observed
        self._shape = RingShape(self.count, late=self._varies)
        self.at = frame.reserve(self._shape.nbytes if self.used else 0, self._start)

    def _start(self) -> None:
        """A fresh warp has nothing pending."""
        if self.used:
            self.e.b.store(self.e.b.zero("i32", 4), self._ring(), 16)

    def _ring(self) -> Val:
        return self.e.b.at(self.e.frame, self.at)

    # ---- issue ------------------------------------------------------------------------------
    def issue(self, ins: Instruction) -> None:
        """Make a new entry of the ring."""
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
        """Complete the copies of the warp if its schedule has chosen this moment."""
        if self._varies:
            with self.e.b.when(self.e.timing.chance(moment)):
                self._land(None, every_lane=True)

    def _begin(self, lanes: Val, size: int) -> Val:
        """A new entry of the ring."""
        b = self.e.b
        return begin(b, self._shape)(self._ring(), lanes, b.integer("i32", size))

    def _read_or_note(self, read: Callable[[], None], note: Callable[[], None]) -> None:
        """Emit `read`, or `note` where the schedule has the source read when the copy lands."""
        if not self._varies:
            read()
            return
        self.e.b.either(self.e.timing.chance(ScheduleFields.READ_LATE), note, read)

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
            first = a.first
            source = b.val("ptr", 0, f"inttoptr {first.typed} to ptr")

            def read_now() -> None:
                b.store(b.load("i32", 8 * size, source, size), data, 16)

            def note() -> None:
                b.store(first, b.at(entry, Ring.SOURCES), 8)
                b.store(b.integer("i32", -1), b.at(entry, Ring.LATE))

            self._read_or_note(read_now, note)

    def _copy_lanes(self, write: MemoryAccess, read: MemoryAccess, lanes: Val) -> None:
        """Each lane's copy by itself."""
        entry = self._begin(lanes, read.nbytes)
        self._note_targets(write, lanes, entry)
        if read.sizes is None:
            self._read_or_note(
                lambda: self._read(read, lanes, entry), lambda: self._note(read, lanes, entry)
            )
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
            [_P, ("i32", 0), ("i32", 0), ("i32", 32), _P],
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

    def _note(self, access: MemoryAccess, lanes: Val, entry: Val) -> None:
        """Check the sources, and record them."""
        e, b = self.e, self.e.b

        def touch(b: Builder, lane: Val, p: Val, extra: list[Val]) -> None:
            b.store(p, b.at(b.at(extra[0], Ring.SOURCES), lane.zext("i64") << 3), 8)

        fn = checks.checked_lanes(e, f"async_source_{access.nbytes}", access, [_P], touch)
        e.abort_unless(fn(e.memory.addresses(access.address), lanes, e.windows.site(), entry))
        b.store(lanes, b.at(entry, Ring.LATE))

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
        self._read_or_note(
            lambda: self._read(access, whole, entry), lambda: self._note(access, whole, entry)
        )
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
        lanes = b.integer("i32", -1) if every_lane else e.executing()
        left = b.integer("i32", -1 if pending is None else pending)
        land(b, self._shape)(self._ring(), lanes, left)


_COPY = Async(AsyncStep.ISSUE, Completion.GROUP)


def _is_copy(ins: Instruction) -> bool:
    return decode(ins).row.async_ == _COPY


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
