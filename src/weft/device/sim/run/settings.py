"""The session that launches on simulated GPUs run under: a process-wide setting."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from weft.device.time_limit import limited, within
from weft.records import dataclass

if TYPE_CHECKING:
    from weft.device.base import Allocation, Dim3, LaunchConfig
    from weft.device.sim.run.module import SimModule
    from weft.device.sim.run.observation import Observer


class Planned(Protocol):
    """A kernel and a grid, ready to be launched: `launch.LaunchPlan`."""

    sim: SimModule
    entry: str
    config: LaunchConfig
    cluster: Dim3 | None

    def under(self, observer: Observer) -> Planned:
        """The same launches under an observer."""

    def run_plain(
        self, params: bytes, memory: Sequence[Allocation], keep: object, time_limit: float | None
    ) -> None:
        """Run the grid to its end, whatever session is active."""


@dataclass(frozen=True)
class LaunchRequest:
    """One requested launch; `keep` owns the memory."""

    plan: Planned
    params: bytes
    memory: Sequence[Allocation]
    keep: object
    time_limit: float | None

    def run(self, observer: Observer | None = None) -> None:
        """Run it in any session, under an observer if one is given."""
        limit, plan = limited(self.time_limit), self.plan
        if observer is not None:
            plan = within(limit, plan.entry, lambda: self.plan.under(observer))
        plan.run_plain(self.params, self.memory, self.keep, limit)


class Session(Protocol):
    """A handler of launches: the sanitizer's report, a profiler's recording."""

    def run(self, asked: LaunchRequest) -> None:
        """One launch."""


current: Session | None = None
"""The session that receives the launches of this process; None: they run plainly."""

before_launch: Callable[[Any, bytes, Sequence[Allocation]], None] | None = None
"""Called with the plan, the parameters and the memory of each plain launch of this process."""

VARIABLE = "WEFT_SANITIZE"
_wanted = os.environ.get(VARIABLE, "0") not in ("", "0")


def turn_on() -> None:
    """Turn the sanitizer on, as the environment variable does."""
    global _wanted
    _wanted = True


_strict: Callable[[], Session] | None = None


def provide(strict: Callable[[], Session]) -> None:
    """Set the factory of the session that WEFT_SANITIZE selects: tools are above this folder."""
    global _strict
    _strict = strict


_lock = threading.Lock()
_open: list[Session] = []
"""The sessions that were entered, the newest last."""
_outside: Session | None = None
"""The session that was current before the first of them."""


def enter(session: Session) -> None:
    """Hand the launches of this process to a session, until `leave`.

    Sessions of several threads may leave in any order: the newest that is left is current.
    """
    global current, _outside
    with _lock:
        if not _open:
            _outside = current
        _open.append(session)
        current = session


def leave(session: Session) -> None:
    """End `enter`."""
    global current
    with _lock:
        del _open[next(i for i, one in enumerate(_open) if one is session)]
        current = _open[-1] if _open else _outside


def below(session: Session) -> Session | None:
    """The session that would receive the launches without this one, which was entered."""
    with _lock:
        at = next(i for i, one in enumerate(_open) if one is session)
        return _open[at - 1] if at else _outside


@contextmanager
def in_this_process(session: Session) -> Iterator[None]:
    """Enter a session inside of a `with` block."""
    enter(session)
    try:
        yield
    finally:
        leave(session)


_of_thread = threading.local()


@contextmanager
def in_this_thread(session: Session) -> Iterator[None]:
    """Hand the launches of this thread alone to a session, inside of a `with` block.

    A thread may outlive its caller, for example after a time limit; `current` would then stay set.
    """
    before = getattr(_of_thread, "session", None)
    _of_thread.session = session
    try:
        yield
    finally:
        _of_thread.session = before


def active() -> Session | None:
    """The session of this thread, or `current`, which WEFT_SANITIZE=1 turns on for each launch."""
    global current
    session: Session | None = getattr(_of_thread, "session", None)
    if session is not None:
        return session
    if current is None and _wanted:
        assert _strict is not None, "weft.device.sim.device provides it when it is imported"
        current = _strict()
    return current
