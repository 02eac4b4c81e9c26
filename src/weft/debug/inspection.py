"""Reads a stopped launch: values, frames, warps, registers, memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weft.debug.stops import Stop
from weft.device.base import Dim3
from weft.device.sim.layout import WorkerFields
from weft.device.sim.tools.debugger.evaluate import BUILT_IN, Evaluator
from weft.device.sim.tools.debugger.expressions import (
    Binary,
    Index,
    Member,
    Name,
    Node,
    Unary,
    parse,
)
from weft.device.sim.tools.debugger.layout import Reason
from weft.device.sim.tools.debugger.observer import Hit
from weft.device.sim.tools.debugger.source_map import Frame, SourceMap
from weft.device.sim.tools.debugger.state import LaunchState, Thread
from weft.device.sim.tools.debugger.values import Value, encode
from weft.errors import DeviceError, Error
from weft.ptx.isa import decode
from weft.ptx.isa.columns import Waits
from weft.ptx.model import Instruction, Reg


@dataclass(frozen=True)
class WarpView:
    """A warp of a running block.

    active   lanes that run, as bits; `done`: those that have returned
    place    the instruction it has reached; None before it starts
    state    "runs", "failed", "waits at a barrier", "ready", "not started" or "done"
    """

    block: Dim3
    warp: int
    active: int
    done: int
    place: Instruction | None
    state: str


class Inspection:
    """Reads a stopped launch. `focus` is the thread that names refer to."""

    def __init__(
        self, state: LaunchState, source: SourceMap, names: Evaluator, kernel: str
    ) -> None:
        self.state, self.source, self.names, self.kernel = state, source, names, kernel
        self.stop: Stop | None = None
        self.focus = Thread(0, 0, 0)
        self._frame = 0

    def look_at(self, stop: Stop) -> None:
        """Direct the focus to the thread of a stop."""
        self.focus = Thread(stop.hit.slot, stop.hit.warp, stop.lane)
        self._frame = self._first_with_line()

    def _first_with_line(self) -> int:
        """The innermost frame with a line: functions of libraries have none."""
        if self.instruction(self.focus) is None:
            return 0
        lines = [frame.line for frame in self.frames()]
        return next((i for i, line in enumerate(lines) if line is not None), 0)

    # ---- threads ----------------------------------------------------------------------------
    @property
    def block(self) -> Dim3:
        """`blockIdx` of the focus."""
        return self.state.block_of(self.focus.slot)

    @property
    def thread(self) -> Dim3:
        """`threadIdx` of the focus."""
        return self.state.thread_index(self.focus)

    def select(self, thread: Dim3, block: Dim3 | None = None) -> None:
        """Direct the focus to another thread of a running block."""
        self.focus = self.find(thread, block)
        self._frame = self._first_with_line()

    def find(self, thread: Dim3, block: Dim3 | None = None) -> Thread:
        """A thread by its indices; raise where its block does not run."""
        shape = self.state.program.shape
        if any(not 0 <= i < n for i, n in zip(thread, shape, strict=True)):
            raise Error("the block has no such thread", got=str(thread), allowed=f"below {shape}")
        if block is None or block == self.block:
            return self.state.thread(self.focus.slot, thread)
        for slot in self.state.slots():
            if self.state.block_of(slot) == block:
                return self.state.thread(slot, thread)
        running = ", ".join(str(self.state.block_of(s)) for s in self.state.slots()[:8])
        raise Error(
            "the block does not run now: it has ended, or not started",
            got=str(block),
            allowed=f"blocks that run: {running}",
            next="set a breakpoint with block=, then `continue`",
        )

    def instruction(self, thread: Thread) -> Instruction | None:
        """The instruction that a thread has reached."""
        stop = self.stop
        if stop is not None and (thread.slot, thread.warp) == (stop.hit.slot, stop.hit.warp):
            if stop.hit.lanes >> thread.lane & 1:
                return self.source.code[stop.hit.index]
        elif self.state.mask(thread.slot, thread.warp) >> thread.lane & 1:
            return self.state.place(thread.slot, thread.warp)
        return self.state.lane_place(thread)

    def warps(self) -> Iterator[WarpView]:
        """All warps of the blocks that run, and what each does."""
        for slot in self.state.slots():
            for warp in range(self.state.program.warps):
                yield self._warp(slot, warp)

    def _warp(self, slot: int, warp: int) -> WarpView:
        state, stop = self.state, self.stop
        place, done = state.place(slot, warp), state.done(slot, warp)
        here = stop is not None and (slot, warp) == (stop.hit.slot, stop.hit.warp)
        active = state.mask(slot, warp) & ~done
        if here and stop is not None:
            place = self.source.code[stop.hit.index]
        waits = place is not None and decode(place).row.waits is Waits.PARTICIPANTS
        if here and stop is not None and not (stop.failed and waits):
            word = "failed" if stop.failed else "runs"
        elif place is None:
            word, active = "not started", 0
        elif done == state.lanes_of(warp):
            word, active = "done", 0
        elif waits:
            word = "waits at a barrier"
        else:
            word = "ready"
        return WarpView(state.block_of(slot), warp, active, done, place, word)

    # ---- frames -----------------------------------------------------------------------------
    @property
    def here(self) -> Frame:
        """The selected frame of the focus."""
        frames = self.frames()
        return frames[min(self._frame, len(frames) - 1)]

    def select_frame(self, number: int) -> Frame:
        """Select a frame of the call stack; 0 is the innermost."""
        frames = self.frames()
        if not 0 <= number < len(frames):
            raise Error("no such frame", got=str(number), allowed=f"0 to {len(frames) - 1}")
        self._frame = number
        return frames[number]

    @property
    def frame_number(self) -> int:
        """The number of the selected frame."""
        return self._frame

    def frames(self, thread: Thread | None = None) -> list[Frame]:
        """The call stack of a thread, from the innermost frame."""
        thread = thread or self.focus
        ins = self.instruction(thread)
        if ins is None:
            raise Error("the thread has not started", got=str(self.state.thread_index(thread)))
        return self.stack(thread, ins)

    def stack(self, thread: Thread, ins: Instruction) -> list[Frame]:
        """The call stack of a thread at an instruction, from the innermost frame."""
        out = [self.source.frame(ins)]
        while out[-1].prefix and len(out) < 64:
            callers = self.source.callers(out[-1].prefix)
            number = 0
            if len(callers) > 1:
                register = self.source.return_register(out[-1].prefix)
                number = self.state.register(thread, register) or 0
            if number >= len(callers):
                break
            caller = self.source.frame(callers[number])
            if caller.prefix == out[-1].prefix:  # recursive: its frames are on a stack
                break
            out.append(caller)
        return out

    # ---- values -----------------------------------------------------------------------------
    def value(self, text: str, thread: Dim3 | None = None, block: Dim3 | None = None) -> Value:
        """Evaluate a C++ expression for the focus or another thread."""
        node = parse(text)
        if thread is None and block is None:
            return self.names.value(node, self.focus, self.here)
        chosen = self.find(thread or self.thread, block)
        return self.names.value(node, chosen, self.frames(chosen)[0])

    def lanes(self, text: str) -> list[Value | None]:
        """The value of an expression in each lane of the warp; None where it has none."""
        node, out = parse(text), list[Value | None]()
        for lane in range(self.state.lanes_of(self.focus.warp).bit_length()):
            thread = Thread(self.focus.slot, self.focus.warp, lane)
            try:
                out.append(self.names.value(node, thread, self.frames(thread)[0]))
            except Error:
                out.append(None)
        return out

    def variables(self) -> dict[str, Value | Error]:
        """The variables of the selected frame; an Error for one that has no value here."""
        frame, out = self.here, dict[str, Value | Error]()
        for name in [*self.source.variables(frame), *self.source.shared]:
            try:
                out[name] = self.names.value(Name(name), self.focus, frame)
            except Error as error:
                out[name] = error
        return out

    def registers(self) -> dict[str, Value]:
        """The registers of PTX of the selected frame's function that the code writes."""
        out = {}
        for name in self.source.registers(self.here):
            if self.state.register(self.focus, self.here.prefix + name) is not None:
                out[name] = self.names.value(Name(name), self.focus, self.here)
        return out

    def set(self, text: str, value: str) -> Value:
        """Change a value in memory: an element, a member, a local array, a shared variable."""
        target, new = self.value(text), self.value(value)
        if new.number is None or target.number is None:
            raise Error("one number is set at a time", got=f"{text} = {value}")
        if target.address is None:
            raise Error(
                f"{text} is in a register, which the debugger cannot change",
                allowed="values in memory: x[3], tile[0], local arrays and structures",
                next=f"declare it as volatile {target.type.name}, which keeps it in memory",
            )
        self.state.write(self.focus, target.address, encode(target.type, new.number))
        return self.value(text)

    def check_names(self, node: Node, frame: Frame) -> None:
        """Raise for a name of a condition that means nothing at a line."""
        match node:
            case Name(name) if name.startswith("%"):
                if frame.prefix + name not in self.state.program.function.registers:
                    raise Error(f"{frame.function} has no register {name}")
            case Name(name):
                known = name in self.source.variables(frame) or name in self.source.shared
                if not known and name != "warpSize":
                    raise self.names.unknown(name, frame)
            case Member(Name(name), axis) if name in BUILT_IN:
                if axis not in "xyz":
                    raise Error(f"{name} has no member {axis}", allowed="x, y and z")
            case Member(of, _) | Unary(_, of):
                self.check_names(of, frame)
            case Binary(_, left, right) | Index(left, right):
                self.check_names(left, frame)
                self.check_names(right, frame)

    # ---- events -----------------------------------------------------------------------------
    def first_nan(self, hit: Hit) -> int | None:
        """The first lane whose result of an instruction is a NaN."""
        dest = self.source.code[hit.index].operands[0]
        lanes = hit.lanes & self.state.lanes_of(hit.warp)
        assert isinstance(dest, Reg)
        size = 8 if decode(self.source.code[hit.index]).type == "f64" else 4
        for lane in (i for i in range(32) if lanes >> i & 1):
            bits = self.state.register(Thread(hit.slot, hit.warp, lane), dest.name) or 0
            exponent, fraction = (11, 52) if size == 8 else (8, 23)
            low = bits & ((1 << fraction) - 1)
            if low and bits >> fraction & ((1 << exponent) - 1) == (1 << exponent) - 1:
                return lane
        return None

    def failed_at(self, error: DeviceError) -> Stop:
        """The stop at the place of an error, after which threads cannot go on."""
        observer = self.state.observer
        assert observer is not None and observer.observation is not None
        slots = self.state.slots() or list(observer.areas)
        at = next((s for s in slots if self.state.block_of(s) == error.block), slots[0])
        where = self.state.thread(at, error.thread) if error.thread else Thread(at, 0, 0)
        site = observer.observation.worker_field(WorkerFields.ERROR_SITE)
        place = self.state.place(at, where.warp)
        index = site if error.thread else (place.index if place is not None else 0)
        lanes = self.state.mask(at, where.warp) | 1 << where.lane
        hit = Hit(Reason.ARMED, at, where.warp, lanes, 0, min(index, len(self.source.code) - 1))
        time = observer.entered, hit.index
        why = f"{type(error).__name__}: {error.what}"
        return Stop(why, hit, where.lane, time, failed=True)
