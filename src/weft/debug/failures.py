"""Runs a launch that has failed again, under the debugger: at its fault, or at a wrong element."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

from weft.debug.debugger import Debugger
from weft.debug.stops import StopOn
from weft.debug.terminal import talk as prompt
from weft.debug.watches import Place
from weft.device.sim.run import settings
from weft.device.sim.run.settings import LaunchRequest
from weft.device.sim.tools.debugger.execution import Ended
from weft.errors import CheckFailed, DeviceError, Error, TimeLimit

Talk = Callable[[Debugger], None]


@dataclass(frozen=True)
class _Failed:
    """A launch that has raised an error, and the memory that it began with."""

    error: DeviceError
    asked: LaunchRequest
    memory: dict[int, bytes]


class FailedLaunches:
    """A session that keeps the last launch that has failed; it copies the memory of each launch.

    It receives the launches of this process inside of a `with` block.
    """

    def __init__(self) -> None:
        self._failed: _Failed | None = None

    def __enter__(self) -> FailedLaunches:
        settings.enter(self)
        return self

    def __exit__(self, *error: object) -> None:
        settings.leave(self)

    def run(self, asked: LaunchRequest) -> None:
        """Run one launch."""
        memory = {
            x.address: ctypes.string_at(x.address, x.nbytes)
            for x in asked.memory
            if x.writable and x.nbytes
        }
        below = settings.below(self)
        try:
            if below is not None:
                below.run(asked)
            else:
                asked.run()
        except DeviceError as error:
            if not isinstance(error, TimeLimit):  # the debugger would run as long
                self._failed = _Failed(error, asked, memory)
            raise

    def debug(self, error: BaseException, talk: Talk = prompt) -> bool:
        """Stop where a test has failed; False for an error that no launch has caused."""
        failed = self._failed
        for cause in _chain(error):
            if isinstance(cause, CheckFailed) and cause.repeat is not None:
                return _at_element(cause, talk)
            if failed is not None and failed.error is cause:
                for address, data in failed.memory.items():
                    ctypes.memmove(address, data, len(data))
                debugger = Debugger(failed.asked, [], StopOn())
                return _talked(debugger, debugger.start() is not None, talk)
        return False


def _chain(error: BaseException | None) -> list[BaseException]:
    """An error and its causes."""
    out: list[BaseException] = []
    while error is not None and error not in out:
        out.append(error)
        error = error.__cause__ or error.__context__
    return out


def _talked(debugger: Debugger, stopped: bool, talk: Talk) -> bool:
    try:
        if stopped:
            talk(debugger)
    finally:
        debugger.end()
    return stopped


def _at_element(wrong: CheckFailed, talk: Talk) -> bool:
    """Repeat a call that gives a wrong element; stop at the last write of the element."""
    assert wrong.repeat is not None
    session = _WritesOf(wrong, talk)
    with settings.in_this_process(session):
        try:
            wrong.repeat()
        except (Error, Ended):  # the user has ended it, or it is wrong again
            return session.stopped
    return session.stopped


class _WritesOf:
    """A session that stops launches where they write an element last."""

    def __init__(self, wrong: CheckFailed, talk: Talk) -> None:
        address, size = wrong.place
        self._place, self._talk = Place(address, size), talk
        self._reason = f"the last write of {wrong.element}, which is wrong"
        self.stopped = False

    def run(self, asked: LaunchRequest) -> None:
        """Run one launch."""
        debugger = Debugger(asked, [], StopOn())
        stop = debugger.history.last_write(self._place, self._reason)
        if stop is None:
            asked.run()
            return
        self.stopped = _talked(debugger, True, self._talk)
        if debugger.error is not None:
            raise debugger.error
