"""The session that launches on simulated GPUs run under: a process-wide setting."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from weft.device.time_limit import limited, within

if TYPE_CHECKING:
    from weft.device.base import Allocation, LaunchConfig
    from weft.device.sim.run.module import SimModule
    from weft.device.sim.run.observation import Observer


class Planned(Protocol):
    """A kernel and a grid, ready to be launched: `launch.Plan`."""

    sim: SimModule
    entry: str
    config: LaunchConfig

    def under(self, observer: Observer) -> Planned:
        """The same launches under an observer."""

    def run_plain(
        self, params: bytes, memory: Sequence[Allocation], keep: object, time_limit: float | None
    ) -> None:
        """Runs the grid to its end, whatever session is active."""


@dataclass(frozen=True)
class Request:
    """One launch that is asked for; `keep` owns the memory."""

    plan: Planned
    params: bytes
    memory: Sequence[Allocation]
    keep: object
    time_limit: float | None

    def run(self, observer: Observer | None = None) -> None:
        """Runs it, under an observer if one is given, whatever session is active."""
        limit, plan = limited(self.time_limit), self.plan
        if observer is not None:
            plan = within(limit, plan.entry, lambda: self.plan.under(observer))
        plan.run_plain(self.params, self.memory, self.keep, limit)


class Session(Protocol):
    """What runs launches in place of themselves: the sanitizer's report, a profiler's recording."""

    def run(self, asked: Request) -> None:
        """One launch."""


current: Session | None = None
"""What launches of this process are given to; None: they run plainly."""

VARIABLE = "WEFT_SANITIZE"
_wanted = os.environ.get(VARIABLE, "0") not in ("", "0")


def turn_on() -> None:
    """As the variable in the environment does."""
    global _wanted
    _wanted = True


_strict: Callable[[], Session] | None = None


def provide(strict: Callable[[], Session]) -> None:
    """Sets what makes the session that WEFT_SANITIZE asks for: tools are above this folder."""
    global _strict
    _strict = strict


def active() -> Session | None:
    """`current`; WEFT_SANITIZE=1 in the environment turns it on for each launch by itself."""
    global current
    if current is None and _wanted:
        assert _strict is not None, "weft.device.sim.device provides it when it is imported"
        current = _strict()
    return current
