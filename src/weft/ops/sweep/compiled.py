"""torch.compile as a contender: compiles each call, up to a point in time.

Compiling takes seconds of the host per call. The lock of the GPU is released meanwhile; it is taken
again for the first call, in which Inductor measures variants of its kernels.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch

from weft.ops.sweep.case import Arguments, Case
from weft.ops.sweep.gpu_lock import GpuLock

Compile = Callable[..., Any]
LEAST = 30e-6
"""Seconds of a call below which compiled code cannot win: its guards take as long."""
LEAST_BACKWARD = 200e-6
"""The same for forward plus backward: of 494 recorded calls the fastest one took 300 µs."""


@dataclass
class Compiler:
    """Compile until `until`, by time.time(); calls after that have no such contender.

    least           calls that take less time are not compiled
    least_backward  the same for forward plus backward
    lock            released while compiling
    """

    until: float
    compile: Compile = torch.compile
    least: float = LEAST
    least_backward: float = LEAST_BACKWARD
    lock: GpuLock = field(default_factory=GpuLock)

    def may_win(self, seconds: float, backward: bool = False) -> bool:
        """True if a call of this length is worth compiling."""
        least = self.least_backward if backward else self.least
        return seconds >= least and time.time() < self.until

    def __call__(self, case: Case, made: Arguments) -> Any:
        """The compiled function, called once; raises what torch.compile raises."""
        torch._dynamo.reset()  # beyond the recompile limit Dynamo falls back to eager mode
        pause = ExitStack()
        # Dynamo counts nested compilations, and calls these for the outermost. A reset drops them.
        torch._dynamo.on_compile_start(lambda *about: pause.enter_context(self.lock.paused()))
        torch._dynamo.on_compile_end(lambda *about: pause.close())
        function = self.compile(case.torch, dynamic=False)
        made.of(function)
        return function
