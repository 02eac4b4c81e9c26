"""Check random calls in float64 and time them against torch."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from weft.measure.bench.memory import peak
from weft.ops.core import library
from weft.ops.sweep import time
from weft.ops.sweep.case import Arguments, Case, arguments, as_tuple
from weft.ops.sweep.cases import CASES
from weft.ops.sweep.draw import Call
from weft.values.sweep import SweptCall

EPSILON = {
    torch.float64: 2**-52,
    torch.complex64: 2**-23,
    torch.float32: 2**-23,
    torch.float16: 2**-10,
    torch.bfloat16: 2**-7,
}


REASON = 200
"""Characters of a reason that are kept."""


class Failed(Exception):
    """A contender raised an error."""

    def __init__(self, who: str, reason: str) -> None:
        super().__init__(f"{who}: {reason}")
        self.who, self.reason = who, reason


def attempt(who: str, call: Callable[[], Any]) -> Any:
    """Make a contender's call, and wait for the GPU, whose errors come late."""
    try:
        result = call()
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
    except Exception as error:
        reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:REASON]}"
        raise Failed(who, reason) from error
    return result


def cases(names: Sequence[str]) -> list[Case]:
    """The cases of some names, or all."""
    return [case for case in CASES if not names or case.name in names]


def calls(case: Case, seed: int, count: int, most: int) -> Iterator[Call]:
    """The calls that a seed stands for."""
    rng = random.Random(f"{seed} {case.name}")
    for _ in range(count):
        yield case.draw(rng, most)


def check(
    case: Case, call: Call, device: str, seed: int,
    wide_type: torch.dtype = torch.float64, compare: bool = False,
) -> tuple[SweptCall, Arguments]:  # fmt: skip
    """Make the call once, compare with torch in a wider type, and return the arguments as well.

    With `compare`, the errors of torch in the dtype of the call are there, too.

    Raises Failed if weft, torch or the reference raise.
    """
    generator = torch.Generator(device).manual_seed(seed)
    made = attempt("torch", lambda: arguments(case, call, device, generator))
    wide = made.widened(wide_type)  # before the call, which may change its tensors
    plan = attempt("weft", lambda: plan_of(case, made))
    got = attempt("weft", lambda: made.of(case.call))
    if case.judge is not None:
        error = case.judge(got, *made.tensors)
        return SweptCall(case.name, str(call), plan, error, error <= 1), made
    want = attempt("reference", lambda: wide.of(case.reference or case.torch))
    error = max(
        (largest_error(case, call, made.tensors, g, w) for g, w in _pairs(got, want)), default=0.0
    )
    errors = _compared(case, made, got, want) if compare else {}
    return SweptCall(case.name, str(call), plan, error, error <= 1, errors=errors), made


def _compared(case: Case, made: Arguments, got: Any, want: Any) -> dict[str, float]:
    """The errors of weft and torch in the result in which weft compares worst.

    There are none if torch fails.
    """
    try:
        peer = attempt("torch", lambda: made.of(case.torch))
    except Failed:  # as it will when it is timed, where it is recorded
        return {}
    pairs = [
        (rms_error(mine, w), rms_error(other, w))
        for mine, other, w in zip(as_tuple(got), as_tuple(peer), as_tuple(want), strict=True)
        if mine.is_floating_point()
    ]
    weft, torch_ = max(pairs, key=lambda p: p[0] / max(p[1], LEAST_ERROR), default=(0.0, 0.0))
    return {"weft": weft, "torch": torch_}


LEAST_ERROR = 1e-9
"""Errors below this are as good as none."""


def rms_error(got: torch.Tensor, want: torch.Tensor) -> float:
    """The root mean square of the error, over that of the reference; at least LEAST_ERROR."""
    want = want.detach()
    difference = (got.detach().to(want.dtype) - want).nan_to_num(0.0, 0.0, 0.0)
    scale = float(want.nan_to_num(0.0, 0.0, 0.0).norm())
    return max(LEAST_ERROR, float(difference.norm()) / max(scale, 1e-30))


def plan_of(case: Case, made: Arguments) -> str:
    """The name of the chosen kernel; "" for a call that is not one of the op alone."""
    if case.weft is not None:
        return ""
    function = library.function(case.op)
    return function.choice(function.request(*function.bound(made.tensors, made.options))).used.name


def _pairs(got: Any, want: Any) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    return zip(as_tuple(got), as_tuple(want), strict=True)


def largest_error(
    case: Case, call: Call, tensors: Sequence[Any], got: torch.Tensor, want: torch.Tensor
) -> float:
    """The largest error in units of what the dtype and the number of terms allow."""
    if got.shape != want.shape:
        return math.inf
    if not want.numel():
        return 0.0
    got, want = got.detach(), want.detach()
    if case.exact or not (got.is_floating_point() or got.is_complex()):
        return 0.0 if torch.equal(got.nan_to_num(), want.to(got.dtype).nan_to_num()) else math.inf
    # The reference overflows where its value in the dtype does.
    if not torch.equal(got.isfinite(), want.to(got.dtype).isfinite()):
        return math.inf
    finite = got.isfinite()
    want = want.masked_fill(~finite, 0)
    scale = max(1e-30, float(want.abs().max()), case.scale(*tensors, call))
    depth = 0.5 * math.sqrt(case.depth(call))
    allowed = EPSILON[got.dtype] * scale * (case.roundings + depth)
    # Between two subnormal numbers.
    least = float(torch.finfo(got.dtype).smallest_normal) * EPSILON[got.dtype]
    allowed = max(allowed, case.roundings * least)
    return float((got.to(want.dtype).masked_fill(~finite, 0) - want).abs().max()) / allowed


def timed(
    result: SweptCall, contenders: Mapping[str, time.Function], clock: time.Clock = time.as_called
) -> SweptCall:
    """The result with the times and peak memory of contenders, which take turns."""
    seconds = clock(list(contenders.values()))
    peaks = {name: peak(contender) for name, contender in contenders.items()}
    return replace(
        result,
        seconds=dict(zip(contenders, seconds, strict=True)),
        memory={name: size for name, size in peaks.items() if size is not None},
    )
