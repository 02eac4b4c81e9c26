"""cp.async: until it is waited for, a copy counts for every thread as a write of another one."""

from __future__ import annotations

from collections.abc import Callable

from weft.device.sim.access import MemoryAccess
from weft.device.sim.address import Address
from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import SlotFields
from weft.device.sim.memory.copies.copy_ring import SIZES, Ring
from weft.device.sim.tools.sanitizer.checking import Checking
from weft.device.sim.tools.sanitizer.layout import BlockState, Record
from weft.device.sim.tools.sanitizer.order.words import put, word
from weft.ir import Builder, Val
from weft.ptx.isa import decode
from weft.ptx.isa.columns import Async, AsyncStep, Completion
from weft.ptx.model import Imm, Instruction

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)
_WITH_COPIES = Async(AsyncStep.ARRIVE, Completion.MBARRIER)
"""The effect of cp.async.mbarrier.arrive."""
SITE = 16
"""The offset, in an entry of the ring of copies, of the record of the issuing instruction."""


class Copies:
    """Records of copies: pending when issued, written when they are waited for."""

    def __init__(self, w: Checking) -> None:
        self.w = w

    def started(self, b: Builder, slot: Val) -> None:
        """Drop the copies that the previous block of the slot never waited for."""
        if not self.w.e.copies.used:
            return

        def body(x: Builder, args: list[Val]) -> None:
            p = x.load("ptr", 0, x.at(args[0], SlotFields.OBSERVER))
            words = word(x, args[0], SlotFields.SHARED_BYTES) >> 2
            with x.loop(words.trunc("i32")) as i:
                at = x.at(x.at(p, self.w.layout.writers), i.zext("i64") << 3)
                record = word(x, at)
                pending = (record >> Record.CLOCK).eq(Record.PENDING)
                put(x, pending.select(x.integer("i64", 0), record), at)

        b.helper("sanitizer_forget_copies", [_P], None, body)(slot)

    def read(self, access: MemoryAccess, lanes: Val) -> None:
        """Check the source as far as each lane reads it: the address of other lanes may be invalid.

        A word of which some bytes are wanted counts as read.
        """
        w, e, b, a = self.w, self.w.e, self.w.e.b, access.address
        if access.sizes is None:
            w.touch(a, w.way(False, access.nbytes, 0), lanes)
            return
        whole = e.bits_of(access.sizes.eq(access.nbytes))
        w.touch(a, w.way(False, access.nbytes, 0), lanes & whole)
        part = lanes & ~whole & e.bits_of(access.sizes.ne(0))
        with b.when(part.ne(0), rare=True):
            start = b.load("i64", 32, e.memory.addresses(a), 64)
            for i in range(0, access.nbytes, 4):
                more = part & e.bits_of(access.sizes.ugt(i))
                w.touch(Address(a.space, None, exact=start + i), w.way(False, 4, 0), more)

    def issued(self, access: MemoryAccess, lanes: Val) -> None:
        """Assign the target to the copy; its entry of the ring is the next one."""
        w, e, b = self.w, self.w.e, self.w.e.b
        target, nbytes = access.address, access.nbytes
        w.touch(target, w.way(True, nbytes, 0), lanes)
        count = e.copies.count

        def body(x: Builder, args: list[Val]) -> None:
            slot, warp, site, ring, table, lanes = args
            head, tail = (x.load("i32", 0, x.at(ring, at)) for at in (Ring.HEAD, Ring.TAIL))
            # As in the ring itself: where it is full, the oldest entry makes room.
            with x.when((tail - head).eq(count), rare=True):
                everyone = x.integer("i32", -1)
                self._landed(x, slot, warp, _entry(x, ring, head, count), everyone)
            put(x, site, _entry(x, ring, tail, count), SITE)
            who = site | (warp.zext("i64") << Record.WARP)
            who = who | ((Record.PENDING << Record.CLOCK) | Record.ALL_BYTES)
            _mark(x, w.layout, slot, _listed(x, table), lanes, nbytes, who)

        kinds = [_P, _I32, _I64, _P, _P, _I32]
        fn = b.helper(f"sanitizer_issue_{nbytes}", kinds, None, body)
        ring = b.at(e.frame, e.copies.at)
        fn(e.slot, e.warp, w.site(), ring, e.memory.addresses(target), lanes)

    def _landed(self, x: Builder, slot: Val, warp: Val, entry: Val, lanes: Val) -> None:
        """Record that these lanes have now written the copies of an entry."""
        w = self.w
        p = x.load("ptr", 0, x.at(slot, SlotFields.OBSERVER))
        tag = word(x, w.clocks.row(x, p, warp), BlockState.SHARED_TAG) | Record.ALL_BYTES
        landed = x.load("i32", 0, x.at(entry, Ring.LANES)) & lanes
        size = x.load("i32", 0, x.at(entry, Ring.SIZE))
        who = tag | word(x, entry, SITE)
        targets = x.at(entry, Ring.TARGETS)
        first = word(x, targets)
        for nbytes in SIZES:
            with x.when(size.eq(nbytes)):
                _mark(x, w.layout, slot, _listed(x, targets), landed, nbytes, who)
            with x.when(size.eq(-nbytes)):  # one copy of the whole warp
                _mark(x, w.layout, slot, _in_a_row(first, nbytes), landed, nbytes, who)

    def instruction(self, ins: Instruction) -> None:
        """Record the copies that a wait, or an arrival with the copies, completes."""
        if not self.w.e.copies.used:
            return
        if decode(ins).row.async_ == _WITH_COPIES:
            self._land(-1)  # threads that wait for the mbarrier have waited for the copies
        elif decode(ins).row.async_ == Async(AsyncStep.WAIT, Completion.GROUP):
            pending = ins.operands[0] if ins.operands else Imm(-1)  # wait_all has no operand
            assert isinstance(pending, Imm), "the row asks for a literal"
            self._land(pending.value)

    def _land(self, pending: int) -> None:
        e, b = self.w.e, self.w.e.b
        count = e.copies.count

        def body(x: Builder, args: list[Val]) -> None:
            slot, warp, ring, lanes, pending = args
            head, tail = (x.load("i32", 0, x.at(ring, at)) for at in (Ring.HEAD, Ring.TAIL))
            limit = x.load("i32", 0, x.at(ring, Ring.GROUP)) - pending
            with x.loop(tail - head) as i:
                entry = _entry(x, ring, head + i, count)
                group = x.load("i32", 0, x.at(entry, Ring.OF_GROUP))
                with x.when((group - limit).slt(0)):
                    self._landed(x, slot, warp, entry, lanes)

        fn = b.helper(f"sanitizer_land_{count}", [_P, _I32, _P, _I32, _I32], None, body)
        fn(e.slot, e.warp, b.at(e.frame, e.copies.at), e.executing(), b.integer("i32", pending))


def _entry(b: Builder, ring: Val, number: Val, count: int) -> Val:
    return b.at(b.at(ring, Ring.HEADER), (number & (count - 1)).zext("i64") * Ring.ENTRY)


def _listed(x: Builder, table: Val) -> Callable[[Val], Val]:
    return lambda lane: word(x, x.at(table, lane << 3))


def _in_a_row(first: Val, nbytes: int) -> Callable[[Val], Val]:
    return lambda lane: first + lane * nbytes


def _mark(
    x: Builder, layout: BlockState, slot: Val, target: Callable[[Val], Val], lanes: Val,
    nbytes: int, who: Val,
) -> None:  # fmt: skip
    """Write the records of the words that the copies of some lanes go to."""
    p = x.load("ptr", 0, x.at(slot, SlotFields.OBSERVER))

    def one(lane: Val) -> None:
        rel = target(lane.zext("i64")) - word(x, slot, SlotFields.SHARED)
        with x.when(rel.ule(word(x, slot, SlotFields.SHARED_BYTES) - nbytes)):
            at = x.at(x.at(p, layout.writers), rel << 1)
            for i in range(nbytes // 4):
                put(x, who | (lane.zext("i64") << Record.LANE), at, 8 * i)

    each_lane(x, lanes, one)
