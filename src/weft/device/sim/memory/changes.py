"""Records that a warp has changed something that another thread can see.

A kernel with loops that may be waiting sets `WorkerFields.CHANGED` whenever it writes. An atomic
that leaves its place as it was (a failed compare-and-swap, an addition of zero) changes nothing,
nor does a store to shared or local memory of what is there already: these are what a waiting loop
does. Every other store counts as a change, whatever it stores. `stall.py` reads the flag.
"""

from __future__ import annotations

from collections.abc import Collection

from weft.device.sim.access import MemoryAccess
from weft.device.sim.analyse.waits import may_change
from weft.device.sim.layout import WorkerFields
from weft.device.sim.memory import checks
from weft.device.sim.memory.accessing import Accessing
from weft.ir import Builder, Val
from weft.ptx.isa import decode
from weft.ptx.model import Imm, Instruction


class ChangeRecorder:
    """The record of a warp's writes, under emission."""

    def __init__(self, e: Accessing, spin_heads: Collection[int]) -> None:
        self.e = e
        self.used = bool(spin_heads)
        self._noted = -1
        self._exact = self._loops_of_stores(spin_heads) if self.used else set()

    def _loops_of_stores(self, spin_heads: Collection[int]) -> set[int]:
        """Blocks of waiting loops whose only plain stores are to the block's own memory."""
        graph = self.e.program.graph
        out: set[int] = set()
        for head in spin_heads:
            members = graph.loops[head]
            code = [ins for m in members for ins in graph.blocks[m].code if self._changes(ins)]
            # Another kind of write counts as a change in any case, so comparing the stores of such
            # a loop would gain nothing.
            if all(_atomic(ins) or _own_store(ins) for ins in code):
                out |= members
        return out

    def _changes(self, ins: Instruction) -> bool:
        return may_change(ins, self.e.program.decoded[ins.index].row)

    def instruction(self, ins: Instruction) -> None:
        """Record the change of an instruction whose own code does not compare values."""
        e = self.e
        if not self.used or not self._changes(ins) or _atomic(ins) or self.looks_at(ins):
            return
        if ins.guard is not None and not e.predicate_taken:
            self.note(e.executing())
        elif e.predicate_taken or self._noted != e.block.index:  # once in a block will do
            e.b.store(e.b.integer("i64", 1), e.b.at(e.worker, WorkerFields.CHANGED))
            self._noted = -1 if e.predicate_taken else e.block.index

    def looks_at(self, ins: Instruction) -> bool:
        """Return whether this is a store that compares with the old value."""
        return self.used and self.e.block.index in self._exact and _own_store(ins)

    def note(self, lanes: Val) -> None:
        """Record that these lanes have changed something."""
        b = self.e.b
        at = b.at(self.e.worker, WorkerFields.CHANGED)
        b.store(b.load("i64", 0, at) | lanes.zext("i64"), at)

    def looks_at_atomic(self, ins: Instruction) -> bool:
        """Return whether the change depends on the value that this atomic has read."""
        return self.used and _atomic(ins)

    def store(self, access: MemoryAccess, lanes: Val) -> None:
        """Store lane by lane, and record whether that has changed anything."""
        e, b, values = self.e, self.e.b, access.values
        assert values is not None
        ty, size, count = values[0].element, values[0].bits // 8, len(values)
        data = e.memory.buffer(count)
        for i, v in enumerate(values):
            b.store(b.splat(b.bits(v), 32), b.at(data, 32 * size * i), 8)
        bits = f"i{8 * size}"

        def touch(x: Builder, lane: Val, p: Val, extra: list[Val]) -> None:
            element, changed = x.at(extra[0], lane.zext("i64") * size), x.integer(bits, 0)
            for i in range(count):
                place = x.at(p, i * size)
                new = x.load(bits, 0, x.at(element, 32 * size * i), size)
                changed = changed | (x.load(bits, 0, place, size) ^ new)
                x.store(new, place, size)
            # Once for all elements: each update waits for the one before it.
            x.store(x.load("i64", 0, extra[1]) | changed.ne(0).zext("i64"), extra[1])

        kinds = [("ptr", 0), ("ptr", 0)]
        name = f"store_noting_{ty}_{access.space}_x{count}"
        fn = checks.checked_lanes(e, name, access, kinds, touch)
        at = b.at(e.worker, WorkerFields.CHANGED)
        e.abort_unless(fn(e.memory.addresses(access.address), lanes, e.windows.site(), data, at))


def _atomic(ins: Instruction) -> bool:
    """Return whether it is an atomic that may leave its location unchanged."""
    d = decode(ins)
    # `inc` and `dec` leave the place alone only where their limit is 0. Counting that as a change
    # can hide a deadlock, but never reports a false one.
    if not (d.row.is_atomic and d.row.has_dest) or d.operation in ("inc", "dec"):
        return False
    operand = ins.operands[-1]
    return not (d.operation == "add" and isinstance(operand, Imm) and operand.value != 0)


def _own_store(ins: Instruction) -> bool:
    d = decode(ins)
    return d.row.is_store and d.space in ("shared", "local")
