"""The sanitizer's code in a kernel: what is checked at each event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from weft.device.sim.address import Address
from weft.device.sim.layout import Fault, Space
from weft.device.sim.layout import Slot as Block
from weft.device.sim.layout import Worker as HostThread
from weft.device.sim.observe import Touch, Watcher
from weft.device.sim.sanitizer import meetings, origins, spins
from weft.device.sim.sanitizer.clocks import Clocks, put, word
from weft.device.sim.sanitizer.copies import Copies
from weft.device.sim.sanitizer.layout import Kind, Record, Slot, Worker
from weft.device.sim.sanitizer.local import Local
from weft.device.sim.sanitizer.overflow import Overflow
from weft.device.sim.sanitizer.report import first_of, report
from weft.device.sim.sanitizer.shadow_exact import Exact
from weft.device.sim.sanitizer.shadow_quick import Pattern, Quick, pattern_of
from weft.device.sim.sanitizer.updates import Updates, is_update
from weft.device.sim.waits import is_warp_sync
from weft.ir import Builder, Val
from weft.ptx import cfg
from weft.ptx.model import Instruction, Operand, Reg

if TYPE_CHECKING:
    from weft.device.sim.emit import WarpEmitter

STRONG = frozenset({"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"})
"""Orders of an access that two threads may make at the same time."""
_SPACES = {
    Space.GLOBAL: ("global",), Space.SHARED: ("shared",), Space.GENERIC: ("shared", "global"),
}  # fmt: skip


class Sanitizing(Watcher):
    """Shadow records, clocks and the checks of synchronisation, beside one kernel."""

    def __init__(self, e: WarpEmitter) -> None:
        super().__init__(e)
        program = e.program
        code = [i for block in program.graph.blocks for i in block.code]
        self.masks = any(is_warp_sync(i) and meetings.mask_of(program, i) is not None for i in code)
        self.layout = Slot(program.warps, program.local_bytes, self.masks)
        self.publishes = any(_releases(i) for i in code)
        self.clocks = Clocks(program.warps, self.layout, self.publishes, self.masks)
        self.quick = Quick(self.clocks, self.layout)
        self.exact = Exact(self.clocks, self.layout)
        self.updates = Updates(self.clocks, self.layout)
        self.local = Local(self.layout, e)
        self.copies = Copies(self)
        self.overflow = Overflow(program)
        self.unseen = any("bulk" in i.parts for i in code)
        """Are there copies to shared memory that are no accesses of a lane?"""
        self.sites: dict[int, int] = {}
        self.met: list[Operand | None] = []
        """Masks with which lanes have met since the last access; None: all of them."""
        self.one_sided = meetings.one_sided(e)

    # ---- names ------------------------------------------------------------------------------
    @property
    def p(self) -> Val:
        """What is kept of the block."""
        return self.e.b.load("ptr", 0, self.e.b.at(self.e.slot, Block.OBSERVER))

    def site(self) -> Val:
        """The present instruction as records name it."""
        return self.e.b.integer("i64", self.number(self.e.ins))

    def number(self, ins: Instruction) -> int:
        """An instruction as records name it."""
        number = self.sites.setdefault(ins.index, len(self.sites) + 1)
        strong = Record.STRONG if _is_strong(ins) else 0
        return min(number, Record.SITES) | strong

    def me(self, lanes: Val) -> Val:
        """A record of the first of these lanes, for findings that are not about memory."""
        return first_of(self.e.b, lanes, self.e.warp) | self.site()

    def count(self, field: int, by: Val) -> None:
        b = self.e.b
        at = b.at(b.load("ptr", 0, b.at(self.e.worker, HostThread.OBSERVER)), field)
        put(b, word(b, at) + by, at)

    # ---- events -----------------------------------------------------------------------------
    def block(self, block: cfg.Block) -> None:
        self.met = []
        self.overflow.block(block)

    def instruction(self, ins: Instruction) -> None:
        if is_warp_sync(ins):
            meetings.check_lanes(self, ins)
            mask = meetings.mask_of(self.e.program, ins)
            if mask not in self.met:
                meetings.order_lanes(self, ins)
                self.met.append(mask)
        changed = self.e.program.defs(ins)
        self.met = [m for m in self.met if not (isinstance(m, Reg) and m.name in changed)]
        if _is_fence(ins) and self.publishes:
            self.clocks.fence(self.e.b, self.p, self.e.warp, _is_far(ins))
        self.copies.instruction(ins)
        self.overflow.check(self, ins)
        if ins.parts[0] == "call":  # the host may ask where it was called from
            e, b = self.e, self.e.b
            b.store(b.integer("i64", ins.index), b.at(e.worker, HostThread.ERROR_SITE))
        if ins is self.e.block.last and spins.cannot_end(self.e.program, self.e.block):
            self._spin()

    def access(self, touch: Touch) -> None:
        e, b = self.e, self.e.b
        self.met = []
        if touch.address.space in (Space.PARAM, Space.CONST):
            return
        lanes = e.executing() if touch.lanes is None else e.executing() & touch.lanes
        self.count(Worker.ACCESSES, b.intrinsic("ctpop", [lanes]).zext("i64"))
        if touch.address.space == Space.LOCAL:
            self.local.access(touch, lanes)
            return
        if touch.address.space == Space.GENERIC and self.local.escapes:
            self.local.access(touch, lanes)
        strong = _is_strong(e.ins) or touch.kind == "mbarrier"
        if strong and self.publishes:
            self._synchronise(touch)
        if touch.rows is not None:
            self._rows(touch)
        elif touch.target is not None:
            self.copies.read(touch, lanes)
            self.copies.issued(touch.target, touch.nbytes, lanes)
        else:
            if is_update(touch, e.ins):
                self._update(touch.address, touch.nbytes, lanes)
            self._touch(touch.address, touch.writes, touch.nbytes, lanes, touch.values)
        e.forget_mask()

    def _spin(self) -> None:
        """A loop goes round that nothing can end: said, and ended."""
        e, b = self.e, self.e.b
        lanes = e.executing()
        with b.when(lanes.ne(0), rare=True):
            report(b, self.p, Kind.SPIN, self.me(lanes), b.integer("i64", 0), b.integer("i64", 0))
            e.fault(Fault.TRAP, b.intrinsic("cttz", [lanes], extra="false"))
            b.place(b.label("never"))
        e.forget_mask()

    def _synchronise(self, touch: Touch) -> None:
        b, e = self.e.b, self.e
        if touch.kind == "mbarrier" or _is_release(e.ins):
            self.clocks.fence(b, self.p, e.warp, _is_far(e.ins))
        self.clocks.synchronise(b, self.p, e.warp, touch.writes)

    def barrier(self, number: Val, count: Val | None, lanes: Val) -> None:
        meetings.arrive(self, number, count, lanes)

    def leave(self, lanes: Val | None) -> None:
        if lanes is not None:
            meetings.leave(self, lanes)

    def started(self, b: Builder, context: Val, worker: Val, slot: Val) -> None:
        self.clocks.begin(b, context, worker, slot)
        self.copies.started(b, slot)

    def released(self, b: Builder, slot: Val, number: Val) -> None:
        self.clocks.meet(b, slot, number)
        worker = b.load("ptr", 0, b.at(b.load("ptr", 0, b.at(slot, Block.OBSERVER)), Slot.WORKER))
        put(b, word(b, worker, Worker.BARRIERS) + 1, worker, Worker.BARRIERS)

    def notes(self) -> Mapping[str, Any]:
        return {
            "sites": list(self.sites),
            "written": origins.written(self.e.program),
            "publishes": self.publishes,
            "masks": self.masks,
        }

    # ---- accesses ---------------------------------------------------------------------------
    def _touch(
        self, a: Address, writes: bool, nbytes: int, lanes: Val, values: list[Val] | None
    ) -> None:
        pattern = pattern_of(a.off, nbytes, writes) if a.off is not None else None
        for space in _SPACES.get(a.space, ()):
            if space == "shared" and self.unseen:
                continue
            if a.uniform and not (writes and values is not None and any(v.n for v in values)):
                self._one(a, space, writes, nbytes, lanes, values)
            elif pattern is not None and not (writes and _is_strong(self.e.ins)):
                self._pattern(a, space, writes, nbytes, lanes, values, pattern)
            else:
                self._each_lane(a, space, writes, nbytes, lanes, values)

    def _update(self, a: Address, nbytes: int, lanes: Val) -> None:
        """An atomic reads what is there: somebody must have written it."""
        e = self.e
        for space in _SPACES.get(a.space, ()):
            if space == "global" or not self.unseen:
                check = self.updates.lanes(e.b, space, nbytes)
                check(e.slot, e.warp, self.site(), e.access.addresses(a), lanes)

    def _one(
        self, a: Address, space: str, writes: bool, nbytes: int, lanes: Val,
        values: list[Val] | None,
    ) -> None:  # fmt: skip
        e, b = self.e, self.e.b
        assert a.first is not None
        with b.when(lanes.ne(0)):
            fn = self.quick.one(b, space, writes, _is_strong(e.ins), nbytes)
            done = fn(e.slot, e.warp, self.site(), a.first, lanes)
            with b.when(done ^ 1, rare=True):
                first = lanes & (b.integer("i32", 0) - lanes)
                self._each_lane(a, space, writes, nbytes, first, values)

    def _pattern(
        self, a: Address, space: str, writes: bool, nbytes: int, lanes: Val,
        values: list[Val] | None, pattern: Pattern,
    ) -> None:  # fmt: skip
        e, b = self.e, self.e.b
        assert a.first is not None and a.last is not None and a.off is not None
        fn = self.quick.row(b, space, writes, pattern)
        go, slow, end = b.label("whole"), b.label("apart"), b.label("checked")
        steady = (a.last - a.first).eq(max(a.off))  # no index wraps in between
        b.branch(lanes.eq(-1) & steady, go, slow)
        b.place(go)
        done = fn(e.slot, e.warp, self.site(), a.first)
        b.emit(f"br {done.tref}, label %{end}, label %{slow}, !prof !2")
        b.place(slow)
        self._each_lane(a, space, writes, nbytes, lanes, values)
        b.jump(end)
        b.place(end)

    def _each_lane(
        self, a: Address, space: str, writes: bool, nbytes: int, lanes: Val,
        values: list[Val] | None,
    ) -> None:  # fmt: skip
        e, b = self.e, self.e.b
        held = b.val("ptr", 0, "inttoptr i64 0 to ptr")
        element = nbytes
        if values is not None:
            element = values[0].bits // 8
            held = e.access.buffer(len(values))
            for i, v in enumerate(values):
                b.store(b.splat(v, 32), b.at(held, 32 * element * i), 8)
        fn = self.exact.lanes(b, space, writes, _is_strong(e.ins), nbytes, element)
        fn(e.slot, e.warp, self.site(), e.access.addresses(a), lanes, held)

    def _rows(self, touch: Touch) -> None:
        """A fragment: the warp as a whole touches rows of memory."""
        b, rows = self.e.b, touch.rows
        assert rows is not None
        piece = min(16, rows.nbytes)
        everyone = b.integer("i32", -1)
        with b.loop(rows.count) as i, b.loop(rows.nbytes // piece) as k:
            at = rows.first + i.zext("i64") * rows.step + k.zext("i64") * piece
            self._touch(Address(touch.address.space, (0,) * 32, at, at), touch.writes, piece,
                        everyone, None)  # fmt: skip


def _is_strong(ins: Instruction) -> bool:
    return ins.parts[0] in ("atom", "red", "mbarrier") or not STRONG.isdisjoint(ins.parts)


def _is_release(ins: Instruction) -> bool:
    return "release" in ins.parts or "acq_rel" in ins.parts


def _is_fence(ins: Instruction) -> bool:
    return ins.parts[0] == "membar" or (ins.parts[0] == "fence" and "proxy" not in ins.parts)


def _is_far(ins: Instruction) -> bool:
    """Is it for threads of other blocks, too?"""
    return "cta" not in ins.parts


def _releases(ins: Instruction) -> bool:
    return _is_fence(ins) or ins.parts[0] == "mbarrier" or _is_release(ins)
