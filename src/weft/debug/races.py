"""Stops at a data race: the sanitizer finds it, the debugger stops at its second access."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.debug.debugger import Debugger
from weft.debug.inspection import Inspection
from weft.debug.session import DebugSession
from weft.debug.stops import StopOn
from weft.debug.terminal import talk as prompt
from weft.debug.watches import Place, Watch, effects, executes, written
from weft.device.sim.run.module import SimModule
from weft.device.sim.run.settings import LaunchRequest
from weft.device.sim.tools.debugger.execution import silent
from weft.device.sim.tools.debugger.observer import Hit
from weft.device.sim.tools.sanitizer.session import Report
from weft.errors import DeviceError
from weft.values.findings import Access, Finding

_KIND = "data race"


def stop_at_races(session: DebugSession) -> None:
    """Let the launches of a session stop at their first race."""
    talk = session.talk or prompt

    def announced(debugger: Debugger) -> None:
        for watch in debugger.watches:
            if isinstance(watch, _SecondAccess):
                print(watch.found)
        talk(debugger)

    session.talk = announced
    session.handle = lambda asked: _run(asked, session)


def _run(asked: LaunchRequest, session: DebugSession) -> None:
    debugger = Debugger(asked, (), StopOn())
    found, failed = _race(asked)
    debugger.launch.restore()
    if found is None and not failed:
        asked.run()
        return
    if found is not None:
        debugger.watches = [_SecondAccess.of(found, debugger)]
    session.converse(debugger, debugger.start)


def _race(asked: LaunchRequest) -> tuple[Finding | None, bool]:
    """The first race between threads that the sanitizer finds, and whether the launch fails."""
    failed, report, sim = False, Report(), asked.plan.sim
    assert isinstance(sim, SimModule)
    with silent(sim, True):
        try:
            report.run(asked)
        except DeviceError:
            failed = True  # the launch that follows fails in the same way
    races = [f for f in report.findings if f.kind == _KIND and len(f.accesses) == 2]
    between = (f for f in races if all(a.thread is not None for a in f.accesses))
    return next(between, None), failed


@dataclass
class _Side:
    """One access of a race: its instructions, and the memory that they have accessed so far."""

    access: Access
    reads: bool
    code: list[int]
    touched: list[tuple[int, int]] = field(default_factory=list)

    @classmethod
    def of(cls, access: Access, debugger: Debugger) -> _Side:
        reads = access.verb.startswith("read")
        code = [
            ins.index
            for ins in debugger.source.code
            if debugger.source.line_of(ins) == (access.file, access.number)
            and effects(ins, reads=reads)
        ]
        return cls(access, reads, code)

    def touches(self, hit: Hit, view: Inspection) -> tuple[int, list[tuple[int, int]]]:
        """The lane of the access, and the memory that it is about to access."""
        ins, state = view.source.code[hit.index], view.state
        assert self.access.thread is not None
        thread = state.thread(hit.slot, self.access.thread)
        mine = hit.warp == thread.warp and state.block_of(hit.slot) == self.access.block
        runs = mine and hit.index in self.code and hit.lanes >> thread.lane & 1
        if not runs or not executes(ins, thread, view):
            return thread.lane, []
        return thread.lane, written(ins, thread, view, reads=self.reads)


@dataclass(frozen=True)
class _SecondAccess(Watch):
    """A watch that stops where one access of a race meets the memory of the other."""

    found: Finding | None = None
    sides: tuple[_Side, ...] = ()

    @classmethod
    def of(cls, found: Finding, debugger: Debugger) -> _SecondAccess:
        sides = tuple(_Side.of(access, debugger) for access in found.accesses)
        code = sorted({index for side in sides for index in side.code})
        return cls(found.what, Place(0, 0), code, found, sides)

    @property
    def reason(self) -> str:
        return f"the second access of a {self.text}"

    def written_by(self, hit: Hit, view: Inspection) -> int | None:
        if hit.index not in self.writers:
            return None
        for side, other in zip(self.sides, reversed(self.sides), strict=True):
            lane, places = side.touches(hit, view)
            side.touched += places
            for start, size in places:
                if any(a < start + size and start < a + n for a, n in other.touched):
                    return lane
        return None
