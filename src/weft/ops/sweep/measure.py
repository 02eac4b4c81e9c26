"""Measure one call: check it, then time it with PyTorch and, if it may win, torch.compile.

A `Method` may ask for more: times in CUDA graphs, several sets of arguments, the peer's errors.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from weft.ops.sweep import run, time
from weft.ops.sweep.case import Arguments, Case, Compute, arguments
from weft.ops.sweep.compiled import Compiler
from weft.ops.sweep.draw import Call
from weft.ops.sweep.gpu_lock import GpuLock
from weft.ops.sweep.run import Failed
from weft.values.sweep import SweptCall

SMALL = 2**22
"""Elements of a call that is also made before its turn: those of all processes fit in memory."""
RESERVED = 2**31
"""Bytes that PyTorch's allocator may reserve between calls; other processes need memory, too."""


class Broken(Exception):
    """A contender's CUDA error has made this process useless."""

    def __init__(self, result: SweptCall, who: str) -> None:
        super().__init__(f"{who}: {result.failed[who]}")
        self.result, self.who = result, who


@dataclass(frozen=True)
class Method:
    """The way in which calls are measured.

    graph    True: they are also timed in CUDA graphs
    rotated  bytes that the sets of arguments have together, so that no cache holds them; 0: one set
    compare  True: the errors of torch in the call's dtype are measured, too
    wide     the dtype of the reference
    """

    graph: bool = False
    rotated: int = 0
    compare: bool = False
    wide: str = "float64"


PLAIN = Method()
MOST_SETS = 32
"""Sets of arguments at the most: those of small calls are in a cache, as in a model."""


@dataclass(frozen=True)
class Meter:
    """Measurement of calls: the clock, the lock of the GPU, and torch.compile if wanted."""

    device: str
    compiler: Compiler | None = None
    clock: time.Clock = time.as_called
    lock: GpuLock = field(default_factory=GpuLock)

    def __call__(
        self, case: Case, call: Call, seed: int, failed: Mapping[str, str] | None = None,
        method: Method = PLAIN,
    ) -> SweptCall:  # fmt: skip
        """The result of a call; contenders in `failed` are known to fail, and are left out.

        The seed is that of the tensors' contents.

        Raise Broken if a contender fails with an error that no later call survives.
        """
        if self.device == "cuda" and call.elements <= SMALL and "weft" not in (failed or {}):
            self._prepare(case, call, seed)
        with self.lock:
            result = self._measured(case, call, seed, dict(failed or {}), method)
            if torch.cuda.is_initialized() and torch.cuda.memory_reserved() > RESERVED:
                torch.cuda.empty_cache()
        return result

    def _prepare(self, case: Case, call: Call, seed: int) -> None:
        """Make the call once, while another process has its turn: kernels are chosen and loaded.

        A small call disturbs no other one: it is over when this process is stopped.
        """
        generator = torch.Generator(self.device).manual_seed(seed)
        try:
            run.attempt("weft", lambda: arguments(case, call, self.device, generator).of(case.call))
        except Failed:  # as it will in its turn, where it is recorded
            return

    def _measured(
        self, case: Case, call: Call, seed: int, failed: dict[str, str], method: Method
    ) -> SweptCall:
        result = SweptCall(case.name, str(call), "", math.nan, False, failed=failed)
        try:
            wide = getattr(torch, method.wide)
            result, made = run.check(case, call, self.device, seed, wide, method.compare)
        except Failed as failure:
            return _noted(result, failure)
        result = replace(result, failed=failed)
        sets = self._sets(case, call, seed, made, method)
        contenders = {}
        functions = {"weft": case.call, "torch": case.torch, **case.peers}
        for who, function in functions.items():
            if who in failed:
                continue
            contenders[who] = _rotating(sets, function)
            try:
                run.attempt(who, contenders[who])
            except Failed as failure:
                result = _noted(result, failure)
                del contenders[who]
        if "weft" not in contenders:
            return result
        result = self._timed(result, contenders)
        compiler = self.compiler if "compile" not in failed else None
        if compiler is not None and compiler.may_win(min(result.seconds.values()), case.backward):
            try:
                function = run.attempt("compile", lambda: compiler(case, made))
                contenders["compile"] = _rotating(sets, function)
                result = self._timed(result, contenders)
            except Failed as failure:
                result = _noted(result, failure)
        if not method.graph or "graph" in failed:
            return result
        return self._in_graphs(result, contenders, len(sets))

    def _sets(
        self, case: Case, call: Call, seed: int, made: Arguments, method: Method
    ) -> list[Arguments]:
        """Arguments of the call: those that were checked, and others with other contents."""
        size = sum(t.untyped_storage().nbytes() for t in made.tensors if t is not None)
        count = sets_of(size, method.rotated)
        generator = torch.Generator(self.device).manual_seed(seed + 1)
        more = (arguments(case, call, self.device, generator) for _ in range(count - 1))
        return [made, *more]

    def _timed(self, result: SweptCall, contenders: Mapping[str, time.Function]) -> SweptCall:
        with self.lock.alone():
            if self.device == "cuda":
                time.settle()
            return run.timed(result, contenders, self.clock)

    def _in_graphs(
        self, result: SweptCall, contenders: Mapping[str, time.Function], sets: int
    ) -> SweptCall:
        """The result with times in CUDA graphs, or the reason why there are none."""
        clock = functools.partial(time.in_graphs, list(contenders.values()), sets)
        try:
            with self.lock.alone():
                seconds = run.attempt("graph", clock)
        except Failed as failure:
            return _noted(result, failure)
        return replace(result, graph=dict(zip(contenders, seconds, strict=True)))


def sets_of(size: int, rotated: int) -> int:
    """The number of sets of arguments of so many bytes that a method rotates through."""
    return max(1, min(MOST_SETS, -(-rotated // max(1, size))))


def _rotating(sets: Sequence[Arguments], function: Compute) -> time.Function:
    """The call as a user makes it, with the next set of arguments every time."""
    calls = [made.contender(function) for made in sets]
    if len(calls) == 1:
        return calls[0]
    following = itertools.cycle(calls).__next__
    return lambda: following()()


def _noted(result: SweptCall, failure: Failed) -> SweptCall:
    """The result with a failure; raises Broken if the process has no usable GPU any more."""
    noted = replace(result, failed={**result.failed, failure.who: failure.reason})
    if torch.cuda.is_initialized():
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:
            raise Broken(noted, failure.who) from error
    return noted
