"""The results of checks: of a trial, of a subject, and of a solution in a file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from weft.errors import CheckFailed, Error


@dataclass(frozen=True)
class Verdict:
    """The result of one trial of a check.

    trial           the sizes and the kind of the inputs
    worst           the largest error, in units of the allowed error
    blind           whether an output of zeros would pass as well
    deterministic   whether both runs gave the same bits

    >>> verdict = report.trials[0]
    >>> print(verdict.deterministic, verdict.blind)
    True False
    """

    trial: str
    worst: float
    blind: bool
    deterministic: bool


@dataclass(frozen=True)
class CheckReport:
    """A check that passed: `weft.Report` describes the fields."""

    name: str
    device: str
    seed: int
    trials: tuple[Verdict, ...]
    schedules: tuple[str, ...] = ()

    @property
    def worst(self) -> float:
        """The largest error, in units of the allowed error: below 1."""
        return max((t.worst for t in self.trials), default=0.0)

    @property
    def deterministic(self) -> bool:
        """True if both runs of every trial gave the same bits."""
        return all(t.deterministic for t in self.trials)

    def to_dict(self) -> dict[str, Any]:
        """The report as a dict, for JSON."""
        return {**asdict(self), "worst": self.worst, "deterministic": self.deterministic}

    def __str__(self) -> str:
        runs = "the same bits in both runs" if self.deterministic else "NOT deterministic"
        if self.schedules:
            runs += f"; right under {len(self.schedules)} schedules"
        return (
            f"{self.name}: right on {len(self.trials)} trials, {self.device}; worst error"
            f" {self.worst:.2g} of what is allowed; {runs}; seed {self.seed}"
        )


@dataclass(frozen=True)
class Outcome:
    """The result of one solution.

    report  set when it is right
    error   CheckFailed when it is wrong, another Error when it could not be checked
    said    the lines that the solution printed
    """

    name: str
    seconds: float
    report: CheckReport | None
    error: Error | None
    said: Sequence[str]

    @property
    def code(self) -> int:
        """0 if it is right, 1 if it is wrong, 2 if it could not be checked."""
        return 0 if self.error is None else 1 if isinstance(self.error, CheckFailed) else 2

    def to_dict(self) -> dict[str, Any]:
        """The outcome as a dict, for JSON. Numbers that JSON lacks are strings: "nan", "inf"."""
        row: dict[str, Any] = {"ok": self.error is None, "name": self.name}
        if self.report is not None:
            row |= self.report.to_dict()
        elif self.error is not None:
            row["judged"] = self.code == 1
            row |= {name: getattr(self.error, name, None) for name in _FIELDS}
        row["seconds"] = round(self.seconds, 3)
        return {
            n: str(v) if isinstance(v, float) and not math.isfinite(v) else v
            for n, v in row.items()
        }


_FIELDS = (
    "what", "where", "got", "allowed", "next", "trial", "seed", "index", "value", "expected",
    "ulps", "wrong_count", "map", "writer", "cause", "evidence", "schedule",
)  # fmt: skip
