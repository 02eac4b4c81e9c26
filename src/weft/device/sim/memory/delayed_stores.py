"""Stores that a schedule delays: other threads see what follows them first (`analyse.delays`).

A delayed store is an entry of a ring in the warp's frame, and lands before an instruction that
orders it, before the same thread accesses its target, before the warp waits in a loop, and when the
warp ends.
"""

from __future__ import annotations

from typing import Protocol

from weft.device.sim.access import MemoryAccess
from weft.device.sim.analyse import delays
from weft.device.sim.layout import Space, WorkerFields
from weft.device.sim.memory import checks
from weft.device.sim.memory.accessing import Accessing
from weft.device.sim.memory.copies.copy_ring import Ring, RingShape, begin, is_empty, land, overlaps
from weft.device.sim.protocols import FrameSpace
from weft.ir import Builder, Val
from weft.ptx.model import Instruction

SHAPE = RingShape(8, (16, 8, 4, 2, 1))
_P = ("ptr", 0)


class Suspend(Protocol):
    """Emits code that may suspend the warp, at its end."""

    def __call__(self) -> None: ...


class DelayedStores:
    """The delayed stores of a warp under emission."""

    def __init__(self, e: Accessing, frame: FrameSpace, may_suspend: Suspend) -> None:
        self.e, self._may_suspend = e, may_suspend
        self.at = frame.reserve(SHAPE.nbytes, self._start, self._finish)

    def _start(self) -> None:
        self.e.b.store(self.e.b.zero("i32", 4), self._ring(), 16)

    def _finish(self) -> None:
        """The warp ends: it may be overtaken once more before its stores land."""
        self._may_suspend()
        self.land()

    def _ring(self) -> Val:
        return self.e.b.at(self.e.frame, self.at)

    def are_pending(self) -> Val:
        """True at run time if stores have been delayed."""
        return is_empty(self.e.b, self._ring()) ^ 1

    def land(self) -> None:
        """Land all stores of the warp."""
        e, b = self.e, self.e.b
        with b.when(self.are_pending(), rare=True):
            every = b.integer("i32", -1)
            land(b, SHAPE)(self._ring(), every, every)
            b.store(b.integer("i64", 1), b.at(e.worker, WorkerFields.CHANGED))

    def before(self, ins: Instruction) -> None:
        """Land the stores that come before an instruction which orders them."""
        if delays.orders(self.e.program, ins) or delays.reaches(self.e.program, ins):
            self.land()

    def meet(self, access: MemoryAccess) -> None:
        """Land stores whose targets the same threads access."""
        e, b = self.e, self.e.b
        if access.space not in (Space.GLOBAL, Space.GENERIC):
            return
        with b.when(self.are_pending(), rare=True):
            table = e.memory.addresses(access.address)
            size = b.integer("i64", access.nbytes)
            with b.when(overlaps(b, SHAPE)(self._ring(), table, e.executing(), size)):
                self.land()
        e.forget_mask()

    def store(self, access: MemoryAccess, values: list[Val]) -> None:
        """Check the targets of a store, and record it."""
        e, b, nbytes = self.e, self.e.b, access.nbytes
        lanes, size = e.executing(), values[0].bits // 8
        entry = begin(b, SHAPE)(self._ring(), lanes, b.integer("i32", nbytes))
        data = e.memory.buffer(len(values))
        for i, v in enumerate(values):
            b.store(b.splat(b.bits(v), 32), b.at(data, 32 * size * i), 8)

        def touch(x: Builder, lane: Val, p: Val, extra: list[Val]) -> None:
            entry, data = extra
            i = lane.zext("i64")
            x.store(p, x.at(x.at(entry, Ring.TARGETS), i << 3), 8)
            for k in range(len(values)):
                element = x.load(f"i{8 * size}", 0, x.at(x.at(data, 32 * size * k), i * size), size)
                x.store(element, x.at(x.at(entry, Ring.DATA + size * k), i << 4), size)

        name = f"delay_{size}_x{len(values)}"
        fn = checks.checked_lanes(e, name, access, [_P, _P], touch)
        table = e.memory.addresses(access.address)
        e.abort_unless(fn(table, lanes, e.windows.site(), entry, data))
