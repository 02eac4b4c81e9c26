"""cp.async.bulk: copies of whole ranges that land when somebody waits for them.

A block keeps a list of its copies in the frame of its first warp (`bulk_list`). A copy that reports
to an mbarrier lands when a warp tests that barrier; a copy of a bulk group lands when its warp
waits for the group, or ends. So a kernel that forgets to wait reads what was there before, or
sends off what it has overwritten since. A full list lets everything land.
"""

from __future__ import annotations

from weft.device.sim.address import SPACES, Address
from weft.device.sim.layout import Slot, Space
from weft.device.sim.memory import checks
from weft.device.sim.memory.accessing import Accessing
from weft.device.sim.memory.bulk_list import UNIT, Pending, Reduction, add, land
from weft.device.sim.memory.resolve import resolve
from weft.device.sim.observe import BulkCopy
from weft.device.sim.protocols import FrameSpace
from weft.ir import Builder, Val
from weft.ptx.model import Instruction, Mem

_P = ("ptr", 0)


class BulkCopies:
    """Bulk copies of a warp under emission."""

    def __init__(self, e: Accessing, frame: FrameSpace) -> None:
        self.e = e
        code = [ins for block in e.program.graph.blocks for ins in block.code]
        issued = [ins for ins in code if ins.parts[0] == "cp" and "bulk" in ins.parts]
        self.used = bool(issued)
        self.kinds = sorted({r for ins in issued if (r := _reduction(ins))})
        self.at = frame.reserve(Pending.SIZE if self.used else 0, self._start, self._finish)

    def _start(self) -> None:
        """A fresh warp has nothing pending."""
        if self.used:
            self.e.b.store(self.e.b.zero("i32", 4), self._own(), 16)

    def _own(self) -> Val:
        return self.e.b.at(self.e.frame, self.at)

    def pending(self) -> Val:
        """The block's list."""
        return self.e.b.at(self.e.slot, Slot.FRAMES + self.at)

    # ---- issue ------------------------------------------------------------------------------
    def issue(self, ins: Instruction, target: str, source: str, *, barrier: bool) -> None:
        """Checks both ranges, in these state spaces, and notes the copy."""
        e, b = self.e, self.e.b
        nbytes = e.read_lanes(ins.operands[2], "u32")
        lanes = e.executing() & e.bits_of(nbytes.ne(0))
        data = e.access.buffer(8)
        b.store(nbytes, data, 64)
        for i, space in enumerate((target, source)):
            mem = ins.operands[i]
            assert isinstance(mem, Mem)
            self._range(resolve(e, mem, SPACES[space]), lanes, data, b.at(data, 256 * (i + 1)), i)
        if barrier:
            mem = ins.operands[3]
            assert isinstance(mem, Mem)
            a = resolve(e, mem, Space.SHARED)
            self._note(a, lanes, b.at(data, 768))
        else:
            b.store(b.zero("i64", 32), b.at(data, 768), 64)
        reduction = _reduction(ins)
        ranges = b.at(data, 256), b.at(data, 512)
        e.watch.bulk(
            BulkCopy(SPACES[target], SPACES[source], reduction is not None, lanes, data, *ranges)
        )
        kind = b.integer("i32", self.kinds.index(reduction) + 1 if reduction else 0)
        group = b.load("i32", 0, b.at(self._own(), Pending.GROUP))
        add(b, self.kinds)(self.pending(), data, lanes, kind, e.warp, group)
        e.forget_mask()

    def _range(self, a: Address, lanes: Val, sizes: Val, into: Val, which: int) -> None:
        """A target (0) or source (1) of sizes[lane] bytes; where it begins goes to `into`."""
        e, b = self.e, self.e.b
        table = e.access.addresses(a)
        e.abort_unless(checks.check_ranges(e, a.space, table, lanes, sizes, UNIT, which == 0))
        b.store(b.load("i64", 32, table, 64), into, 64)

    def _note(self, a: Address, lanes: Val, into: Val) -> None:
        """Checks the addresses of mbarriers and leaves them in `into`."""
        e = self.e

        def touch(b: Builder, lane: Val, p: Val, extra: list[Val]) -> None:
            b.store(p, b.at(extra[0], lane.zext("i64") << 3), 8)

        fn = checks.checked_lanes(e, f"bulk_note_{a.space}", a, 8, True, [_P], touch)
        e.abort_unless(fn(e.access.addresses(a), lanes, e.windows.site(), into))

    # ---- completion -------------------------------------------------------------------------
    def commit(self) -> None:
        """Closes the group that is being gathered."""
        if self.used:
            e, b = self.e, self.e.b
            at = b.at(self._own(), Pending.GROUP)
            b.store(b.load("i32", 0, at) + e.executing().ne(0).zext("i32"), at)

    def wait(self, pending: int) -> None:
        """All but the last `pending` groups of this warp land."""
        if self.used:
            self._land_groups(-pending)

    def _finish(self) -> None:
        """The warp ends: what is on its way arrives."""
        if self.used:
            self._land_groups(1)

    def _land_groups(self, beyond: int) -> None:
        b = self.e.b
        limit = b.load("i32", 0, b.at(self._own(), Pending.GROUP)) + beyond
        land(b, self.kinds)(self.pending(), b.integer("i64", 0), self.e.warp, limit)

    def arrive(self, b: Builder, pending: Val, barrier: Val) -> None:
        """What reports to a barrier lands, before the barrier is tested."""
        address = b.val("i64", 0, f"ptrtoint {barrier.tref} to i64")
        zero = b.integer("i32", 0)
        land(b, self.kinds)(pending, address, zero, zero)


def _reduction(ins: Instruction) -> Reduction | None:
    """`cp.reduce.async.bulk.TARGET....op{.noftz}.type`; None for a copy."""
    if ins.parts[1] != "reduce":
        return None
    op = next(p for p in ins.parts if p in _OPERATIONS)
    return Reduction(op, ins.parts[-1], ins.parts[4].startswith("shared"))


_OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
