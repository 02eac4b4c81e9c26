"""The result of one trial of a check."""

from __future__ import annotations

from dataclasses import dataclass


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
