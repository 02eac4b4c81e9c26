"""Looks for data races in the background of a plain run, and names them in one line at exit.

Whole programs and scripts of Triton, Numba and weft have it.

A kernel without a barrier that it needs may be right on a GPU by chance and wrong here. The first
launch of each kernel therefore runs a second time, under the sanitizer, in a child process: `fork`
gives it a copy of the program's memory at the same addresses. The outcome is kept in weft's cache,
so that a kernel is looked at once, not in every run.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import select
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft import cache
from weft.errors import DeviceError

if TYPE_CHECKING:  # a script that launches nothing does without the simulated GPU
    from weft.device.base import Allocation
    from weft.device.sim.run.launch import LaunchPlan

VARIABLE = "WEFT_RACE_HINT"
"""The most seconds that a program waits at exit for the search; 0 turns the search off."""
_PATIENCE = 2.0
_MOST_THREADS = 1 << 16
_MOST_BYTES = 1 << 29
"""`fork` takes longer with more memory."""
_MOST_CHILDREN = 4
_LIFETIME = 10
"""Seconds after which a search ends without a result, unless the program waits longer."""
_PARENT_DIED = 1  # PR_SET_PDEATHSIG
_KINDS = ("data race", "missing wait")


def patience() -> float:
    """The seconds of the variable in the environment, or the default."""
    try:
        return max(0.0, float(os.environ.get(VARIABLE, _PATIENCE)))
    except ValueError:
        return _PATIENCE


@dataclass
class _Search:
    """One child: its process, the pipe of its result, and the key of the result in the cache."""

    process: int
    pipe: int
    key: str


class RaceHint:
    """The searches of one program."""

    def __init__(self, say: Callable[[str], None], command: str, wait: float) -> None:
        """`command` shows the races in full; `wait` is the most seconds at exit."""
        self._say, self._command, self._wait = say, command, wait
        self._seen: set[tuple[str, str]] = set()
        self._searches: list[_Search] = []
        self._races: list[str] = []

    def look(
        self, text: str, name: str, plan: LaunchPlan, params: bytes, memory: Sequence[Allocation]
    ) -> None:
        """Search a launch for races, before it runs, if it is the kernel's first and is cheap."""
        if (text, name) in self._seen:
            return
        x, y, z = plan.config.block
        threads = plan.total * x * y * z
        if threads > _MOST_THREADS or sum(a.nbytes for a in memory) > _MOST_BYTES:
            return
        from weft.device.version import generator

        key = cache.key("race hint", generator(), text, name, str(plan.config.block))
        earlier = cache.get("races", key)
        if earlier is not None:
            self._seen.add((text, name))
            self._races += json.loads(earlier)
        elif len(self._searches) < _MOST_CHILDREN:
            self._seen.add((text, name))
            self._searches.append(_started(key, plan, params, memory))

    def look_at(self, plan: LaunchPlan, params: bytes, memory: Sequence[Allocation]) -> None:
        """`look` for a launch of this process itself: `settings.before_launch`."""
        self.look(plan.sim.ptx.text, plan.entry, plan, params, memory)

    def report(self) -> None:
        """Wait a moment, at exit, for searches under way, and print one line for each race."""
        end = time.monotonic() + self._wait
        for search in self._searches:
            ready, _, _ = select.select([search.pipe], [], [], max(0.0, end - time.monotonic()))
            races = _ended(search, bool(ready))
            # A search that takes too long is not repeated in the next run.
            cache.put("races", search.key, json.dumps(races).encode())
            self._races += races
        self._searches.clear()
        for race in dict.fromkeys(self._races):
            self._say(f"{race}: {self._command}")


def _started(key: str, plan: LaunchPlan, params: bytes, memory: Sequence[Allocation]) -> _Search:
    reads, writes = os.pipe()
    # The child has a copy of each lock. One that another thread holds is never released there.
    with _uninterrupted(), plan.sim.exclusive, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
        if process == 0:
            try:
                _search(writes, plan, params, memory)
            finally:
                os._exit(0)  # neither buffers nor exit handlers of the program are the child's
    os.close(writes)
    return _Search(process, reads, key)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C to the end of the block: Python drops exceptions of fork callbacks."""
    before = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        signal.raise_signal(signal.SIGINT)


def _ended(search: _Search, ready: bool) -> list[str]:
    """The races that a child has found; ends the child."""
    if not ready:
        os.kill(search.process, signal.SIGKILL)
    with open(search.pipe, encoding="utf-8") as file:
        text = file.read()
    os.waitpid(search.process, 0)
    return list(json.loads(text)) if text else []


def _search(pipe: int, plan: LaunchPlan, params: bytes, memory: Sequence[Allocation]) -> None:
    """Run the launch in the child under the sanitizer, on the child's copy of the memory."""
    from weft.device.sim.run import draft, settings
    from weft.device.sim.run.failures import deadlock_detection
    from weft.device.sim.tools.sanitizer.session import Report  # plain runs do without its code

    ctypes.CDLL(None).prctl(_PARENT_DIED, signal.SIGKILL)
    for number in (signal.SIGALRM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    signal.alarm(max(_LIFETIME, math.ceil(patience())))
    os.nice(19)
    silence = os.open(os.devnull, os.O_WRONLY)
    for standard in (1, 2):
        os.dup2(silence, standard)
    deadlock_detection.host = lambda: None  # the program's threads are not the child's
    report = Report()
    try:
        with draft.drafts():  # compiling takes longer than one small launch
            report.run(settings.LaunchRequest(plan, params, memory, None, None))
    except DeviceError:
        return  # the launch itself reports it
    # Sorted by the source: the first race of a kernel stands for all.
    race = next((f for f in report.findings if f.kind in _KINDS), None)
    races = []
    if race is not None:
        lines = dict.fromkeys(f"{os.path.basename(a.file)}:{a.number}" for a in race.accesses)
        races = [f"{race.kernel} has a {race.kind} ({' and '.join(lines)})"]
    os.write(pipe, json.dumps(races).encode())
