"""One execution of a launch in a thread of its own, which stops where the debugger wants."""

from __future__ import annotations

import contextlib
import ctypes
import io
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from math import prod

from weft.device.sim.analyse.prepare import prepare
from weft.device.sim.run.launch import LaunchPlan
from weft.device.sim.run.module import SimModule
from weft.device.sim.run.settings import LaunchRequest
from weft.device.sim.tools.debugger.layout import ControlFields, ShadowLayout
from weft.device.sim.tools.debugger.observer import NEVER, DebugObserver, Hit
from weft.device.sim.tools.debugger.state import LaunchState
from weft.device.sim.tools.debugger.watcher import Condition
from weft.records import dataclass


class Ended(Exception):
    """The debugger has ended the launch before its end."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of an execution: the error that the launch has raised, if any."""

    error: BaseException | None


class DebuggedLaunch:
    """A launch that can be executed several times: it starts from the same memory each time.

    sim      the module with the code to debug, which may be another build of the request's
    wants    decides in the launch's thread whether a hit stops it
    first    the block to begin with; those before it have run already
    """

    def __init__(
        self,
        asked: LaunchRequest,
        sim: SimModule,
        wants: Callable[[Hit], bool],
        *,
        nans: bool,
        first: int = 0,
    ) -> None:
        self.asked, self.sim, self.nans = asked, sim, nans
        total = prod(asked.plan.config.grid)
        self._blocks = range(first, total) if first else None
        plan = asked.plan
        function = sim.function(plan.entry)
        self.program = prepare(sim.module, function, plan.config.block)
        self.shadow = ShadowLayout(self.program)
        sim.place()
        self.state = LaunchState(self.program, self.shadow, [*asked.memory, *sim.owned()])
        self.conditions: dict[int, tuple[str, Condition]] = {}
        self.observer: DebugObserver | None = None
        self._wants = wants
        self._snapshot: Mapping[int, bytes] = {
            x.address: ctypes.string_at(x.address, x.nbytes)
            for x in self.state.memory
            if x.writable and x.nbytes
        }
        self._events: queue.SimpleQueue[Hit | Outcome] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._ending = False
        self.stopped = False

    # ---- execution --------------------------------------------------------------------------
    def begin(self, arm: Callable[[DebugObserver], None], *, quiet: bool = False) -> None:
        """Start the launch from its first memory; `arm` sets where it stops."""
        assert self._thread is None, "an execution runs already"
        self.restore()
        count = len(self.state.code)
        observer = DebugObserver(self.shadow, count, self._hit, self.conditions, nans=self.nans)
        self.observer = self.state.observer = observer
        arm(observer)
        self._ending = self.stopped = False
        self._thread = threading.Thread(
            target=self._run, args=(observer, quiet), name="weft debugger", daemon=True
        )
        self._thread.start()

    def restore(self) -> None:
        """Give memory the contents that it had before the launch."""
        for address, data in self._snapshot.items():
            ctypes.memmove(address, data, len(data))

    def wait(self, timeout: float | None = None) -> Hit | Outcome | None:
        """The next stop, or the end of the launch; None after `timeout` seconds."""
        try:
            event = self._events.get(timeout=timeout)
        except queue.Empty:
            return None
        self.stopped = isinstance(event, Hit)
        if isinstance(event, Outcome):
            assert self._thread is not None
            self._thread.join()
            self._thread = None
        return event

    def resume(self) -> None:
        """Go on after a stop."""
        assert self.stopped
        self.stopped = False
        self._answers.put(True)

    def interrupt(self) -> None:
        """Stop at the next instruction of any warp."""
        if self.observer is not None:
            self.observer.table |= 1

    def end(self) -> None:
        """End an execution before its end, wherever it is."""
        if self._thread is None:
            return
        self._ending = True
        if self.stopped:
            self.stopped = False
            self._answers.put(False)
        else:
            self.interrupt()
        while not isinstance(self.wait(), Outcome):
            self._answers.put(False)

    @property
    def running(self) -> bool:
        """Return whether the launch has begun and not ended."""
        return self._thread is not None

    def _run(self, observer: DebugObserver, quiet: bool) -> None:
        asked = self.asked
        error: BaseException | None = None
        try:
            with silent(self.sim, quiet):
                plan = LaunchPlan(self.sim, asked.plan.entry, asked.plan.config, observer)
                plan.run_blocks(asked.params, asked.memory, asked.keep, None, blocks=self._blocks)
        except BaseException as raised:
            error = observer.failed or (Ended() if self._ending else raised)
        self._events.put(Outcome(error))

    def _hit(self, hit: Hit) -> bool:
        # A hit may stop the launch several times, once for each breakpoint at its place.
        while not self._ending and self._wants(hit):
            self._events.put(hit)
            if not self._answers.get():
                return False
        return not self._ending

    def now(self, hit: Hit) -> tuple[int, int]:
        """The time of a hit: basic blocks that were entered before, and the instruction."""
        assert self.observer is not None
        return self.observer.entered, hit.index


def stop_at(observer: DebugObserver, entered: int) -> None:
    """Call the host when the basic block with this number is entered."""
    observer.words[ControlFields.TARGET // 8] = entered - 1 if entered > 0 else NEVER


@contextlib.contextmanager
def silent(sim: SimModule, quiet: bool) -> Iterator[None]:
    """Discard what kernels print while a launch is repeated."""
    services = sim.services
    before = services.stdout
    if quiet:
        services.stdout = io.StringIO()
    try:
        yield
    finally:
        services.stdout = before
