"""Sweeps one op: draws calls, checks and times them, and summarises the results."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.ops.sweep import gpu, run, time
from weft.ops.sweep.case import Case
from weft.ops.sweep.compiled import Compiler
from weft.ops.sweep.draw import Call
from weft.ops.sweep.host import HostTime
from weft.ops.sweep.run import Result

Progress = Callable[[str], None]
"""Called with the text of each call before it is made."""


@dataclass(frozen=True)
class Settings:
    """The random calls: `count` per op, with at most `most` elements in a tensor."""

    seed: int = 1
    count: int = 60
    most: int = 2**26
    device: str = "cuda"


@dataclass(frozen=True)
class Swept:
    """The results of one op."""

    op: str
    settings: Settings
    results: tuple[Result, ...]

    @property
    def mean(self) -> float:
        """The geometric mean of how many times as fast as the best peer the calls are."""
        return run.mean(self.results)

    @property
    def wrong(self) -> list[Result]:
        return [r for r in self.results if not r.right]

    def worst(self, count: int = 10) -> list[Result]:
        """The calls that lose most, worst first."""
        return sorted(self.results, key=lambda r: r.ratio)[:count]

    def memory_ratio(self) -> str:
        """The peak memory of all calls over PyTorch's; "" if it was not measured."""
        weft, torch = (sum(r.memory.get(n, 0) for r in self.results) for n in ("weft", "torch"))
        return f"{weft / torch:.2f} x" if torch else ""

    def to_dict(self) -> dict[str, Any]:
        """The record."""
        return {
            "op": self.op,
            "seed": self.settings.seed,
            "most": self.settings.most,
            "mean": self.mean,
            "results": [_row(r) for r in self.results],
        }


def _row(result: Result) -> dict[str, Any]:
    return {
        "call": result.call,
        "plan": result.plan,
        "error": result.error,
        "right": result.right,
        "us": {name: round(1e6 * s, 2) for name, s in result.seconds.items()},
        "bytes": result.memory,
    }


def calls(case: Case, settings: Settings) -> list[Call]:
    """The calls that a sweep of an op makes."""
    return list(run.calls(case, settings.seed, settings.count, settings.most))


def sweep(
    case: Case,
    settings: Settings,
    compiler: Compiler | None = None,
    tell: Progress = lambda text: None,
    clock: time.Clock = time.as_called,
) -> Swept:
    """Makes the calls of an op, one after the other."""
    results = []
    for call in calls(case, settings):
        tell(f"{case.name} {call}")
        result, made = run.check(case, call, settings.device, settings.seed)
        result = run.timed(case, result, made, None, clock)
        if compiler is not None and compiler.may_win(min(result.seconds.values())):
            compiled = compiler(case, call, made)
            if compiled is not None:
                result = run.timed(case, result, made, compiled, clock)
        results.append(result)
    return Swept(case.name, settings, tuple(results))


# ---- records -----------------------------------------------------------------------------------
def append(path: Path, swept: Sequence[Swept], host: Sequence[HostTime]) -> None:
    """Appends a line for each op and one for the host's times."""
    machine = gpu.about()
    lines = [{**s.to_dict(), **machine} for s in swept]
    if host:
        lines.append({"host": [h.to_dict() for h in host], **machine})
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
