"""Judges predictions by measured times: errors, and pairs of kernels whose order is right.

A row is a kernel, or a rung of a ladder with several, at one size: its measured seconds, and the
demand of each launch. Rows of one third of the kernels, chosen by a hash, may be used to fit
factors; errors are those of the other rows.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from weft.measure.profile.prediction.chain import Chain
from weft.measure.profile.prediction.constants import FITTED, Factors
from weft.measure.profile.prediction.demand import Demand
from weft.measure.profile.prediction.duration import joined, times

Row = Mapping[str, Any]
APART = 1.1
"""Two kernels are a pair if one takes so many times as long as the other."""
FIT_PART = 3
"""One kernel of so many is for the fit."""
UNSEEN_PART = 3
"""One call of so many shows its error only when a model is finished."""


@dataclass(frozen=True)
class Judgement:
    """The errors of predictions.

    rows      the number of rows
    median    the median of |predicted / measured - 1|; `most` is its 90th percentile
    within    the part of rows whose error is at most 35 %
    pairs     pairs of one ladder and size that differ; `ordered` is the part named right
    """

    rows: int
    median: float
    most: float
    within: float
    pairs: int
    ordered: float


def is_for_fit(row: Row) -> bool:
    """Return whether the factors may be fitted to a row: all sizes of a kernel are alike in it."""
    digest = hashlib.sha256(f"{row['ladder']}/{row['rung']}".encode()).digest()
    return digest[0] % FIT_PART == 0


def is_unseen(row: Row) -> bool:
    """Return whether the error of a row stays unknown while the shape of the model changes."""
    digest = hashlib.sha256(f"held {row['rung']}".encode()).digest()
    return digest[0] % UNSEEN_PART == 0


def predicted(row: Row, factors: Factors = FITTED) -> float:
    """The predicted seconds of all launches of a row."""
    return sum(_seconds(launch, factors) for launch in row["launches"])


def _seconds(launch: Row, factors: Factors) -> float:
    early, code = launch.get("early", False), launch.get("code", 0.0)
    waits = Chain(0.0, {}, launch.get("met", False))
    asked = Demand(launch["units"], launch["latency"], launch["wave"], waits, early, code)
    return joined(times(asked, factors), factors, early, waits.met)


def error(row: Row, factors: Factors = FITTED) -> float:
    """The relative error of a prediction, without its sign."""
    measured: float = row["measured"]
    return abs(predicted(row, factors) / measured - 1)


def judge(rows: Sequence[Row], factors: Factors = FITTED) -> Judgement:
    """The errors over some rows."""
    errors = sorted(error(row, factors) for row in rows)
    found = [
        (a, b)
        for a, b in combinations(rows, 2)
        if (a["ladder"], a["case"]) == (b["ladder"], b["case"]) and _differ(a, b)
    ]
    right = sum(_ordered(a, b, factors) for a, b in found)
    return Judgement(
        rows=len(rows),
        median=_quantile(errors, 0.5),
        most=_quantile(errors, 0.9),
        within=sum(e <= 0.35 for e in errors) / max(1, len(errors)),
        pairs=len(found),
        ordered=right / max(1, len(found)),
    )


def _differ(a: Row, b: Row) -> bool:
    low, high = sorted((a["measured"], b["measured"]))
    return bool(high > APART * low)


def _ordered(a: Row, b: Row, factors: Factors) -> bool:
    said = predicted(a, factors) < predicted(b, factors)
    return bool(said == (a["measured"] < b["measured"]))


def _quantile(values: Sequence[float], part: float) -> float:
    return values[min(len(values) - 1, math.floor(part * len(values)))] if values else 0.0


def rank_correlation(rows: Sequence[Row], factors: Factors = FITTED) -> float | None:
    """Spearman's rank correlation of predicted and measured times; None for fewer than 3 rows."""
    if len(rows) < 3:
        return None
    said = _ranks([predicted(row, factors) for row in rows])
    real = _ranks([row["measured"] for row in rows])
    n = len(rows)
    return 1 - 6 * sum((a - b) ** 2 for a, b in zip(said, real, strict=True)) / (n * (n * n - 1))


def _ranks(values: Sequence[float]) -> list[int]:
    order = sorted(range(len(values)), key=values.__getitem__)
    out = [0] * len(values)
    for rank, place in enumerate(order):
        out[place] = rank
    return out
