"""Checks random calls in float64 and times them against torch."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from weft.measure.bench.memory import peak
from weft.ops import library
from weft.ops.sweep import time
from weft.ops.sweep.case import Arguments, Case, arguments, as_tuple
from weft.ops.sweep.cases import CASES
from weft.ops.sweep.draw import Call

EPSILON = {
    torch.float64: 2**-52,
    torch.complex64: 2**-23,
    torch.float32: 2**-23,
    torch.float16: 2**-10,
    torch.bfloat16: 2**-7,
}


@dataclass(frozen=True)
class Result:
    """One call: whether it is right, and seconds per call and peak memory of every contender."""

    op: str
    call: str
    plan: str
    error: float
    right: bool
    seconds: dict[str, float] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """The speed-up over the best other contender."""
        others = [s for name, s in self.seconds.items() if name != "weft"]
        return min(others) / self.seconds["weft"] if others else math.nan


def cases(names: Sequence[str]) -> list[Case]:
    """The cases of some names, or all."""
    return [case for case in CASES if not names or case.name in names]


def calls(case: Case, seed: int, count: int, most: int) -> Iterator[Call]:
    """The calls that a seed stands for."""
    rng = random.Random(f"{seed} {case.name}")
    for _ in range(count):
        yield case.draw(rng, most)


def check(case: Case, call: Call, device: str, seed: int) -> tuple[Result, Arguments]:
    """Makes the call once and compares with torch in float64; also gives the arguments."""
    generator = torch.Generator(device).manual_seed(seed)
    made = arguments(case, call, device, generator)
    wide = made.double()  # before the call, which may change its tensors
    plan = _plan(case, made)
    got = made.of(case.call)
    want = wide.of(case.reference or case.torch)
    error = max(
        (largest_error(case, call, made.tensors, g, w) for g, w in _pairs(got, want)), default=0.0
    )
    return Result(case.name, str(call), plan, error, error <= 1), made


def _plan(case: Case, made: Arguments) -> str:
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
    return float((got.to(want.dtype).masked_fill(~finite, 0) - want).abs().max()) / allowed


def timed(
    case: Case,
    result: Result,
    made: Arguments,
    compiled: Callable[..., Any] | None,
    clock: time.Clock = time.as_called,
) -> Result:
    """The result with the times of all contenders, taken in turns."""
    functions = {"weft": case.call, "torch": case.torch}
    if compiled is not None:
        functions["compile"] = compiled
    contenders = {name: made.contender(function) for name, function in functions.items()}
    seconds = clock(list(contenders.values()))
    peaks = {name: peak(contender) for name, contender in contenders.items()}
    return replace(
        result,
        seconds=dict(zip(contenders, seconds, strict=True)),
        memory={name: size for name, size in peaks.items() if size is not None},
    )


def mean(results: Sequence[Result]) -> float:
    """The geometric mean of the ratios."""
    return math.exp(sum(math.log(r.ratio) for r in results) / len(results))
