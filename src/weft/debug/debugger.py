"""Runs a launch from stop to stop: breakpoints, steps, watches, faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from weft.debug.breakpoints import Breakpoint
from weft.debug.builds import debug_build, info_of
from weft.debug.history import History, Repeatable, make_watch
from weft.debug.signals import interrupts
from weft.debug.stops import Stop, StopOn
from weft.debug.watches import Watch
from weft.device.sim.run.settings import LaunchRequest
from weft.device.sim.tools.debugger.conditions import compiled
from weft.device.sim.tools.debugger.evaluate import Evaluator
from weft.device.sim.tools.debugger.execution import DebuggedLaunch, Ended, Outcome
from weft.device.sim.tools.debugger.expressions import Binary, Node
from weft.device.sim.tools.debugger.layout import Arm, ControlFields, Reason
from weft.device.sim.tools.debugger.observer import DebugObserver, Hit
from weft.device.sim.tools.debugger.source_map import SourceMap
from weft.device.sim.tools.debugger.state import Thread
from weft.errors import DeviceError, Error
from weft.ptx.isa import decode
from weft.ptx.isa.columns import Participants


class Debugger(Repeatable):
    """One launch under the debugger. It is stopped whenever a method returns.

    stop          why and where it is stopped; None before it starts and after it has ended
    breakpoints   breakpoints of this launch

    >>> def walk(debugger):
    ...     debugger.next()
    ...     print(debugger.here.line, [str(value) for value in debugger.lanes("i")][:4])
    >>> with weft.breakpoint(module.scale, line=3, on_stop=walk):
    ...     module.scale[1, 32](x, 1.0, 4)
    kernel.cu:4 ['0', '1', '2', '3']
    """

    def __init__(
        self,
        asked: LaunchRequest,
        breakpoints: Sequence[Breakpoint],
        stop_on: StopOn | None = None,
        *,
        first: int = 0,
    ) -> None:
        self.stop_on = stop_on or StopOn()
        sim = debug_build(asked.plan.sim)
        self.launch = DebuggedLaunch(asked, sim, self._wants, nans=self.stop_on.nan, first=first)
        info = info_of(sim)
        source = SourceMap(self.launch.program, info, sim.ptx.sources)
        addresses = {name: x.address for name, x in sim.image.placed.items()}
        names = Evaluator(
            self.launch.state, source, addresses, asked.plan.config.grid,
            has_names=bool(info.functions),
        )  # fmt: skip
        super().__init__(self.launch.state, source, names, sim.name(asked.plan.entry))
        self.breakpoints = [b for b in breakpoints if b.concerns(source) and self._accepts(b)]
        self.watches: list[Watch] = []
        self._places: dict[Breakpoint, list[int]] = {}
        self.error: BaseException | None = None
        self._barriers = [i.index for i in source.code if _is_barrier(i)]
        self._step: Callable[[Hit], bool] | None = None
        self._interrupted = False
        self._found: Stop | None = None
        self._stopped_at: Hit | None = None
        self._reported: set[Breakpoint] = set()
        """Breakpoints for which that hit has stopped the launch."""
        self.history = History(self)
        for breakpoint in self.breakpoints:
            breakpoint.give_number()
        self._compile_conditions()

    # ---- breakpoints ------------------------------------------------------------------------
    def check(self, breakpoint: Breakpoint) -> list[int]:
        """The instructions of a breakpoint; raise for a line without code or a wrong name."""
        places = breakpoint.places(self.source)
        if breakpoint.node is not None:
            for index in places:
                self.check_names(breakpoint.node, self.source.frame(self.source.code[index]))
        return places

    def _accepts(self, breakpoint: Breakpoint) -> bool:
        try:
            self.check(breakpoint)
        except Error as error:
            if breakpoint.on_mistake is None:
                raise
            breakpoint.on_mistake(error)
            return False
        return True

    def _places_of(self, breakpoint: Breakpoint) -> list[int]:
        """Its instructions, which are searched for once: a hit of a hot line asks for them."""
        known = self._places.get(breakpoint)
        if known is None:
            known = self._places[breakpoint] = breakpoint.places(self.source)
        return known

    def add(self, breakpoint: Breakpoint) -> Breakpoint:
        """Add a breakpoint to this launch; the host evaluates its condition."""
        self.check(breakpoint)
        breakpoint.give_number()
        self.breakpoints.append(breakpoint)
        return breakpoint

    def _compile_conditions(self) -> None:
        wanted: dict[int, list[Node | None]] = {}
        for breakpoint in self.breakpoints:
            for index in self._places_of(breakpoint):
                wanted.setdefault(index, []).append(breakpoint.node)
        for index, nodes in wanted.items():
            if None in nodes:
                continue
            whole = nodes[0]
            for node in nodes[1:]:
                assert whole is not None and node is not None
                whole = Binary("||", whole, node)
            assert whole is not None
            made = compiled(whole, self.source, self.launch.shadow, index)
            if made is not None:
                self.launch.conditions[index] = repr(whole), made
        self._compiled = {
            index: set(map(id, nodes))
            for index, nodes in wanted.items()
            if index in self.launch.conditions
        }

    def arm(self, observer: DebugObserver) -> None:
        """Set the instructions that call the host."""
        table = observer.table
        table[:] = 0
        for breakpoint in self.breakpoints:
            for index in self._places_of(breakpoint):
                known = id(breakpoint.node) in self._compiled.get(index, ())
                table[index] |= Arm.CONDITION if known else Arm.ALWAYS
        if self.stop_on.barrier:
            table[self._barriers] |= Arm.ALWAYS
        for watch in self.watches:
            table[watch.writers] |= Arm.ALWAYS
        if self._step is not None:
            table[self._stepping] |= Arm.STEP
            observer.words[ControlFields.SLOT // 8] = self.focus.slot
            observer.words[ControlFields.WARP // 8] = self.focus.warp
        if self._interrupted:
            table |= Arm.ALWAYS

    def arm_again(self) -> None:
        """Set the stops of a launch that runs, after a change of its breakpoints."""
        if self.launch.running and not self.launch.stopped and self.launch.observer is not None:
            self.arm(self.launch.observer)

    # ---- going on ---------------------------------------------------------------------------
    def start(self) -> Stop | None:
        """Begin the launch and run it to its first stop; None at its end."""
        self.launch.begin(self.arm)
        return self.wait()

    def cont(self) -> Stop | None:
        """Go on to the next stop; None at the end of the launch."""
        self._step = None
        return self._go()

    def step(self) -> Stop | None:
        """Run the warp to the next line that the thread executes, also in a called function."""
        line = self.source.line_of(self.frames()[0].ins)
        return self._step_to(self.source.starts, lambda hit: self._line_at(hit) != line)

    def next(self) -> Stop | None:
        """Run the warp to the next line; over calls."""
        ins = self.frames()[0].ins
        line, depth = self.source.line_of(ins), self.source.depth(ins.index)
        return self._step_to(
            self.source.starts,
            lambda hit: self._line_at(hit) != line and self.source.depth(hit.index) <= depth,
        )

    def stepi(self) -> Stop | None:
        """Execute one PTX instruction of the warp."""
        return self._step_to(list(range(len(self.source.code))), lambda hit: True)

    def finish(self) -> Stop | None:
        """Run the warp until the function returns to its caller."""
        depth = self.source.depth(self.frames()[0].ins.index)
        if depth == 0:
            raise Error("the kernel itself has no caller", next="use `continue`")
        code = list(range(len(self.source.code)))
        return self._step_to(code, lambda hit: self.source.depth(hit.index) < depth)

    def _line_at(self, hit: Hit) -> tuple[str, int] | None:
        return self.source.line_of(self.source.code[hit.index])

    def _step_to(self, places: list[int], reached: Callable[[Hit], bool]) -> Stop | None:
        self.alive()
        lane = self.focus.lane
        self._stepping = places
        self._step = lambda hit: bool(hit.lanes >> lane & 1) and reached(hit)
        return self._go()

    def alive(self) -> None:
        """Raise where the launch cannot go on: it has failed, or not begun."""
        if not self.launch.stopped:
            raise Error(
                "the launch has ended, its threads cannot go on",
                next="`back` shows what came before, `continue` ends the debugger",
            )

    def _go(self) -> Stop | None:
        if not self.launch.stopped:  # after a fault
            self.stop = None
            return None
        assert self.launch.observer is not None
        self.arm(self.launch.observer)
        self.launch.resume()
        return self.wait()

    def wait(self) -> Stop | None:
        """Wait for a stop; Ctrl-C stops the launch at its next instruction."""
        event = None
        with interrupts(self._interrupt):
            while event is None:  # in short waits, since signals are handled between them
                event = self.launch.wait(timeout=0.2)
        self._interrupted = False
        self._step = None
        if isinstance(event, Outcome):
            return self.ended(event)
        assert self._found is not None
        self.stop = self._found
        self.look_at(self.stop)
        return self.stop

    def _interrupt(self) -> None:
        if self._interrupted:  # a second one: the launch does not reach an instruction
            raise KeyboardInterrupt
        self.interrupt()

    def interrupt(self) -> None:
        """Stop at the next instruction of any warp; any thread may call it."""
        self._interrupted = True
        self.launch.interrupt()

    def ended(self, outcome: Outcome) -> Stop | None:
        """Take note of the end of the launch; an error is a stop."""
        self.error, self.stop = outcome.error, None
        if isinstance(self.error, DeviceError) and self.stop_on.fault:
            self.stop = self.failed_at(self.error)
            self.look_at(self.stop)
        return self.stop

    def back(self, text: str) -> Stop:
        """Go back to the last write of a value; the instruction that writes it comes next."""
        return self.history.back(text)

    def watch(self, text: str) -> Watch:
        """Stop before each write of a value in memory."""
        made = make_watch(self, text)
        self.watches.append(made)
        return made

    def detach(self) -> Stop | None:
        """Let the launch go on to its end, without stops."""
        self.breakpoints, self.watches = [], []
        self.stop_on = StopOn(fault=False)
        return self.cont()

    def end(self) -> None:
        """End the launch where it is."""
        self.launch.end()
        self.stop, self.error = None, self.error or Ended()

    # ---- in the thread of the launch --------------------------------------------------------
    def _wants(self, hit: Hit) -> bool:
        """Decide whether a hit stops the launch; asked again after each stop at the hit."""
        if hit is self._stopped_at:
            self._found = self._at_breakpoint(hit) if self._reported else None
            return self._found is not None
        self._reported = set()
        self._found = self.history.replayed(hit) if self.history.active else self._stop_of(hit)
        self._stopped_at = hit if self._found is not None else None
        return self._found is not None

    def _stop_of(self, hit: Hit) -> Stop | None:
        state = self.launch.state
        time = self.launch.now(hit)
        if self._interrupted:
            return Stop("interrupted", hit, _first(hit, state.lanes_of(hit.warp)), time)
        if hit.reason == Reason.NAN:
            lane = self.first_nan(hit) if self.stop_on.nan else None
            if lane is None:
                return None
            self.stop_on = replace(self.stop_on, nan=False)  # those that follow come from it
            return Stop("the first NaN", hit, lane, time, after=True)
        if (at_breakpoint := self._at_breakpoint(hit)) is not None:
            return at_breakpoint
        for watch in self.watches:
            written = watch.written_by(hit, self)
            if written is not None:
                return Stop(watch.reason, hit, written, time)
        if self.stop_on.barrier and hit.index in self._barriers:
            return Stop("a barrier", hit, _first(hit, state.lanes_of(hit.warp)), time)
        mine = (hit.slot, hit.warp) == (self.focus.slot, self.focus.warp)
        if self._step is not None and mine and self._step(hit):
            return Stop("step", hit, self.focus.lane, time)
        return None

    def _at_breakpoint(self, hit: Hit) -> Stop | None:
        """The stop for the next breakpoint at a hit."""
        for breakpoint in self.breakpoints:
            if breakpoint in self._reported or hit.index not in self._places_of(breakpoint):
                continue
            lane, problem = self._matching(breakpoint, hit)
            if lane is not None:
                self._reported.add(breakpoint)
                breakpoint.hits += 1
                why = f"{breakpoint}" + (f" ({problem})" if problem else "")
                return Stop(why, hit, lane, self.launch.now(hit), breakpoint=breakpoint)
        return None

    def _matching(self, breakpoint: Breakpoint, hit: Hit) -> tuple[int | None, str]:
        """The first lane for which a breakpoint holds, and what was wrong with its condition."""
        lanes = hit.lanes & self.launch.state.lanes_of(hit.warp)
        if breakpoint.node is None:
            return (_first(hit, lanes) if lanes else None), ""
        frame = self.source.frame(self.source.code[hit.index])
        for lane in (i for i in range(32) if lanes >> i & 1):
            try:
                if self.names.is_true(breakpoint.node, Thread(hit.slot, hit.warp, lane), frame):
                    return lane, ""
            except Error as error:
                return lane, f"its condition has no value: {error.what}"
        return None, ""


def _first(hit: Hit, lanes: int) -> int:
    lanes &= hit.lanes
    return (lanes & -lanes).bit_length() - 1 if lanes else 0


def _is_barrier(ins: Any) -> bool:
    return decode(ins).row.participants in (Participants.BLOCK, Participants.CLUSTER)
