"""Checks random calls in float64 and times them against torch."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from weft.ops import library
from weft.ops.sweep import time
from weft.ops.sweep.cases import CASES, Case
from weft.ops.sweep.draw import Call

EPSILON = {torch.float32: 2**-23, torch.float16: 2**-10, torch.bfloat16: 2**-7}


@dataclass(frozen=True)
class Result:
    """One call: whether it is right, and seconds per call of every contender."""

    op: str
    call: str
    plan: str
    error: float
    right: bool
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """The speed-up over the best other contender."""
        others = [s for name, s in self.seconds.items() if name != "weft"]
        return min(others) / self.seconds["weft"] if others else math.nan


def cases(ops: Sequence[str]) -> list[Case]:
    """The cases of some ops, or of all."""
    return [case for case in CASES if not ops or case.op in ops]


def calls(case: Case, seed: int, count: int, most: int) -> Iterator[Call]:
    """The calls that a seed stands for."""
    rng = random.Random(f"{seed} {case.op}")
    for _ in range(count):
        yield case.draw(rng, most)


def check(case: Case, call: Call, device: str, seed: int) -> tuple[Result, list[Any]]:
    """Makes the call once and compares with torch in float64; also gives the tensors."""
    generator = torch.Generator(device).manual_seed(seed)
    tensors = [t.make(device, generator) for t in call.tensors]
    function = library.function(case.op)
    choice = function.choice(function.request(*function.bound(tensors, call.options)))
    got = function.call(*tensors, **call.options)
    want = case.torch(*(_double(t) for t in tensors), **call.options)
    error, right = largest_error(case, call, tensors, got, want)
    return Result(case.op, str(call), choice.used.name, error, right), tensors


def _double(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def largest_error(
    case: Case, call: Call, tensors: list[Any], got: torch.Tensor, want: torch.Tensor
) -> tuple[float, bool]:
    """The largest error in units of what the dtype and the number of terms allow."""
    if got.shape != want.shape:
        return math.inf, False
    if not want.numel():
        return 0.0, True
    if case.exact or not got.is_floating_point():
        same = torch.equal(got.to(want.dtype).nan_to_num(), want.nan_to_num())
        return (0.0, True) if same else (math.inf, False)
    if not torch.equal(got.isfinite(), want.isfinite()):
        return math.inf, False
    # The positions of non-finite values were compared above.
    got, want = got.nan_to_num(0, 0, 0), want.nan_to_num(0, 0, 0)
    scale = max(1e-30, float(want.abs().max()), case.scale(*tensors, call))
    allowed = EPSILON[got.dtype] * scale * (4 + 0.5 * math.sqrt(case.depth(call)))
    error = float((got.double() - want).abs().max()) / allowed
    return error, error <= 1


def timed(
    case: Case,
    call: Call,
    result: Result,
    tensors: list[Any],
    compiled: Callable[..., Any] | None,
    clock: time.Clock = time.as_called,
) -> Result:
    """The result with the times of all contenders, taken in turns."""
    function = library.function(case.op).call
    contenders = {
        "weft": lambda: function(*tensors, **call.options),
        "torch": lambda: case.torch(*tensors, **call.options),
    }
    if compiled is not None:
        contenders["compile"] = lambda: compiled(*tensors, **call.options)
    seconds = clock(list(contenders.values()))
    return replace(result, seconds=dict(zip(contenders, seconds, strict=True)))


def mean(results: Sequence[Result]) -> float:
    """The geometric mean of the ratios."""
    return math.exp(sum(math.log(r.ratio) for r in results) / len(results))
