"""Measure one call: check it, then time it with PyTorch and, if it may win, torch.compile."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch

from weft.ops.sweep import run, time
from weft.ops.sweep.case import Case, arguments
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
class Meter:
    """Measurement of calls: the clock, the lock of the GPU, and torch.compile if wanted."""

    device: str
    compiler: Compiler | None = None
    clock: time.Clock = time.as_called
    lock: GpuLock = field(default_factory=GpuLock)

    def __call__(
        self, case: Case, call: Call, seed: int, failed: Mapping[str, str] | None = None
    ) -> SweptCall:
        """The result of a call; contenders in `failed` are known to fail, and are left out.

        The seed is that of the tensors' contents.

        Raise Broken if a contender fails with an error that no later call survives.
        """
        if self.device == "cuda" and call.elements <= SMALL and "weft" not in (failed or {}):
            self._prepare(case, call, seed)
        with self.lock:
            result = self._measured(case, call, seed, dict(failed or {}))
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

    def _measured(self, case: Case, call: Call, seed: int, failed: dict[str, str]) -> SweptCall:
        result = SweptCall(case.name, str(call), "", math.nan, False, failed=failed)
        try:
            result, made = run.check(case, call, self.device, seed)
        except Failed as failure:
            return _noted(result, failure)
        result = replace(result, failed=failed)
        contenders = {}
        for who, function in (("weft", case.call), ("torch", case.torch)):
            if who in failed:
                continue
            contenders[who] = made.contender(function)
            try:
                run.attempt(who, contenders[who])
            except Failed as failure:
                result = _noted(result, failure)
                del contenders[who]
        if "weft" not in contenders:
            return result
        result = self._timed(result, contenders)
        compiler = self.compiler
        if compiler is None or "compile" in failed:
            return result
        if not compiler.may_win(min(result.seconds.values()), case.backward):
            return result
        try:
            function = run.attempt("compile", lambda: compiler(case, made))
        except Failed as failure:
            return _noted(result, failure)
        contenders["compile"] = made.contender(function)
        return self._timed(result, contenders)

    def _timed(self, result: SweptCall, contenders: Mapping[str, time.Function]) -> SweptCall:
        with self.lock.alone():
            if self.device == "cuda":
                time.settle()
            return run.timed(result, contenders, self.clock)


def _noted(result: SweptCall, failure: Failed) -> SweptCall:
    """The result with a failure; raises Broken if the process has no usable GPU any more."""
    noted = replace(result, failed={**result.failed, failure.who: failure.reason})
    if torch.cuda.is_initialized():
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:
            raise Broken(noted, failure.who) from error
    return noted
