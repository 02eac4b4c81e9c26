"""Stops of a launch: why, where, and for which thread."""

from __future__ import annotations

from dataclasses import dataclass

from weft.debug.breakpoints import Breakpoint
from weft.device.sim.tools.debugger.observer import Hit


@dataclass(frozen=True)
class StopOn:
    """The events, besides breakpoints, at which launches stop.

    fault    an error: a wrong address, a failed assertion, a trap, a deadlock
    barrier  the arrival of a warp at a barrier
    nan      an instruction whose result is the first NaN
    """

    fault: bool = True
    barrier: bool = False
    nan: bool = False


@dataclass(frozen=True)
class Stop:
    """A stopped launch. The instruction of `hit` comes next; `after`: it has just executed;
    `failed`: the launch has ended there with an error.

    reason  what stopped it, in words
    lane    the lane that the debugger looks at
    time    basic blocks entered so far, and the instruction: repeated launches count the same
    """

    reason: str
    hit: Hit
    lane: int
    time: tuple[int, int]
    breakpoint: Breakpoint | None = None
    after: bool = False
    failed: bool = False
