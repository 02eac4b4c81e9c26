"""torch.compile as a contender: compiles each call, within a time budget.

Compiling takes seconds per call, in torch.compile and in NVRTC. `warm` does both ahead in several
processes, whose results are kept on disk; the process that times then only loads them.
"""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any

import torch

from weft.ops import library
from weft.ops.sweep.case import Arguments, Case, arguments, find
from weft.ops.sweep.cases import CASES
from weft.ops.sweep.draw import Call

Compile = Callable[..., Any]
LEAST = 30e-6
"""Seconds of a call below which compiled code cannot win: its guards take as long."""


@dataclass
class Compiler:
    """Compiles until its budget is spent; calls after that have no such contender.

    least     calls that take less time are not compiled
    spent     seconds that compiling took
    failures  what torch.compile could not compile, with its reason
    """

    budget: float
    compile: Compile = torch.compile
    least: float = LEAST
    spent: float = 0.0
    failures: list[str] = field(default_factory=list)

    def may_win(self, seconds: float) -> bool:
        """True if a call of this length is worth compiling."""
        return seconds >= self.least and self.spent < self.budget

    def __call__(self, case: Case, call: Call, made: Arguments) -> Any:
        """The compiled function, called once; None where there is none."""
        if self.spent >= self.budget:
            return None
        begin = time.perf_counter()
        reason, function = _compiled(case, made, self.compile)
        self.spent += time.perf_counter() - begin
        if reason:
            self.failures.append(f"{case.name} {call}: {reason}")
        return function


def _compiled(case: Case, made: Arguments, compile: Compile) -> tuple[str, Any | None]:
    torch._dynamo.reset()  # beyond the recompile limit Dynamo falls back to eager mode
    function = compile(case.torch, dynamic=False)
    try:
        made.of(function)
    except Exception as error:  # a failing peer is reported, and the sweep continues
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}", None
    return "", function


# ---- ahead, in other processes -----------------------------------------------------------------
def warm(
    calls: Sequence[tuple[str, Call]],
    jobs: int,
    budget: float,
    tell: Callable[[int], None],
    device: str = "cuda",
    compile: Compile | None = torch.compile,
) -> int:
    """Compiles calls in `jobs` processes until the budget is spent; how many were compiled.

    Each call comes with the name of its case. weft's kernels are compiled in any case, and torch's
    if there is a `compile` and the call may be long enough for it to win. Failures are not
    reported here: the process that times meets them again.
    """
    done = 0
    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_alone) as pool:
        try:
            pending = [pool.submit(_compile_once, *call, device, compile) for call in calls]
            for future in as_completed(pending, timeout=budget):
                done += future.result()
                tell(done)
        except (TimeoutError, BrokenProcessPool):  # the rest compiles when it is timed
            pool.shutdown(wait=True, cancel_futures=True)
    return done


def _alone() -> None:
    """In a worker: Inductor starts no processes of its own."""
    import torch._inductor.config as inductor

    inductor.compile_threads = 1


def _compile_once(name: str, call: Call, device: str, compile: Compile | None) -> bool:
    """In a worker: compiles one call, so that the caches on disk have it."""
    case = find(name, CASES)
    made = arguments(case, call, device)
    made.of(case.call)
    if compile is None or _modelled(case, made) < LEAST / 2:
        return True
    return not _compiled(case, made, compile)[0]


def _modelled(case: Case, made: Arguments) -> float:
    """Seconds of a call by the cost model, which may be half of what is measured."""
    if case.weft is not None:
        return math.inf
    function = library.function(case.op)
    choice = function.choice(function.request(*function.bound(made.tensors, made.options)))
    return choice.used.cost * (3 if case.backward else 1)  # backward moves twice as much
