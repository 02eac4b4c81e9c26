"""The code of the debugger in a kernel: stores results again, and calls the host where armed.

    int32 host(int32 reason, void* worker, void* slot, int32 warp, int32 lanes, void* local,
               int32 instruction)

The result is 0 to go on, 1 to end the launch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from weft.device.sim.lane_sets import lane_bits, lanes_of
from weft.device.sim.layout import ContextFields, Fault, SlotFields, WorkerFields
from weft.device.sim.observe import Watched, Watcher
from weft.device.sim.tools.debugger.layout import (
    Arm,
    ControlFields,
    Reason,
    ShadowLayout,
    WarpFields,
)
from weft.ir import CONSTANT, Builder, Val
from weft.ptx.cfg import BasicBlock
from weft.ptx.isa import decode
from weft.ptx.isa.columns import Participants
from weft.ptx.model import Instruction, Reg

_P, _I32 = ("ptr", 0), ("i32", 0)

Condition = Callable[["DebugWatcher"], Val]
"""Emits the lanes of a warp for which a condition holds, as bits."""


class DebugWatcher(Watcher):
    """Stores results and places, and tests before each instruction whether it is armed."""

    one_by_one = True

    def __init__(self, e: Watched, conditions: Mapping[int, Condition], nans: bool) -> None:
        super().__init__(e)
        self.shadow = ShadowLayout(e.program)
        self._conditions, self._nans = conditions, nans
        self._stores: Collection[str] = self.shadow.registers.keys()

    # ---- places -----------------------------------------------------------------------------
    def control(self) -> Val:
        b = self.e.b
        return b.load("ptr", 0, b.at(self.e.context, ContextFields.OBSERVER), flags=CONSTANT)

    def area(self) -> Val:
        """The area of the warp that runs."""
        e, b = self.e, self.e.b
        start = b.load("ptr", 0, b.at(e.slot, SlotFields.OBSERVER), flags=CONSTANT)
        return b.at(start, e.warp.zext("i64") * self.shadow.warp_bytes)

    # ---- events -----------------------------------------------------------------------------
    def started(self, b: Builder, context: Val, worker: Val, slot: Val) -> None:
        memory = b.load("ptr", 0, b.at(slot, SlotFields.OBSERVER))
        fill = "@llvm.memset.p0.i64"
        b.module.declarations[fill] = f"declare void {fill}(ptr, i8, i64, i1)"
        b.emit(f"call void {fill}({memory.typed}, i8 0, i64 {self.shadow.slot_bytes}, i1 false)")

    def block(self, block: BasicBlock) -> None:
        code = [*block.code, *([] if block.last is None else [block.last])]
        if not code:
            return
        e, b = self.e, self.e.b
        area, mask, control = self.area(), e.mask(), self.control()
        first = code[0].index
        b.store(b.integer("i32", first + 1), b.at(area, WarpFields.PLACE), 4)
        b.store(mask, b.at(area, WarpFields.MASK), 4)
        entered = b.splat(b.integer("i32", block.index + 1), 32)
        self._store_lanes(entered, b.at(area, WarpFields.BLOCKS), "i32")
        place = b.at(control, ControlFields.ENTERED)
        count = b.load("i64", 0, place, 8)
        b.store(count + 1, place, 8)
        due = count.eq(b.load("i64", 0, b.at(control, ControlFields.TARGET), 8))
        self._stop_when(due, Reason.TARGET, first)

    def instruction(self, ins: Instruction) -> None:
        if not ins.opcode:
            return
        b = self.e.b
        control = self.control()
        if decode(ins).row.participants is not Participants.LANE:
            # It may wait here for others, which the host then lists.
            b.store(b.integer("i32", ins.index + 1), b.at(self.area(), WarpFields.PLACE), 4)
        armed = b.load("i8", 0, b.at(control, ControlFields.TABLE + ins.index), 1)
        condition = self._conditions.get(ins.index)
        if condition is None:
            self._stop_when(armed.ne(0), Reason.ARMED, ins.index)
            return
        with b.when(armed.ne(0)):
            lanes = condition(self) & self.e.mask()
            hit = lanes.ne(0) | (armed & (Arm.ALWAYS | Arm.STEP)).ne(0)
            self._stop_when(hit, Reason.ARMED, ins.index)

    def executed(self, ins: Instruction) -> None:
        for name in self.e.program.defs(ins):
            if name in self._stores:
                self._store(name)
        if self._nans:
            self._look_for_nan(ins)

    def leave(self, lanes: Val | None) -> None:
        b = self.e.b
        place = b.at(self.area(), WarpFields.DONE)
        done = b.integer("i32", -1) if lanes is None else lanes | b.load("i32", 0, place, 4)
        b.store(done, place, 4)

    # ---- results ----------------------------------------------------------------------------
    def _store(self, name: str) -> None:
        e, b, stored = self.e, self.e.b, self.shadow.registers[name]
        kind, place = e.program.function.registers[name], b.at(self.area(), stored.offset)
        if stored.scalar:
            b.store(b.bits(e.base(Reg(name), kind)), place, 8)
            return
        value = b.bits(e.read_lanes(Reg(name), kind))
        if stored.bits == 1:
            bits, mask = lane_bits(b, [value]), e.mask()
            if not e.always_full:
                bits = (bits & mask) | (b.load("i32", 0, place, 4) & ~mask)
            b.store(bits, place, 4)
            return
        self._store_lanes(value, place, f"i{stored.bits}")

    def _store_lanes(self, value: Val, place: Val, ty: str) -> None:
        """Store the lanes that run; the others keep what they have."""
        e, b = self.e, self.e.b
        if not e.always_full:
            old = b.load(ty, 32, place, 64)
            value = b.select(lanes_of(b, e.mask()), value, old)
        b.store(value, place, 64)

    def _look_for_nan(self, ins: Instruction) -> None:
        d = decode(ins)
        dest = ins.operands[0] if ins.operands else None
        if d.type not in ("f32", "f64") or not isinstance(dest, Reg):
            return
        if dest.name not in self._stores or self.shadow.registers[dest.name].scalar:
            return
        e, b = self.e, self.e.b
        lanes = lane_bits(b, [b.is_nan(e.read_lanes(dest, d.type))]) & e.mask()
        self._stop_when(lanes.ne(0), Reason.NAN, ins.index)

    # ---- calls of the host ------------------------------------------------------------------
    def _stop_when(self, hit: Val, reason: int, index: int) -> None:
        e, b = self.e, self.e.b
        lanes = e.mask()
        with b.when(hit, rare=True):
            stop = b.helper(
                "debug_stop", [_P, _P, _P, _I32, _I32, _P, _I32, _I32], ("i1", 0), _stop
            )
            numbers = b.integer("i32", index), b.integer("i32", reason)
            ok = stop(e.context, e.worker, e.slot, e.warp, lanes, e.local, *numbers)
            e.abort_unless(ok)


def _stop(b: Builder, args: list[Val]) -> Val:
    """Call the host, unless the instruction is armed for another warp alone."""
    context, worker, slot, warp, lanes, local, index, reason = args
    control = b.load("ptr", 0, b.at(context, ContextFields.OBSERVER))
    armed = b.load("i8", 0, b.at(control, (index.zext("i64") + ControlFields.TABLE)), 1)
    here = b.val("i64", 0, f"ptrtoint {slot.typed} to i64")
    other = here.ne(b.load("i64", 0, b.at(control, ControlFields.SLOT), 8)) | warp.zext("i64").ne(
        b.load("i64", 0, b.at(control, ControlFields.WARP), 8)
    )
    with b.when(reason.eq(Reason.ARMED) & armed.eq(Arm.STEP) & other):
        b.ret(b.integer("i1", 1))
    host = b.load("ptr", 0, b.at(control, ControlFields.HOST))
    arguments = ", ".join(a.typed for a in (reason, worker, slot, warp, lanes, local, index))
    fine = b.val("i32", 0, f"call i32 {host.ref}({arguments})").eq(0)
    with b.when(fine ^ 1, rare=True):
        fields: Mapping[int, Any] = {
            WorkerFields.ERROR: b.integer("i64", Fault.HOST),
            WorkerFields.ERROR_LANE: b.integer("i64", 0),
            WorkerFields.ERROR_SITE: index.zext("i64"),
        }
        for at, value in fields.items():
            b.store(value, b.at(worker, at))
    return fine
