"""Goes back: a launch does the same every time, so it is run again up to an earlier place."""

from __future__ import annotations

from dataclasses import replace

from weft.debug.inspection import Inspection
from weft.debug.stops import Stop
from weft.debug.watches import Place, Watch, place_of, writers
from weft.device.base import Dim3
from weft.device.sim.tools.debugger.execution import DebuggedLaunch, Outcome, stop_at
from weft.device.sim.tools.debugger.expressions import Name, parse
from weft.device.sim.tools.debugger.layout import Arm, ControlFields, Reason
from weft.device.sim.tools.debugger.observer import NEVER, DebugObserver, Hit
from weft.errors import Error
from weft.ptx.isa import decode
from weft.ptx.isa.columns import ResultForm
from weft.ptx.model import Reg

Time = tuple[int, int]
_NEVER: Time = (0, -1)


class Repeatable(Inspection):
    """A launch that can be inspected and repeated."""

    launch: DebuggedLaunch

    def ended(self, outcome: Outcome) -> Stop | None:
        """The stop at the error with which an execution has ended, if any."""
        raise NotImplementedError


class History:
    """Repeats of a launch. While it is `active`, it decides which hits stop the launch."""

    def __init__(self, debugger: Repeatable) -> None:
        self.debugger = debugger
        self.active = False
        self._until: Time = (0, 0)
        self._watch: Watch | None = None
        self._registers: set[str] = set()
        self._writes: list[Stop] = []
        self._candidates: list[int] = []
        self._warp: tuple[Dim3, int, int] = (0, 0, 0), 0, 0
        """The block, the warp and the lane whose registers are followed."""

    def back(self, text: str) -> Stop:
        """Go back to the last write of a value; the instruction that writes it comes next."""
        d = self.debugger
        if d.stop is None:
            raise Error("the launch is not stopped")
        now = d.stop
        self._prepare(text)
        self._warp = d.block, d.focus.warp, d.focus.lane
        writes = self._record(now.time)
        if not writes:
            self._return(now)
            raise Error(
                f"nothing has written {text} before",
                next="it has its value from the start of the launch",
            )
        return self._return(replace(writes[-1], reason=f"the last write of {text}"))

    def last_write(self, place: Place, reason: str) -> Stop | None:
        """Stop before the last write of some memory in a launch that has not begun.

        None where the launch does not write it; the memory is then as it was before.
        """
        d = self.debugger
        self._watch = Watch(reason, place, writers(d))
        self._candidates, self._registers = self._watch.writers, set()
        writes = self._record(_NEVER)
        d.launch.restore()
        return self._return(replace(writes[-1], reason=reason)) if writes else None

    # ---- the values to follow ---------------------------------------------------------------
    def _prepare(self, text: str) -> None:
        d = self.debugger
        value = d.value(text)
        if value.address is not None:
            self._watch = make_watch(d, text)
            self._candidates, self._registers = self._watch.writers, set()
            return
        if not value.register:
            raise Error("a result of operators has no writer", got=text, next="name a variable")
        node, frame = parse(text), d.here
        self._watch, self._registers = None, {value.register}
        variable = d.source.variables(frame).get(node.name) if isinstance(node, Name) else None
        if variable is not None:  # it may be in several registers, one after the other
            places = (x.register for x in variable.locations)
            self._registers |= {frame.prefix + name for name in places if name}
        self._candidates = [
            ins.index
            for ins in d.source.code
            if self._registers & set(d.state.program.defs(ins)) and not self._moves(ins.index)
        ]

    def _moves(self, index: int) -> bool:
        """Return whether it only copies the value from one of its registers to another."""
        ins = self.debugger.source.code[index]
        sources = {x.name for x in ins.operands[1:] if isinstance(x, Reg)}
        return decode(ins).row.form is ResultForm.COPY and bool(sources & self._registers)

    # ---- repeats ----------------------------------------------------------------------------
    def _record(self, until: Time) -> list[Stop]:
        """Run the launch again up to a time, and note the writes before it."""
        launch, self._until = self.debugger.launch, until
        launch.end()
        self._writes, self.active, self._recording = [], True, True

        def arm(observer: DebugObserver) -> None:
            observer.table[self._candidates] |= Arm.ALWAYS
            stop_at(observer, until[0])

        try:
            launch.begin(arm, quiet=True)
            launch.wait()
            launch.end()
        finally:
            self.active = False
        return self._writes

    def _return(self, stop: Stop) -> Stop:
        """Run the launch again to a time, where it stays stopped."""
        d, launch, self._until = self.debugger, self.debugger.launch, stop.time
        launch.end()
        self.active, self._recording = True, False
        try:
            launch.begin(lambda observer: stop_at(observer, stop.time[0]), quiet=True)
            event = launch.wait()
        finally:
            self.active = False
        if isinstance(event, Outcome) or event is None:  # a fault: the launch ends there again
            failed = d.ended(event) if isinstance(event, Outcome) else None
            if failed is None:
                raise Error("the launch did something else when it was repeated")
            return failed
        d.stop = replace(stop, hit=event)
        d.look_at(d.stop)
        return d.stop

    def replayed(self, hit: Hit) -> Stop | None:
        """A hit while the launch is repeated: a stop at the time that is wanted."""
        observer, time = self.debugger.launch.observer, self.debugger.launch.now(hit)
        assert observer is not None
        if hit.reason == Reason.TARGET:  # the instruction itself follows
            observer.table[self._until[1]] |= Arm.ALWAYS
            observer.words[ControlFields.TARGET // 8] = NEVER
            return None
        if time == self._until and hit.reason == Reason.ARMED:
            return Stop("", hit, 0, time)
        if self._recording and hit.reason == Reason.ARMED:
            self._note(hit, time)
        return None

    def _note(self, hit: Hit, time: Time) -> None:
        d = self.debugger
        block, warp, lane = self._warp
        if self._watch is not None:
            written = self._watch.written_by(hit, d)
            if written is not None:
                self._writes.append(Stop("", hit, written, time))
            return
        mine = d.state.block_of(hit.slot) == block and hit.warp == warp
        if mine and hit.index in self._candidates and hit.lanes >> lane & 1:
            self._writes.append(Stop("", hit, lane, time))


def make_watch(d: Repeatable, text: str) -> Watch:
    """A watch of a value in memory."""
    value = d.value(text)
    if value.address is None:
        raise Error(
            f"{text} is in a register, which has no address",
            allowed="values in memory: x[3], tile[0], local arrays and structures",
            next=f"`back {text}` finds its last write",
        )
    size = value.type.size or 1
    return Watch(text, place_of(value.address, size, d.focus, d), writers(d))
