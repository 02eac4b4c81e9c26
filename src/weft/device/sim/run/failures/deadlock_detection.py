"""Detects deadlocked launches from their state alone, never from the time.

Compiled code records two facts about each waiting block (`stall.py`): whether it has changed
anything that another thread can see, and whether it has come back to a state it was in before.
Launches of one process may wait for each other, so all that run are looked at together. They are
deadlocked when, since a moment at which an epoch began,

- no block has begun, ended or changed anything, and
- every block that runs has come back to an earlier state, and
- no other thread of the program has run, which could have written to memory. Where no block polls
  memory that the host can write, only barriers and shared memory, other threads do not matter.

Then each block repeats this epoch, which changed nothing, forever. Anything else begins a new
epoch. A busy machine only makes an epoch longer.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Set

from weft.device.sim.layout import BUSY, FREE, ContextFields, SlotFields, WorkerFields
from weft.device.sim.run.arena import Arena

PAUSE = 0.05
"""Seconds between two looks."""


class Watch:
    """One launch that runs; a context in which it counts as running."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.expired = False
        self.deadlocked = False
        self.thread = threading.get_ident()
        self.number = next(_numbers)

    def __enter__(self) -> Watch:
        with _lock:
            _running.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        with _lock:
            _running.remove(self)

    @property
    def verdict(self) -> str:
        return "time" if self.expired else "deadlock" if self.deadlocked else ""

    def stuck(self) -> bool:
        """True if this launch is deadlocked."""
        with _lock:
            if not self.deadlocked and _look():
                for each in _running:
                    each.deadlocked = True
        return self.deadlocked

    def changes(self) -> int:
        return sum(w[WorkerFields.CHANGES] for w in self.arena.workers)

    def repeats(self, epoch: int) -> bool:
        """Return whether every block that has begun has returned to a state of this epoch."""
        arena = self.arena
        if not arena.info.waits:
            return False  # it computes, and will end or not
        workers = range(len(arena.workers))
        slots = [arena.slot(w, i) for w in workers for i in range(arena.slots)]
        states = [int(slot[SlotFields.STATE // 4]) for slot in slots]
        busy = [s.view("int64") for s, state in zip(slots, states, strict=True) if state == BUSY]
        begun = int(arena.context[ContextFields.NEXT // 8])
        total = int(arena.context[ContextFields.TOTAL // 8])
        if not busy or (begun < total and FREE in states):
            return False  # it is about to end, or another block will begin
        ended = sum(w[WorkerFields.PROGRESS] for w in arena.workers)
        # A block that has been taken and is not in its slot yet is about to run.
        return min(begun, total) - arena.skipped - ended == len(busy) and all(
            slot[SlotFields.EPOCH // 8] == epoch and slot[SlotFields.REPEATED // 8] for slot in busy
        )


_lock = threading.Lock()
_numbers = itertools.count()
_running: list[Watch] = []
_epoch = 0
_seen: tuple[object, ...] = ()


def _look() -> bool:
    """Return whether all running launches are deadlocked. Begin a new epoch after a change."""
    global _epoch, _seen
    seen = _activity()
    host_matters = any(each.arena.info.awaits_host for each in _running)
    if seen != _seen or (seen[0] is None and host_matters):
        _epoch, _seen = _epoch + 1, seen
        for each in _running:
            each.arena.context[ContextFields.EPOCH // 8] = _epoch
        return False
    # Once more, since something may have changed while the blocks were looked at.
    return all(each.repeats(_epoch) for each in _running) and seen == _activity()


def _activity() -> tuple[object, ...]:
    """A value that changes when anything but a waiting loop has run."""
    # A launch that has begun or ended is a change, too: hence the numbers. `id` is no number, since
    # a new launch may be where the one before it was.
    return (host(), *(w.number for w in _running), *(w.changes() for w in _running))


def running() -> int:
    """The number of running launches; for `host`, which is called while it does not change."""
    return len(_running)


def _other_threads() -> object:
    """None while a thread may run that is in no launch. Daemons serve tools, and do not count."""
    inside = {each.thread for each in _running}
    others = (t for t in threading.enumerate() if t.is_alive() and not t.daemon)
    free = any(t.ident not in inside and not _joins(t, inside) for t in others)
    return None if free else ()


def _joins(thread: threading.Thread, launching: Set[int | None]) -> bool:
    """Return whether a thread waits, for as long as it takes, for one that is in a launch."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None and frame.f_globals.get("__name__") == threading.__name__:
        if frame.f_code is threading.Thread.join.__code__:
            there = frame.f_locals
            return there["timeout"] is None and there["self"].ident in launching
        frame = frame.f_back
    return False


host: Callable[[], object] = _other_threads
"""None while something outside the running launches may write to their memory; otherwise a value
that changes whenever it may have done so.
"""
